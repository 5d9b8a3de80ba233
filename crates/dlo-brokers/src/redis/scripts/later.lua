-- Puts off a publish. KEYS: stream, publishes put off. ARGV: milliseconds, 32 characters that nobody else has, fields
-- Returns 1, or 0 if there is no such stream.
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
local fields = {}
for at = 3, #ARGV do fields[at - 2] = ARGV[at] end
local time = redis.call('TIME')
local due = time[1] * 1000 + math.floor(time[2] / 1000) + tonumber(ARGV[1])
redis.call('ZADD', KEYS[2], string.format('%.0f', due), ARGV[2] .. cmsgpack.pack(fields))
return 1
