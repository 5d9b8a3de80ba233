-- Finds what a group left pending beyond its deliveries, and nobody works on now. Changes nothing.
-- KEYS: stream. ARGV: group, idle milliseconds, most deliveries, from this id on
-- Returns: spent {id, consumer, deliveries or -1 = fatal}, where to go on ('' at the end)
if redis.call('EXISTS', KEYS[1]) == 0 then return { {}, '' } end
local page = redis.pcall('XPENDING', KEYS[1], ARGV[1], 'IDLE', ARGV[2], ARGV[4], '+', 100)
if page.err then return { {}, '' } end
local spent = {}
for _, pending in ipairs(page) do
  local deliveries = tonumber(pending[4])
  if deliveries >= 9.2e18 then
    table.insert(spent, { pending[1], pending[2], -1 })
  elseif deliveries >= tonumber(ARGV[3]) then
    table.insert(spent, { pending[1], pending[2], deliveries })
  end
end
return { spent, #page == 100 and '(' .. page[100][1] or '' }
