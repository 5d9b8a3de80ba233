-- Adds an entry once per send. KEYS: stream, mark of the send, publishes put off
-- ARGV: milliseconds that the mark is kept, milliseconds to put it off (0 = now), 32 characters that nobody else has, fields
-- Returns 1 if it was added, 2 if it had been added before, 0 if there is no such stream, or why it could not be added.
-- The mark is set first: without the right to set it, or without memory for it, nothing is added. What cannot be added
-- empties the mark again, by the same command, so that nothing but memory is left of it.
local function mark(value) return redis.call('SET', KEYS[2], value, 'PX', ARGV[1]) end
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then
  if redis.call('GET', KEYS[2]) == '1' then return 2 end
  mark('1')
end
local added
local put_off = tonumber(ARGV[2])
if put_off > 0 then
  added = redis.call('EXISTS', KEYS[1]) == 1
  if added then
    local fields = {}
    for at = 4, #ARGV do fields[at - 3] = ARGV[at] end
    local time = redis.call('TIME')
    local due = time[1] * 1000 + math.floor(time[2] / 1000) + put_off
    added = redis.pcall('ZADD', KEYS[3], string.format('%.0f', due), ARGV[3] .. cmsgpack.pack(fields))
  end
else
  added = redis.pcall('XADD', KEYS[1], 'NOMKSTREAM', '*', unpack(ARGV, 4))
end
if type(added) == 'table' then
  mark('')
  return added
end
if not added then
  mark('')
  return 0
end
return 1
