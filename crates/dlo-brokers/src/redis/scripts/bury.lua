-- Moves one entry to the stream of dead letters, if its holder still has it.
-- KEYS: stream, stream of dead letters, retries put off. ARGV: group, id, holder, '1' = delete it as well, then the
-- fields of the dead letter. Returns 1 = moved, 0 = not there any more, -1 = there is no stream of dead letters
local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1)[1]
if not pending or pending[2] ~= ARGV[3] then return 0 end
if not redis.call('XADD', KEYS[2], 'NOMKSTREAM', '*', unpack(ARGV, 5)) then return -1 end
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZREM', KEYS[3], ARGV[2])
if ARGV[4] == '1' then redis.call('XDEL', KEYS[1], ARGV[2]) end
return 1
