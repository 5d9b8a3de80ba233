-- Adds an entry once per send. KEYS: stream, mark of the send, publishes put off
-- ARGV: milliseconds that the mark is kept, milliseconds to put it off (0 = now), 32 characters that nobody else has, fields
-- Returns 1 if it was added, 2 if it had been added before, or 0 if there is no such stream.
-- The mark is set before and after: without the right to set it, or without memory for it, nothing is added; and an empty
-- mark of a call that failed in between keeps nothing from being added.
local mark = redis.call('GET', KEYS[2])
if mark and mark ~= '' then return 2 end
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('SET', KEYS[2], '', 'PX', ARGV[1])
local put_off = tonumber(ARGV[2])
if put_off > 0 then
  local fields = {}
  for at = 4, #ARGV do fields[at - 3] = ARGV[at] end
  local time = redis.call('TIME')
  local due = time[1] * 1000 + math.floor(time[2] / 1000) + put_off
  redis.call('ZADD', KEYS[3], string.format('%.0f', due), ARGV[3] .. cmsgpack.pack(fields))
  redis.call('SET', KEYS[2], 'put off', 'PX', ARGV[1])
else
  local id = redis.call('XADD', KEYS[1], '*', unpack(ARGV, 4))
  redis.call('SET', KEYS[2], id, 'PX', ARGV[1])
end
return 1
