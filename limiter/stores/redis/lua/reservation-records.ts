/**
 * The data in Redis beside a counter with reservations (`reservationKeysOf`): a hash and a sorted set, and the Lua that reads and
 * writes them.
 *
 * The hash has a record of each reservation, `p<id>`. Records of a marker are in three lines, for open ones, those that expired and
 * stay charged, and those that hold nothing: `<number>:<id>`, `<number>;<id>` and `<number>!<id>`. `m:<id>` and similar fields hold
 * the first number of a line and the next one. They are missing for a line that has only the number 0. `h` is the head
 * (reservation-fast-path.ts). Further fields: `o<window>` is like the beginning of the head, for another window; `g` is, for a
 * bucket, what may still be given back, and what was, as a time; `l` is the number of markers that hold nothing. The set has the
 * names of all records: open ones by the time at which they are due, others, after all open ones, by the time at which they are
 * forgotten. Records that were settled before their TTL remain among the open ones until they are swept.
 */
import { luaOfAlgorithms } from './bounded-scripts.ts';

/** Lua that follows `luaReservationSetUp` and `luaBoundKinds`. */
export const luaReservations = `
${luaOfAlgorithms('maxTaken')}
${luaOfAlgorithms('giveBackOf')}
-- The table of the functions: each local that a function refers to makes the next functions more expensive to create.
local my = {}
-- Values are read once for several calls, and then all are written (reservation-writes.ts).
local sides, counters, sideList, counterList
local failure, isShort

function my.number(text) return format('%d', text) end

-- Returns a field of a side's hash, false if there is none.
function my.get(side, field)
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

function my.put(side, field, text)
  side.fields[field] = text
  side.dirty[field] = true
end

function my.getNumber(side, field) return tonumber(my.get(side, field) or 0) or 0 end

-- A record has its state (o: open, s: settled, x: expired and given back, c: expired and charged, l: holding nothing, e: holding
-- nothing and settled), its effect on expiry (r or c), its window, amount, TTL, the time at which it is due, and how many counters
-- and descriptors the call had. Then follow what was taken, what the counter held then, what was charged in the end, and for a bucket
-- what was in g before. Without these, the amount was taken. A record that the fast path settled has s, what was charged, and the
-- record before.
local recordForm, moreForm = '^(%a)(%a)(%d*) (%d+) (%d+) (%d+) (%d+) (%d+)(.*)$', '^ (%d+) (%d+):(%d+):(%d+) (%d+) ?(.*)$'

function my.recordOf(side, name)
  local text = my.get(side, name)
  if not text then return nil end
  local settled, before = match(text, '^s(%d+) (o.*)$')
  local state, onExpiry, tail, amount, ttl, due, width, descriptors, more = match(before or text, recordForm)
  if not state then return nil end
  local record = {
    state = state, onExpiry = onExpiry, tail = tail, amount = tonumber(amount), ttl = tonumber(ttl), due = tonumber(due),
    width = tonumber(width), descriptors = tonumber(descriptors), isEmpty = state == 'l' or state == 'e', back = '',
  }
  if more == '' then
    record.taken, record.a, record.b, record.c, record.charged = record.amount, 0, 0, 0, 0
  else
    local taken, a, b, c, charged, back = match(more, moreForm)
    if not taken then return nil end
    record.taken, record.a, record.b, record.c = tonumber(taken), tonumber(a), tonumber(b), tonumber(c)
    record.charged, record.back = tonumber(charged), back
  end
  if settled then record.state, record.taken, record.charged = 's', 0, tonumber(settled) end
  return record
end

function my.keep(side, name, r)
  local text = format('%s%s%s %d %d %d %d %d', r.state, r.onExpiry, r.tail, r.amount, r.ttl, r.due, r.width, r.descriptors)
  if not r.isShort then text = format('%s %d %d:%d:%d %d %s', text, r.taken, r.a, r.b, r.c, r.charged, r.back) end
  my.put(side, name, text)
end

-- Reads those records that were not read yet.
function my.prefetch(side, names)
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

-- Reads records in the order of their times, without those that wait to be forgotten. Returns their names, and the names with scores.
function my.page(side, at, size)
  local found = pcall('ZRANGE', side.set, at, at + size - 1, 'WITHSCORES')
  if found.err then
    failure = found
    return
  end
  local names = {}
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) >= closed then break end
    names[#names + 1] = found[i]
  end
  my.prefetch(side, names)
  return names, found
end

-- Returns a side. The name is that of the record that the call most likely needs.
function my.sideOf(hash, set, name)
  local side = sides[hash]
  if side then return side end
  local read = pcall('HMGET', hash, 'h', name)
  if read.err then return nil, read end
  side = {
    hash = hash, set = set, fields = { [name] = read[2] }, dirty = {}, scores = {}, at = 0, least = closed, over = {},
    window = '-', count = 0, taken = 0, due = closed, forget = closed, ends = 0, others = 0,
  }
  local head = read[1]
  if head and #head == headBytes then
    local window
    window, side.count, side.taken, side.due, side.forget, side.ends, side.others = unpackHead(headForm, head)
    side.window = window < 0 and '' or my.number(window)
  end
  sides[hash] = side
  sideList[#sideList + 1] = side
  return side
end

function my.counterOf(key, side, tail, bound, life)
  local counter = counters[key]
  if not counter then
    local text, a, b, c = read(key, bound)
    if type(text) == 'table' then return nil, text end
    counter = { key = key, text = text }
    counter.a, counter.b, counter.c = stateAt(bound, a, b, c)
    counters[key] = counter
    counterList[#counterList + 1] = counter
  else
    counter.a, counter.b, counter.c = stateAt(bound, counter.a, counter.b, counter.c)
  end
  counter.side, counter.tail, counter.bound, counter.life = side, tail, bound, life
  return counter
end

-- Returns how many records of a window are open, and what they took.
function my.openOf(side, tail)
  if side.window == tail then return side.count, side.taken end
  local count, taken = match(my.get(side, 'o' .. tail) or '', '^(%d+) (%d+)$')
  return tonumber(count) or 0, tonumber(taken) or 0
end

function my.addOpen(side, tail, more, hits)
  local count, taken = my.openOf(side, tail)
  count, taken = math.max(0, count + more), math.max(0, taken + hits)
  side.isChanged = true
  if side.window == tail then
    side.count, side.taken = count, taken
  else
    my.put(side, 'o' .. tail, count > 0 and my.number(count) .. ' ' .. my.number(taken))
    side.others = math.max(0, side.others + more)
  end
end

-- Makes the head that of the latest window. No record of a later one is open.
function my.turnTo(side, tail)
  if side.window == tail or (tonumber(side.window) or -1) > (tonumber(tail) or -1) then return end
  if side.count > 0 then my.put(side, 'o' .. side.window, my.number(side.count) .. ' ' .. my.number(side.taken)) end
  side.others = side.others + side.count
  side.window, side.count, side.taken, side.isChanged = tail, 0, 0, true
end

-- Makes both keys live until this time.
function my.live(side, untilMs)
  if untilMs > side.ends then
    side.ends, side.isChanged, side.isLonger = untilMs + 60000 + floor((untilMs - nowMs) / 8), true, true
  end
end

function my.forgetAt(side, name, atMs)
  side.scores[name] = closed + atMs
  if side.forget > atMs then side.forget, side.isChanged = atMs, true end
  my.live(side, atMs)
end

-- Returns the first number in a marker's line, which is named by its sign and the id, and the next one.
function my.lineOf(side, line)
  local text = my.get(side, 'm' .. line)
  local first, next = match(text or '', '^(%d+) (%d+)$')
  if first then return tonumber(first), tonumber(next), true end
  return 0, my.get(side, '0' .. line) and 1 or 0, false
end

function my.putLine(side, line, text, wasThere)
  if not text ~= not wasThere then side.others, side.isChanged = math.max(0, side.others + (text and 1 or -1)), true end
  if text or wasThere then my.put(side, 'm' .. line, text) end
end

-- Adds a record to a line and returns its name.
function my.lineUp(side, line)
  local first, next, isThere = my.lineOf(side, line)
  if next > 0 then my.putLine(side, line, my.number(first) .. ' ' .. my.number(next + 1), isThere) end
  return my.number(next) .. line
end

-- Updates a line after a record was dropped, so that its first number always names a record.
function my.leaveLine(side, line)
  local first, next, isThere = my.lineOf(side, line)
  if not isThere then return end
  while first < next and not my.get(side, my.number(first) .. line) do first = first + 1 end
  my.putLine(side, line, first < next and my.number(first) .. ' ' .. my.number(next), true)
end

function my.chargeAnyway(counter, hits)
  local bound, a, b, c = counter.bound, counter.a, counter.b, counter.c
  local taken = math.min(hits, maxTaken(bound, a, b, c))
  if taken > 0 then
    counter.a, counter.b, counter.c = take(bound, a, b, c, taken)
    counter.changed = true
  end
  return taken
end

-- Returns, for a bucket, the hits that may still be given back, and those that were, as a time.
function my.returnedOf(side)
  local hits, whole, rest, parts = match(my.get(side, 'g') or '', '^(%d+) (%d+) (%d+) (%d+)$')
  return tonumber(hits) or 0, tonumber(whole) or 0, tonumber(rest) or 0, tonumber(parts) or 1
end

function my.putReturned(side, hits, whole, rest, parts)
  my.put(side, 'g', format('%d %d %d %d', math.max(0, hits), whole, rest, parts))
end

-- Records that what a record took cannot be given back any more.
function my.endRefunds(side, record)
  if record.back == '' then return end
  local hits, whole, rest, parts = my.returnedOf(side)
  my.putReturned(side, hits - record.taken, whole, rest, parts)
end

-- Gives back hits as far as the counter still counts them.
function my.giveBackOf(counter, record, hits)
  local side, charge = counter.side, { a = record.a, b = record.b, c = record.c, isHere = record.tail == counter.tail }
  local returned, returnable
  if record.back ~= '' then
    local others, whole, rest, parts = match(record.back, '^(%d+) (%d+) (%d+) (%d+)$')
    charge.others, charge.returned = tonumber(others), { tonumber(whole), tonumber(rest), tonumber(parts) }
    returnable, whole, rest, parts = my.returnedOf(side)
    returned = { whole, rest, parts }
  end
  local most = math.max(0, math.min(hits, record.taken))
  local a, b, c, given = giveBackOf(counter.bound, counter.a, counter.b, counter.c, most, charge, returned)
  if given > 0 then
    counter.a, counter.b, counter.c, counter.changed = a, b, c, true
    if returned then my.putReturned(side, returnable, returned[1], returned[2], returned[3]) end
  end
  return given
end

function my.drop(side, name, record)
  my.put(side, name, false)
  side.scores[name] = false
  if record and record.state == 'c' then my.endRefunds(side, record) end
  if string.byte(name) == 112 then return end
  local line = match(name, '^%d+([:;!].*)$')
  if not line then return end
  my.leaveLine(side, line)
  if record and record.state == 'l' then my.put(side, 'l', my.number(math.max(0, my.getNumber(side, 'l') - 1))) end
end

-- Ends an open record that charges nothing any more. Returns whether it is of no further use.
function my.isReleased(side, name, record)
  my.endRefunds(side, record)
  record.state = 'x'
  local isMarker = string.byte(name) ~= 112
  if isMarker then my.drop(side, name, record) end
  return isMarker
end

-- Keeps a record that is no longer open until its commit can no longer be late.
function my.remember(side, name, record)
  if record.due + recordMs <= nowMs then return my.drop(side, name, record) end
  my.keep(side, name, record)
  my.forgetAt(side, name, record.due + recordMs)
end

-- Expires an open record whose time is over. Returns its name.
function my.expire(counter, name, record)
  local side = counter.side
  local lost = my.lostOf(counter, record)
  my.addOpen(side, record.tail, -1, -record.taken)
  if record.onExpiry == 'r' then
    counter.givenBack = counter.givenBack + my.giveBackOf(counter, record, record.taken - lost)
    if my.isReleased(side, name, record) then return name end
  else
    local id = match(name, '^%d+:(.*)$')
    if id then
      my.drop(side, name, record)
      name = my.lineUp(side, ';' .. id)
    end
    record.state, record.charged = 'c', record.amount
  end
  my.remember(side, name, record)
  return name
end

function my.forget(counter)
  local side = counter.side
  if side.forget > nowMs or left <= 0 then return end
  -- Some may still be among the open ones.
  local isMore, parts = true, 0
  while isMore and parts < 3 do isMore, parts = my.sweep(counter, true), parts + 1 end
  local found = pcall('ZRANGEBYSCORE', side.set, closed, '+inf', 'WITHSCORES', 'LIMIT', 0, 100)
  if found.err then
    failure = found
    return
  end
  local names, next = {}, closed
  for i = 1, #found, 2 do
    next = tonumber(found[i + 1]) - closed
    if next > nowMs then break end
    names[#names + 1] = found[i]
    next = closed
  end
  my.prefetch(side, names)
  for i = 1, #names do
    local text = my.get(side, names[i])
    local state = text and string.byte(text)
    -- For other records, the name is sufficient.
    my.drop(side, names[i], (state == 99 or state == 108) and my.recordOf(side, names[i]))
  end
  -- Records that were swept just now are not in the set yet.
  for _, score in pairs(side.scores) do
    if score and score > closed then next = math.min(next, score - closed) end
  end
  -- If there are more, they are forgotten at the next opportunity.
  side.forget, side.isChanged = (isMore or #names == 100) and 0 or next, true
  left = left - #names
end

-- Expires due records, up to the first that is open and not due. Records that were settled before move to those that wait to be
-- forgotten. Returns whether there may be more. If no record is known to be due, it reads the set only with mustLook.
function my.sweep(counter, mustLook)
  local side = counter.side
  -- These were created by this script, without any TTL.
  for i = #side.over, 1, -1 do
    local record = my.recordOf(side, side.over[i])
    if record and record.state == 'o' then my.expire(counter, side.over[i], record) end
    side.over[i] = nil
  end
  if side.due > nowMs and not mustLook then return false end
  if left <= 0 then
    isShort = true
    return false
  end
  local size = side.at == 0 and 16 or 100
  local names, found = my.page(side, side.at, size)
  if not names then return false end
  local next = closed
  for i = 1, #names do
    local name, score = names[i], tonumber(found[2 * i])
    local text = my.get(side, name)
    if not text then side.scores[name] = false
    elseif string.byte(text) ~= 111 then
      if score + recordMs <= nowMs then my.drop(side, name)
      elseif side.scores[name] == nil then my.forgetAt(side, name, score + recordMs) end
    elseif score > nowMs then
      next = score
      break
    else
      local record = my.recordOf(side, name)
      if record then my.expire(counter, name, record) else side.scores[name] = false end
    end
    side.at, left = side.at + 1, left - 1
  end
  if next == closed and #names == size then return true end
  local due = math.min(next, side.least)
  if due ~= side.due then side.due, side.isChanged = due, true end
  return false
end

-- Returns the creation time of the oldest of those that are due next.
function my.oldestOf(counter)
  local side = counter.side
  local found = pcall('ZRANGE', side.set, side.at, side.at + 63)
  if found.err then
    failure = found
    return 0
  end
  my.prefetch(side, found)
  local oldest = 0
  for i = 1, #found do
    local record = my.recordOf(side, found[i])
    if record and record.state == 'o' and record.tail == counter.tail then
      local made = record.due - record.ttl
      if oldest == 0 or made < oldest then oldest = made end
    end
  end
  return oldest
end
`;
