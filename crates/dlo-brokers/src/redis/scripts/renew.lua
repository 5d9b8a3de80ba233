-- Says that I still hold what I hold. KEYS: stream. ARGV: group, me, idle milliseconds, from this id on
-- Returns where to go on, '' at the end.
local page = redis.call('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[3], ARGV[4], '+', 1000, ARGV[2])
for _, pending in ipairs(page) do
  redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, pending[1], 'JUSTID')
end
return #page == 1000 and '(' .. page[1000][1] or ''
