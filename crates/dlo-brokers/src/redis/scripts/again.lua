-- Puts entries that I hold where they wait for their next delivery; others are left alone.
-- KEYS: stream, retries put off. ARGV: group, me, returned, delayed, then pairs of id and milliseconds to wait
local stream, retries = KEYS[1], KEYS[2]
local group, me, returned, delayed = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 5, #ARGV, 2 do
  local id, wait = ARGV[at], tonumber(ARGV[at + 1])
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  if pending and pending[2] == me then
    if wait > 0 then
      redis.call('ZADD', retries, string.format('%.0f', now + wait), id)
      redis.call('XCLAIM', stream, group, delayed, 0, id, 'JUSTID')
    else
      redis.call('XCLAIM', stream, group, returned, 0, id, 'IDLE', 86400000, 'JUSTID')
    end
  end
end
return 1
