-- Hands back everything that I hold, with its counts, and leaves the group.
-- KEYS: stream. ARGV: group, me, returned. Returns how many were handed back.
local stream, group, me, returned = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local count = 0
while true do
  local page = redis.pcall('XPENDING', stream, group, '-', '+', 500, me)
  if page.err or #page == 0 then break end
  for _, pending in ipairs(page) do
    redis.call('XCLAIM', stream, group, returned, 0, pending[1], 'IDLE', 86400000, 'JUSTID')
    -- An entry that was deleted cannot change hands everywhere; it would be found again and again.
    local still = redis.call('XPENDING', stream, group, pending[1], pending[1], 1)[1]
    if still and still[2] == me then redis.call('XACK', stream, group, pending[1]) end
  end
  count = count + #page
end
redis.pcall('XGROUP', 'DELCONSUMER', stream, group, me)
return count
