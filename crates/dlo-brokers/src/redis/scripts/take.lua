-- Takes what waits to be delivered again, and publishes what was put off and is due.
-- KEYS: stream, publishes put off, retries put off, stream of dead letters
-- ARGV: group, me, most, my own from this id on ('' = not), returned, delayed,
--       what idles from this id on ('' = not), idle milliseconds, most deliveries (0 = any number)
-- Returns: taken {id, fields, deliveries}, spent {id, consumer, deliveries or -1 = fatal}, milliseconds to the next due
--          one (-1 = none), where to go on with my own, where to go on with what idles, entries that were gone
local stream, publishes, retries, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local group, me, most, own, returned, delayed = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5], ARGV[6]
local idling, idle, limit = ARGV[7], ARGV[8], tonumber(ARGV[9])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local has_dead = redis.call('EXISTS', dead) == 1
local taken, spent, gone = {}, {}, 0

for _, member in ipairs(redis.call('ZRANGEBYSCORE', publishes, '-inf', now, 'LIMIT', 0, 100)) do
  -- Without memory for it, it stays where it is, and consuming goes on.
  local added = redis.pcall('XADD', stream, 'NOMKSTREAM', '*', unpack(cmsgpack.unpack(string.sub(member, 33))))
  if type(added) == 'string' then redis.call('ZREM', publishes, member) end
end

local function take(pending)
  local id, deliveries = pending[1], tonumber(pending[4])
  local fatal = deliveries >= 9.2e18
  if fatal or (limit > 0 and has_dead and deliveries >= limit) then
    if has_dead then table.insert(spent, { id, pending[2], fatal and -1 or deliveries }) end
    return
  end
  local entry = redis.call('XCLAIM', stream, group, me, 0, id)[1]
  redis.call('ZREM', retries, id)
  if entry and entry[2] then
    table.insert(taken, { id, entry[2], deliveries + 1 })
  else
    redis.call('XACK', stream, group, id)
    gone = gone + 1
  end
end

-- The next page, when this one was full.
local function after(page, full)
  return #page >= full and '(' .. page[#page][1] or ''
end

if own ~= '' then
  local page = redis.call('XPENDING', stream, group, own, '+', most, me)
  for _, pending in ipairs(page) do take(pending) end
  own = after(page, most)
end

for _, id in ipairs(redis.call('ZRANGEBYSCORE', retries, '-inf', now, 'LIMIT', 0, most)) do
  local pending = redis.call('XPENDING', stream, group, id, id, 1)[1]
  -- One that somebody else claimed or acknowledged waits for nothing any more.
  if pending and pending[2] == delayed then take(pending) else redis.call('ZREM', retries, id) end
end

if #taken < most then
  for _, pending in ipairs(redis.call('XPENDING', stream, group, '-', '+', most - #taken, returned)) do take(pending) end
end

if idling ~= '' then
  local page = redis.call('XPENDING', stream, group, 'IDLE', idle, idling, '+', 100)
  for _, pending in ipairs(page) do
    local by = pending[2]
    -- What waits for its time is not idle; but if its time was lost, it would wait for ever.
    if by ~= me and by ~= returned and (by ~= delayed or not redis.call('ZSCORE', retries, pending[1])) then
      take(pending)
    end
  end
  idling = after(page, 100)
  -- Consumers of ours that died leave their names behind. One without entries loses nothing, and a living one is made
  -- anew by its next read.
  if idling == '' then
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
      local name, pending, since = consumer[2], consumer[4], consumer[6]
      if string.sub(name, 1, 4) == 'dlo-' and name ~= me and pending == 0 and since > 10 * tonumber(idle) then
        redis.call('XGROUP', 'DELCONSUMER', stream, group, name)
      end
    end
  end
end

local wait = -1
for _, key in ipairs({ publishes, retries }) do
  local first = redis.call('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first[2] then
    local left = math.max(0, tonumber(first[2]) - now)
    if wait < 0 or left < wait then wait = left end
  end
end
return { taken, spent, wait, own, idling, gone }
