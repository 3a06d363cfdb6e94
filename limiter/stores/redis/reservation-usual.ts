/**
 * The Lua of the usual reserve and the usual settle: one counter of a fixed window, an id or marker of which nothing is known
 * or that is open in the present window, room for all, nothing to expire or to forget. It does what the general code does
 * (reservation-script.ts, reservation-records.ts) in one read and one write of each key.
 */

/** Stands behind `luaBase` and `luaBoundsSetUp`. Leaves at, key and text at the first call that is not usual. */
export const luaUsualReservations = `
if not now then return { '', redis.error_reply('NOPERM reservations need TIME: ' .. time.err) } end
local find, match, tonumber, type = string.find, string.match, tonumber, type
local nowMs = floor(now / 1000)
-- Scores of what is not open are so much higher.
local closed = 4503599627370496
-- Sums of numbers below are exact.
local plain = 100000000000000
-- Much cheaper than what Lua does to numbers in a text.
local format = string.format
-- Where long has 32 bits.
if format('%d', max) ~= '9007199254740991' then
  format = function(form, ...) return string.format(string.gsub(form, '%%d', '%%.0f'), ...) end
end
-- Each is, in words: what to do, its flags, how many counters it has, and how many in all places; then of each its bound,
-- window, flags, group, TTL and what becomes of it. A call is the number of its shape, the amounts of its counters, and their
-- lives, which by their jitter are another one each.
local shapes = {}
for word in string.gmatch(ARGV[3], '%S+') do words[#words + 1] = word end
local maxOpen, recordMs = tonumber(words[1]), tonumber(words[2])
for text in string.gmatch(ARGV[1], '[^;]+') do
  local bound = {}
  for part in string.gmatch(text, '%S+') do bound[#bound + 1] = tonumber(part) or part end
  bounds[#bounds + 1] = bound
end
for text in string.gmatch(ARGV[2], '[^;]+') do
  local shape = {}
  for word in string.gmatch(text, '%S+') do shape[#shape + 1] = word end
  local bound, flags = bounds[tonumber(shape[5])], shape[2]
  if shape[3] == '1' and bound[1] == 'fixed' and shape[6] ~= '-' and shape[7] == '-' then
    local ttl = tonumber(shape[9])
    shape.open, shape.capacity = 'o' .. shape[6], bound[2]
    shape.hasNote, shape.isMarker = flags == '-n', string.sub(flags, 1, 1) == 'm'
    if shape[1] == 's' then shape.isSettle = flags == '-' or flags == '-c' or flags == 'm' or flags == 'mc'
    elseif shape[1] == 'r' and ttl > 0 and (flags == '-' or flags == '-n' or flags == 'm') then
      -- All of a record and of an answer but the amounts.
      local due = format('%d', nowMs + ttl)
      shape.isReserve, shape.dueMs, shape.due, shape.lifeMs = true, nowMs + ttl, due, ttl + recordMs
      shape.opens, shape.closes = 'o' .. shape[10] .. ' ', ' 0:0:0 0 ' .. shape[4] .. ' '
      shape.between = ' ' .. shape[9] .. ' ' .. due .. ' ' .. shape[6] .. ' '
      shape.answer = 'reserved ' .. due .. ' 0 c '
    end
  end
  shapes[#shapes + 1] = shape
end
local at, key, text = 3, 1, 4
local told = {}

while at <= #words do
  local shape = shapes[tonumber(words[at])]
  local isUsual = false
  repeat
    if not shape.isReserve and not shape.isSettle then break end
    local hash, set, open, isMarker = KEYS[key + 1], KEYS[key + 2], shape.open, shape.isMarker
    local name = (isMarker and 'm:' or 'p') .. ARGV[text]
    local side = pcall('HMGET', hash, open, 'd', 'c', 'e', name)
    if side.err then break end
    local due, forget, ends, known = side[2], side[3], side[4], side[5]
    if due and tonumber(due) <= nowMs or forget and tonumber(forget) <= nowMs then break end
    local held = pcall('GET', KEYS[key])
    local total, count, taken = 0, 0, 0
    if held then
      if type(held) ~= 'string' or not find(held, '^%d+$') then break end
      total = tonumber(held)
    end
    if side[1] then
      count, taken = match(side[1], '^(%d+) (%d+)$')
      count, taken = tonumber(count), tonumber(taken)
      if not taken then break end
    end
    if total >= plain or taken >= plain then break end
    local amount = tonumber(words[at + 1])
    local first, next = 0, 0
    if isMarker and known then
      first, next = match(known, '^(%d+) (%d+)$')
      first, next = tonumber(first), tonumber(next)
      if not next then break end
    end
    local change, err, answer, changeText
    if shape.isReserve then
      if amount > shape.capacity - total or amount + total >= plain or amount + taken >= plain or count >= maxOpen then
        break
      end
      if known and not isMarker then break end
      if shape.hasNote then
        local noted = pcall('GET', KEYS[key + 3])
        if type(noted) == 'string' and noted ~= ARGV[text + 1] then break end
      end
      local dueMs, amountText = shape.dueMs, words[at + 1]
      if isMarker then name = format('%d:', next) .. ARGV[text] end
      count, taken, change = count + 1, taken + amount, amount
      err = pcall('ZADD', set, shape.due, name)
      if type(err) ~= 'table' then
        local record = shape.opens .. amountText .. shape.between .. amountText .. shape.closes
        local untilMs = dueMs + recordMs
        local isFirst, isLonger = not due or tonumber(due) > dueMs, not ends or tonumber(ends) < untilMs
        if not isFirst and not isLonger and not isMarker then
          err = pcall('HMSET', hash, name, record, open, format('%d %d', count, taken))
        else
          local endMs = isLonger and untilMs + 60000 + floor((untilMs - nowMs) / 8)
          if isFirst then due = shape.due end
          -- What is no marker has no line: its due time is written twice.
          err = pcall('HMSET', hash, name, record, open, format('%d %d', count, taken), 'd', due, 'e', endMs and format('%d', endMs) or ends,
            isMarker and 'm:' .. ARGV[text] or 'd', isMarker and format('%d %d', first, next + 1) or due)
          if endMs and not err.err then
            pcall('PEXPIRE', hash, endMs - nowMs)
            pcall('PEXPIRE', set, endMs - nowMs)
          end
        end
      end
      answer, changeText = shape.answer, amountText
    else
      if not known then break end
      local line = name
      if isMarker then
        if next ~= first + 1 then break end
        name = format('%d:', first) .. ARGV[text]
        known = pcall('HGET', hash, name)
        if type(known) ~= 'string' then break end
      end
      local onExpiry, reserved, ttl, dueMs, tail, took, width =
        match(known, '^o(%a) (%d+) (%d+) (%d+) (%d+) (%d+) %d+:%d+:%d+ %d+ (%d+) $')
      if tail ~= shape[6] or tonumber(dueMs) <= nowMs then break end
      local hits = tonumber(took)
      local wasReserved = tonumber(reserved)
      local actual, actualText = wasReserved, reserved
      if amount then actual, actualText = amount, words[at + 1] end
      if actual >= plain or wasReserved >= plain then break end
      if actual > wasReserved then change = actual - wasReserved
      else change = 0 - math.min(math.max(0, hits - actual), total) end
      if total + change >= plain then break end
      count, taken = math.max(0, count - 1), math.max(0, taken - hits)
      if isMarker then
        err = pcall('HMSET', hash, open, format('%d %d', count, taken))
        if not err.err then err = pcall('HDEL', hash, name, line) end
        if type(err) ~= 'table' then err = pcall('ZREM', set, name) end
      else
        local atMs = dueMs + recordMs
        if not ends or tonumber(ends) < atMs then break end
        err = pcall('ZADD', set, format('%d', closed + atMs), name)
        if type(err) ~= 'table' then
          local record = 's' .. onExpiry .. ' ' .. reserved .. ' ' .. ttl .. ' ' .. dueMs .. ' ' .. tail .. ' 0 0:0:0 ' .. actualText
            .. ' ' .. width .. ' '
          if forget and tonumber(forget) <= atMs then
            err = pcall('HMSET', hash, name, record, open, format('%d %d', count, taken))
          else
            err = pcall('HMSET', hash, name, record, open, format('%d %d', count, taken), 'c', format('%d', atMs))
          end
        end
      end
      answer, changeText = 'settled ' .. actualText .. ' ' .. reserved .. ' c ', format('%d', change)
    end
    if change ~= 0 and not (type(err) == 'table' and err.err) then
      if held then err = pcall('INCRBY', KEYS[key], changeText)
      else err = pcall('SETEX', KEYS[key], words[at + 2], changeText) end
    end
    isUsual = true
    if type(err) == 'table' and err.err then
      told[#told + 1] = '!'
      errors[#errors + 1] = err
      break
    end
    if shape.hasNote then pcall('PSETEX', KEYS[key + 3], shape.lifeMs, ARGV[text + 1]) end
    told[#told + 1] = answer .. format('%d 0 0 %d %d 0 ', total + change, taken, count) .. changeText .. ' 0'
  until true
  if not isUsual then break end
  at, key, text = at + 3, key + (shape.hasNote and 4 or 3), text + (shape.hasNote and 2 or 1)
end
`;
