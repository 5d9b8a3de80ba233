-- A look at a stream as a group sees it. Changes nothing. KEYS: stream, publishes put off, retries put off
-- ARGV: group ('' = none), returned, delayed
-- Returns false if it is not there, else: length, last id ever, oldest undelivered id or '', publishes put off,
-- consumers, and with a group that exists also: undelivered (-1 = unknown), pending, of these returned or delayed,
-- highest count among the first hundred pending.
local function facts(list)
  local map = {}
  for at = 1, #list, 2 do map[list[at]] = list[at + 1] end
  return map
end
local stream, wanted, returned, delayed = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', stream) == 0 then return false end
local info = facts(redis.call('XINFO', 'STREAM', stream))
local consumers, group = 0, nil
for _, one in ipairs(redis.call('XINFO', 'GROUPS', stream)) do
  one = facts(one)
  if wanted == '' or one.name == wanted then
    if wanted ~= '' then group = one end
    for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, one.name)) do
      local name = facts(consumer).name
      if name ~= returned and name ~= delayed then consumers = consumers + 1 end
    end
  end
end
local delivered = group and group['last-delivered-id'] or '0-0'
local oldest = redis.call('XRANGE', stream, '(' .. delivered, '+', 'COUNT', 1)[1]
local answer = { info.length, info['last-generated-id'], oldest and oldest[1] or '', redis.call('ZCARD', KEYS[2]), consumers }
if not group then return answer end

-- Where entries were deleted in the middle the server does not know the lag: it is counted, up to a bound.
local lag = tonumber(group.lag)
if not lag then
  lag = 0
  local from = delivered
  while lag >= 0 do
    local page = redis.call('XRANGE', stream, '(' .. from, '+', 'COUNT', 200)
    lag = lag + #page
    if #page < 200 then break end
    from = page[#page][1]
    if lag >= 10000 then lag = -1 end
  end
end
local waiting = 0
for _, consumer in ipairs(redis.call('XPENDING', stream, wanted)[4] or {}) do
  if consumer[1] == returned or consumer[1] == delayed then waiting = waiting + tonumber(consumer[2]) end
end
local highest = 0
for _, pending in ipairs(redis.call('XPENDING', stream, wanted, '-', '+', 100)) do
  local count = tonumber(pending[4])
  if count < 9.2e18 and count > highest then highest = count end
end
for _, number in ipairs({ lag, group.pending, waiting, highest }) do table.insert(answer, number) end
return answer
