/**
 * What stands in Redis beside a counter on which something is reserved (`reservationKeysOf`), a hash and a sorted set, and the
 * Lua that reads and writes it. charges.ts has the same of what is charged and given back.
 *
 * The hash has a record of each reservation, `p<id>`. Those of a marker stand in three lines, of what is open, of what expired
 * charged and of what holds nothing: `<number>:<id>`, `<number>;<id>` and `<number>!<id>`; `m:<id>` and the like say the first
 * number and the next one. Further fields: `o<window>` how many are open that were charged in it, and what they took; `g` of a
 * bucket what may still be given back, and what was, as a time; `l` how many of markers hold nothing; `d` and `c` when there is
 * something to expire and to forget at the earliest; `e` when both keys end. The set has the names of all records: open ones by
 * when they are due, others by when they are forgotten, behind all open ones.
 */

/** Stands behind `luaCounting` and `luaBounds`. */
export const luaReservations = `
local nowMs = now and floor(now / 1000)
-- Scores of what is not open are so much higher.
local closed = 4503599627370496
local perSweep = 64
local maxOpen, recordMs
-- What is read is kept until the end, and all is written then: what cannot be written is so refused at the first write.
local sides, counters, sideList, counterList = {}, {}, {}, {}
local failure

local function number(text) return string.format('%.0f', text) end

-- A field of a side's hash, false where there is none.
local function get(side, field)
  local text = side.fields[field]
  if text == nil then
    text = pcall('HGET', side.hash, field)
    if type(text) == 'table' then
      failure = text
      return false
    end
    side.fields[field] = text
  end
  return text
end

local function put(side, field, text)
  side.fields[field] = text
  side.dirty[field] = true
end

local function getNumber(side, field) return tonumber(get(side, field) or 0) or 0 end

-- A record: what it is (o: open, s: settled, x: expired and given back, c: expired and charged, l: holding nothing, e: that
-- and settled), what becomes of it (r or c), amount, TTL, when it is due, its window, what was taken, what the counter held
-- then, what was charged in the end, how many counters the call had, and of a bucket what was in g before.
local recordForm = '^(%a)(%a) (%d+) (%d+) (%d+) (%d*) (%d+) (%d+):(%d+):(%d+) (%d+) (%d+) ?(.*)$'

local function recordOf(side, name)
  local text = get(side, name)
  if not text then return nil end
  local state, onExpiry, amount, ttl, due, tail, taken, a, b, c, charged, width, back = string.match(text, recordForm)
  if not state then return nil end
  return {
    state = state, onExpiry = onExpiry, amount = tonumber(amount), ttl = tonumber(ttl), due = tonumber(due), tail = tail,
    taken = tonumber(taken), a = tonumber(a), b = tonumber(b), c = tonumber(c), charged = tonumber(charged), width = tonumber(width),
    back = back, isEmpty = state == 'l' or state == 'e',
  }
end

local function keep(side, name, r)
  put(side, name, string.format('%s%s %.0f %.0f %.0f %s %.0f %.0f:%.0f:%.0f %.0f %.0f %s', r.state, r.onExpiry, r.amount, r.ttl,
    r.due, r.tail, r.taken, r.a, r.b, r.c, r.charged, r.width, r.back))
end

-- Reads those records that were not read yet.
local function prefetch(side, names)
  local unread = {}
  for i = 1, #names do
    if side.fields[names[i]] == nil then unread[#unread + 1] = names[i] end
  end
  if #unread == 0 then return end
  local texts = pcall('HMGET', side.hash, unpack(unread))
  if texts.err then
    failure = texts
    return
  end
  for i = 1, #unread do side.fields[unread[i]] = texts[i] end
end

local function sideOf(hash, set, tail, name)
  local side = sides[hash]
  if side then return side end
  side = { hash = hash, set = set, fields = {}, dirty = {}, scores = {}, at = 0, least = closed, ends = 0, over = {} }
  local open = 'o' .. tail
  local read = pcall('HMGET', hash, open, 'd', 'c', 'e', name)
  if read.err then return nil, read end
  local fields = side.fields
  fields[open], fields.d, fields.c, fields.e, fields[name] = read[1], read[2], read[3], read[4], read[5]
  sides[hash] = side
  sideList[#sideList + 1] = side
  return side
end

local function counterOf(key, side, tail, bound, life)
  local counter = counters[key]
  if not counter then
    local text, a, b, c = read(key, bound)
    if type(text) == 'table' then return nil, text end
    counter = { key = key, text = text }
    counter.a, counter.b, counter.c = heldAt(bound, a, b, c)
    counters[key] = counter
    counterList[#counterList + 1] = counter
  else
    counter.a, counter.b, counter.c = heldAt(bound, counter.a, counter.b, counter.c)
  end
  counter.side, counter.tail, counter.bound, counter.life = side, tail, bound, life
  return counter
end

-- How many of a window are open, and what they took.
local function openOf(side, tail)
  local count, taken = string.match(get(side, 'o' .. tail) or '', '^(%d+) (%d+)$')
  return tonumber(count) or 0, tonumber(taken) or 0
end

local function addOpen(counter, tail, more, hits)
  local count, taken = openOf(counter.side, tail)
  count, taken = math.max(0, count + more), math.max(0, taken + hits)
  -- That of the present window is most likely needed again.
  local isGone = count == 0 and tail ~= counter.tail
  put(counter.side, 'o' .. tail, not isGone and number(count) .. ' ' .. number(taken))
end

-- Both keys live until then.
local function live(side, untilMs)
  if untilMs > getNumber(side, 'e') then
    side.ends = untilMs + 60000 + floor((untilMs - nowMs) / 8)
    put(side, 'e', number(side.ends))
  end
end

local function forgetAt(side, name, atMs)
  side.scores[name] = closed + atMs
  local first = get(side, 'c')
  if not first or tonumber(first) > atMs then put(side, 'c', number(atMs)) end
  live(side, atMs)
end

-- The first number in a marker's line, which is named by its sign and the id, and the next one.
local function lineOf(side, line)
  local first, next = string.match(get(side, 'm' .. line) or '', '^(%d+) (%d+)$')
  return tonumber(first) or 0, tonumber(next) or 0
end

-- Gives the name of one more.
local function lineUp(side, line)
  local first, next = lineOf(side, line)
  put(side, 'm' .. line, number(first) .. ' ' .. number(next + 1))
  return number(next) .. line
end

-- The first one is always there.
local function leaveLine(side, line)
  local first, next = lineOf(side, line)
  while first < next and not get(side, number(first) .. line) do first = first + 1 end
  put(side, 'm' .. line, first < next and number(first) .. ' ' .. number(next))
end

local function chargeAnyway(counter, hits)
  local bound, a, b, c = counter.bound, counter.a, counter.b, counter.c
  local most
  if bound[1] == 'bucket' then most = room(bound, a, b, c)
  elseif bound[1] == 'fixed' then most = max - a
  else most = math.max(0, max - b - c) end
  local taken = math.min(hits, most)
  if taken > 0 then
    counter.a, counter.b, counter.c = take(bound, a, b, c, taken)
    counter.changed = true
  end
  return taken
end

-- Of a bucket: hits that may still be given back, and what was, as a time.
local function returnedOf(side)
  local hits, whole, rest, parts = string.match(get(side, 'g') or '', '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(hits) or 0, tonumber(whole) or 0, tonumber(rest) or 0, tonumber(parts) or 1
end

local function putReturned(side, hits, whole, rest, parts)
  put(side, 'g', string.format('%.0f %.0f %.0f %.0f', math.max(0, hits), whole, rest, parts))
end

-- What a record took is given back now, or never.
local function noMoreOf(side, record)
  if record.back == '' then return end
  local hits, whole, rest, parts = returnedOf(side)
  putReturned(side, hits - record.taken, whole, rest, parts)
end

local function minus(whole, rest, less, lessRest, parts)
  if rest < lessRest then return whole - less - 1, rest - lessRest + parts end
  return whole - less, rest - lessRest
end

-- What of the charge has not come back by itself: see charges.ts.
local function giveBackToBucket(counter, record, hits)
  local bound, side = counter.bound, counter.side
  local parts = bound[3]
  local function inParts(whole, rest, of)
    if of == parts or rest == 0 then return whole, rest end
    return whole + 1, 0
  end
  local returnable, whole, rest, of = returnedOf(side)
  whole, rest = inParts(whole, rest, of)
  local others, former, formerRest, formerOf = string.match(record.back, '^(%d+) (%d+) (%d+) (%d+)$')
  former, formerRest = inParts(tonumber(former), tonumber(formerRest), tonumber(formerOf))
  local since, sinceRest = minus(whole, rest, former, formerRest, parts)
  local most, mostRest = take(bound, 0, 0, parts, math.min(bound[2], tonumber(others)))
  if most < since or (most == since and mostRest < sinceRest) then since, sinceRest = most, mostRest end
  local own, ownRest = heldAt(bound, record.a, record.b, record.c)
  own, ownRest = minus(own, ownRest, since, sinceRest, parts)
  own, ownRest = heldAt(bound, own, ownRest, parts)
  local left = bound[2] - room(bound, own, ownRest, parts)
  local given = math.min(hits, left)
  if given == 0 then return 0 end
  local less, lessRest = own - now, ownRest
  if given < left then less, lessRest = take(bound, 0, 0, parts, given) end
  local after, afterRest = minus(counter.a, counter.b, less, lessRest, parts)
  after, afterRest = heldAt(bound, after, afterRest, parts)
  less, lessRest = minus(counter.a, counter.b, after, afterRest, parts)
  whole, rest = whole + less, rest + lessRest
  if rest >= parts then whole, rest = whole + 1, rest - parts end
  putReturned(side, returnable, whole, rest, parts)
  counter.a, counter.b = after, afterRest
  return given
end

local function giveBackOf(counter, record, hits)
  local bound, a, b, c = counter.bound, counter.a, counter.b, counter.c
  local wanted, given = math.max(0, math.min(hits, record.taken)), 0
  if bound[1] == 'fixed' then
    if record.tail == counter.tail then given = math.min(wanted, a) end
    a = a - given
  elseif bound[1] == 'bucket' then
    given = giveBackToBucket(counter, record, wanted)
  elseif record.a >= a then
    given = math.min(wanted, c)
    c = c - given
  elseif record.a == a - 1 then
    given = math.min(wanted, b)
    b = b - given
  end
  if given > 0 then
    if bound[1] ~= 'bucket' then counter.a, counter.b, counter.c = a, b, c end
    counter.changed = true
  end
  return given
end

local function drop(side, name, record)
  put(side, name, false)
  side.scores[name] = false
  if record and record.state == 'c' then noMoreOf(side, record) end
  local line = string.match(name, '^%d+([:;!].*)$')
  if not line then return end
  leaveLine(side, line)
  if record and record.state == 'l' then put(side, 'l', number(math.max(0, getNumber(side, 'l') - 1))) end
end

-- An open one whose time is over. Gives its name.
local function expire(counter, name, record)
  local side = counter.side
  addOpen(counter, record.tail, -1, -record.taken)
  if record.onExpiry == 'r' then
    counter.givenBack = counter.givenBack + giveBackOf(counter, record, record.taken)
    noMoreOf(side, record)
    record.state = 'x'
    if string.sub(name, 1, 1) ~= 'p' then
      drop(side, name, record)
      return name
    end
  else
    local id = string.match(name, '^%d+:(.*)$')
    if id then
      drop(side, name, record)
      name = lineUp(side, ';' .. id)
    end
    record.state, record.charged = 'c', record.amount
  end
  if record.due + recordMs <= nowMs then
    drop(side, name, record)
    return name
  end
  keep(side, name, record)
  forgetAt(side, name, record.due + recordMs)
  return name
end

local function forget(side)
  local first = get(side, 'c')
  if not first or tonumber(first) > nowMs then return end
  local found = pcall('ZRANGEBYSCORE', side.set, closed, '+inf', 'WITHSCORES', 'LIMIT', 0, perSweep)
  if found.err then
    failure = found
    return
  end
  local next = false
  for i = 1, #found, 2 do
    next = tonumber(found[i + 1]) - closed
    if next > nowMs then break end
    drop(side, found[i], recordOf(side, found[i]))
    next = #found == 2 * perSweep and next
  end
  put(side, 'c', next and number(next))
end

-- Expires some of what is due; true where there may be more.
local function sweep(counter)
  local side = counter.side
  -- Made by this script, without any TTL.
  for i = #side.over, 1, -1 do
    local record = recordOf(side, side.over[i])
    if record and record.state == 'o' then expire(counter, side.over[i], record) end
    side.over[i] = nil
  end
  local due = get(side, 'd')
  if not due or tonumber(due) > nowMs then return false end
  local found = pcall('ZRANGE', side.set, side.at, side.at + perSweep - 1, 'WITHSCORES')
  if found.err then
    failure = found
    return false
  end
  local names = {}
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) <= nowMs then names[#names + 1] = found[i] end
  end
  prefetch(side, names)
  local next = closed
  for i = 1, #found, 2 do
    next = tonumber(found[i + 1])
    if next > nowMs then break end
    next = closed
    side.at = side.at + 1
    local record = recordOf(side, found[i])
    if not record then side.scores[found[i]] = false
    elseif record.state == 'o' then expire(counter, found[i], record) end
  end
  -- All of them were due: what is settled or forgotten has higher scores.
  if next == closed and #found == 2 * perSweep then return true end
  next = math.min(next, side.least)
  put(side, 'd', next < closed and number(next))
  return false
end

-- When the oldest of those that are due next was made.
local function oldestOf(counter)
  local side = counter.side
  local found = pcall('ZRANGE', side.set, side.at, side.at + perSweep - 1)
  if found.err then
    failure = found
    return 0
  end
  prefetch(side, found)
  local oldest = 0
  for i = 1, #found do
    local record = recordOf(side, found[i])
    if record and record.state == 'o' and record.tail == counter.tail then
      local made = record.due - record.ttl
      if oldest == 0 or made < oldest then oldest = made end
    end
  end
  return oldest
end

-- Of a list with two items for each of its fields, in parts: a command takes no more.
local function inParts(command, key, list)
  for i = 1, #list, 1000 do
    local wrote = pcall(command, key, unpack(list, i, math.min(#list, i + 999)))
    if type(wrote) == 'table' and wrote.err then return wrote end
  end
end

local function writeSide(side)
  local scored, gone = {}, {}
  for name, score in pairs(side.scores) do
    if score then
      scored[#scored + 1] = number(score)
      scored[#scored + 1] = name
    else
      gone[#gone + 1] = name
    end
  end
  local set, unset = {}, {}
  for field in pairs(side.dirty) do
    local text = side.fields[field]
    if text then
      set[#set + 1] = field
      set[#set + 1] = text
    else
      unset[#unset + 1] = field
    end
  end
  local err = inParts('ZADD', side.set, scored) or inParts('HMSET', side.hash, set)
    or inParts('HDEL', side.hash, unset) or inParts('ZREM', side.set, gone)
  if not err and side.ends > 0 then
    pcall('PEXPIRE', side.hash, number(side.ends - nowMs))
    pcall('PEXPIRE', side.set, number(side.ends - nowMs))
  end
  return err
end

local function writeAll()
  for i = 1, #sideList do
    local err = writeSide(sideList[i])
    if err then return err end
  end
  for i = 1, #counterList do
    local one = counterList[i]
    if one.changed then
      local wrote = write(one.key, one.bound, one.life, one.text, one.a, one.b, one.c)
      if type(wrote) == 'table' and wrote.err then return wrote end
    end
  end
end
`;
