/** The section of reservations: does in Redis what the memory store does with them, for any number of calls. */
import { luaBoundKinds, luaBoundsSetUp } from './bounded-scripts.ts';
import { luaReservationFastPath, luaReservationSetUp } from './reservation-fast-path.ts';
import { luaReservations } from './reservation-records.ts';
import { luaReservationWrites } from './reservation-writes.ts';
import { oomError } from './scripts.ts';

/**
 * KEYS are, for each counter, the counter, the hash and the set. The note follows those of a reserve with a note. ARGV has for each call
 * the number of its shape, the name of its record, with the number 0 for a marker, the amounts of its counters, and its note. Then follow
 * the bounds of reservations, 1 if the key of all reservations exists, the bounds, the shapes of calls, and the times to live
 * (`ReservationPart`). It returns the time in microseconds and the outcome of each call: numbers for a common call, which
 * the fast path does, otherwise a text or an error. The general code is created only when the first other call needs it.
 */
export const luaReservationSection = `${luaBoundsSetUp}
if not now then
  answer = { redis.error_reply('NOPERM reservations need TIME: ' .. time.err) }
else
${luaReservationSetUp}
local doUncommon
while at <= last do
${luaReservationFastPath}
if at > last then break end
if not doUncommon then
${luaBoundKinds}${luaReservations}${luaReservationWrites}
-- Records that the amount was just charged, or, for \`l\`, that nothing was. A marker that holds nothing is of no use after its TTL.
function my.hold(call, counter, state)
  my.makes = true
  local side, id = counter.side, call.id
  local name, due = 'p' .. id, nowMs + counter.ttl
  if call.isMarker then
    if state == 'l' then
      if my.getNumber(side, 'l') >= maxOpen or due <= nowMs then return end
      my.put(side, 'l', my.number(my.getNumber(side, 'l') + 1))
    end
    name = my.lineUp(side, (state == 'o' and ':' or '!') .. id)
  end
  local taken, back = 0, ''
  if state == 'o' then
    taken = my.chargeAnyway(counter, counter.amount)
    if counter.bound[1] == 'bucket' then
      local hits, whole, rest, parts = my.returnedOf(side)
      back = format('%d %d %d %d', hits, whole, rest, parts)
      my.putReturned(side, hits + taken, whole, rest, parts)
    end
  end
  counter.delta = taken
  my.keep(side, name, {
    state = state, onExpiry = counter.onExpiry, amount = counter.amount, ttl = counter.ttl, due = due, tail = counter.tail,
    taken = taken, a = counter.a, b = counter.b, c = counter.c, charged = 0, back = back, width = call.width,
    descriptors = call.descriptors,
    isShort = state == 'o' and counter.bound[1] == 'fixed' and taken == counter.amount,
  })
  if state == 'l' then return my.forgetAt(side, name, call.isMarker and due or due + recordMs) end
  my.turnTo(side, counter.tail)
  my.addOpen(side, counter.tail, 1, taken)
  side.scores[name] = due
  side.least, side.due = math.min(side.least, due), math.min(side.due, due)
  if due <= nowMs then side.over[#side.over + 1] = name end
  my.live(side, due + recordMs)
end

-- Returns whether the id is known, whether it belongs to another reservation, and when that expires.
function my.isKnown(call)
  local list = call.counters
  local known, expires, isOther = 0, 0, false
  if call.note then
    local noted = pcall('GET', call.noteKey)
    if type(noted) == 'table' then failure = noted end
    isOther = type(noted) == 'string' and noted ~= call.note
  end
  for i = 1, #list do
    local counter = list[i]
    local record = my.recordOf(counter.side, 'p' .. call.id)
    if record then
      known = known + 1
      if known == 1 then expires = record.due end
      isOther = isOther or record.amount ~= counter.amount or record.ttl ~= counter.ttl
        or record.onExpiry ~= counter.onExpiry or record.width ~= call.width
        or record.descriptors ~= call.descriptors
      counter.outcome = record.isEmpty and 'l' or 'c'
    end
  end
  isOther = isOther or (known > 0 and known < #list)
  if isOther then
    for i = 1, #list do list[i].outcome = 'u' end
  end
  return known > 0, isOther, expires
end

-- Finds which groups have no room, and whether that refuses the call.
function my.refuses(call, isOver)
  local refused, quotas, quotasOver, seen = false, 0, 0, {}
  for i = 1, #call.counters do
    local counter = call.counters[i]
    local group = counter.group
    if not counter.isShadow then
      if counter.isQuota and not seen[group] then quotas, seen[group] = quotas + 1, true end
      local fits, isMore = false, true
      while true do
        -- If the limit is exceeded, not even an amount of 0 fits.
        fits = counter.amount <= room(counter.bound, counter.a, counter.b, counter.c)
          and not (counter.bound[1] == 'fixed' and counter.a > counter.bound[2])
        if fits or not isMore then break end
        isMore = my.sweep(counter)
      end
      if not fits then
        counter.outcome = 'r'
        refused = refused or not counter.isQuota
        if counter.isQuota and not isOver[group] then quotasOver = quotasOver + 1 end
        isOver[group] = true
      end
    end
  end
  return refused or (quotas > 0 and quotasOver == quotas and not call.otherQuotaPasses)
end

-- Returns the latest time at which a counter with the most open records has fewer of them; 0 if it has fewer now.
function my.fullUntil(counter)
  local isMore = true
  while my.openOf(counter.side, counter.tail) >= maxOpen do
    if not isMore then return counter.side.due < closed and counter.side.due or nowMs end
    isMore = my.sweep(counter)
  end
  return 0
end

-- Returns the outcome of the call, and when it expires, or when a full counter has room. If more must be swept before it can be
-- refused, it does nothing.
function my.reserve(call)
  local list, isOver = call.counters, {}
  for i = 1, #list do my.sweep(list[i]) end
  isShort = false
  if not call.isMarker then
    local known, isOther, expires = my.isKnown(call)
    if isOther then return 'conflict', 0 end
    if known then return 'repeated', expires end
  end
  local refused = my.refuses(call, isOver) or call.isOverLimitElsewhere
  local fullUntil = 0
  for i = 1, #list do
    if not refused and not isOver[list[i].group] then fullUntil = math.max(fullUntil, my.fullUntil(list[i])) end
  end
  local full = fullUntil > 0
  if isShort then
    for i = 1, #list do list[i].outcome = 'u' end
    return 'more', 0
  end
  local isReserved = not refused and not full
  local outcome = refused and 'refused' or full and 'full' or 'reserved'
  if not isReserved and not call.isMarker then return outcome, fullUntil end
  for i = 1, #list do
    local isEmpty = not isReserved or isOver[list[i].group]
    my.hold(call, list[i], isEmpty and 'l' or 'o')
    if isReserved then list[i].outcome = isEmpty and 'l' or 'c' end
  end
  return outcome, isReserved and nowMs + list[1].ttl or fullUntil
end

-- Returns the name of a record. For a marker, it is the oldest that is open, or else expired and charged, or else holds nothing. To
-- remove one without a trace, it is the youngest open one.
function my.nameOf(side, call)
  if not call.isMarker then return 'p' .. call.id end
  for _, sign in ipairs(call.undoes and { ':' } or { ':', ';', '!' }) do
    local line = sign .. call.id
    local first, next = my.lineOf(side, line)
    if call.undoes then
      repeat next = next - 1 until next <= first or my.get(side, my.number(next) .. line)
      first = math.max(first, next)
    end
    if my.get(side, my.number(first) .. line) then return my.number(first) .. line end
  end
  return ''
end

-- Returns how much of an open record, or of an expired and charged one, the counter no longer holds. A fixed window has at least that
-- record and what is open on it, unless it was evicted, reset or paid back meanwhile.
function my.lostOf(counter, record)
  if counter.bound[1] ~= 'fixed' or record.tail ~= counter.tail then return 0 end
  local _, taken = my.openOf(counter.side, record.tail)
  if record.state == 'c' then taken = taken + record.taken end
  return math.min(record.taken, math.max(0, taken - counter.a))
end

local rank = { unknown = 0, repeated = 1, late = 2, settled = 3 }

-- Returns the outcome, what was charged in the end, and what had been reserved.
function my.settleOne(call, counter, name, record)
  local side = counter.side
  local isLate = record.due <= nowMs
  counter.outcome = record.isEmpty and 'l' or 'c'
  if record.state == 's' or record.state == 'e' then return 'repeated', record.charged, record.amount end
  local lost = 0
  if record.state == 'o' then
    if isLate and not call.undoes then name = my.expire(counter, name, record)
    else
      lost = my.lostOf(counter, record)
      my.addOpen(side, record.tail, -1, -record.taken)
    end
  end
  if record.state == 'c' then lost = my.lostOf(counter, record) end
  local actual = counter.amount or record.amount
  if record.state == 'x' then
    counter.delta = my.chargeAnyway(counter, actual)
    -- Released before its time: the counter was removed.
    if not isLate then counter.lost = record.taken end
  elseif record.state ~= 'l' then
    local more = actual - record.amount
    if more <= 0 then more = math.min(0, actual - record.taken) end
    -- The lost part of the charge is charged again, as far as it was used.
    more, counter.lost = more + lost, lost
    if more > 0 then counter.delta = my.chargeAnyway(counter, more)
    else counter.delta = 0 - my.giveBackOf(counter, record, 0 - more) end
    my.endRefunds(side, record)
  end
  if call.isMarker or call.undoes then
    if record.state == 'c' then record.state = 's' end
    my.drop(side, name, record)
  else
    record.state, record.charged, record.taken = record.isEmpty and 'e' or 's', actual, 0
    my.keep(side, name, record)
    my.forgetAt(side, name, math.max(nowMs, record.due) + recordMs)
  end
  return isLate and 'late' or 'settled', actual, record.amount
end

-- Charges an amount without a reservation, once if there is an id.
function my.chargeUnreserved(call, counter, name)
  my.makes = true
  counter.delta = my.chargeAnyway(counter, counter.amount)
  counter.outcome = 'c'
  if call.isMarker or call.id == '' then return end
  -- As if 0 had been reserved.
  my.put(counter.side, name, format('s%d or%s 0 0 %d 0 0', counter.amount, counter.tail, nowMs))
  my.forgetAt(counter.side, name, nowMs + recordMs)
end

-- Returns the outcome of the call, what was charged in the end, and what had been reserved; for a partial one, the number of
-- descriptors of the reservation.
function my.settle(call)
  local outcome, charged, amount, otherDescriptors = 'unknown', nil, 0, 0
  local names, records = {}, {}
  for i = 1, #call.counters do
    local counter = call.counters[i]
    -- A reservation to undo was made just now, however short its TTL is.
    if not call.undoes then my.sweep(counter) end
    names[i] = my.nameOf(counter.side, call)
    local record = my.recordOf(counter.side, names[i])
    local reserved = record and record.descriptors or 0
    if reserved > 0 and call.descriptors > 0 and reserved ~= call.descriptors then otherDescriptors = reserved end
    records[i] = record or false
  end
  if otherDescriptors > 0 then return 'partial', 0, otherDescriptors end
  for i = 1, #call.counters do
    local counter, name, record = call.counters[i], names[i], records[i]
    if record then
      local became, chargedHere, amountHere = my.settleOne(call, counter, name, record)
      if outcome == 'unknown' then charged, amount = chargedHere, amountHere end
      if rank[became] > rank[outcome] then outcome = became end
    elseif call.charges and counter.amount then
      my.chargeUnreserved(call, counter, name)
      if outcome == 'unknown' then charged = charged or counter.amount end
    end
  end
  return outcome, charged or 0, amount
end

function my.look(call)
  isShort = false
  for i = 1, #call.counters do
    -- Sweeps everything that is due, because there may be no later call that gives it back.
    while my.sweep(call.counters[i], true) do end
    call.counters[i].oldest = my.oldestOf(call.counters[i])
  end
  return isShort and 'more' or 'looked', 0, 0
end

-- Releases all open records of a counter that was removed: there is nothing to give back, and a commit charges its whole amount.
function my.discard(call)
  local counter, at, size = call.counters[1], 0, 100
  local side = counter.side
  while true do
    local names = my.page(side, at, size)
    if not names then break end
    for i = 1, #names do
      local name, record = names[i], my.recordOf(side, names[i])
      if record and record.state == 'o' and record.tail == counter.tail then
        if left <= 0 then return 'more', 0 end
        left = left - 1
        my.addOpen(side, record.tail, -1, -record.taken)
        if not my.isReleased(side, name, record) then my.remember(side, name, record) end
      end
    end
    if #names < size then break end
    at = at + size
  end
  return 'looked', 0
end

function my.boundOf(at)
  local bound = bounds[at]
  if type(bound) == 'table' then return bound end
  bound = wordsOf(bound)
  for i = 2, #bound do bound[i] = tonumber(bound[i]) end
  bounds[at] = bound
  return bound
end

-- Parses a shape, once.
function my.readShape(shape)
  local list = wordsOf(shape.text)
  local flags = list[2]
  local function has(flag) return find(flags, flag) ~= nil end
  shape.kind, shape.width, shape.isMarker, shape.otherQuotaPasses = list[1], tonumber(list[4]), has('m'), has('q')
  shape.descriptors = tonumber(list[5])
  shape.charges, shape.undoes, shape.isOverLimitElsewhere = has('c'), has('u'), has('x')
  shape.hasNote, shape.specs = has('n'), {}
  for i = 1, tonumber(list[3]) do
    local of = 6 * i
    shape.specs[i] = {
      bound = my.boundOf(tonumber(list[of])), tail = list[of + 1] == '-' and '' or list[of + 1],
      isShadow = find(list[of + 2], 's') ~= nil, isQuota = find(list[of + 2], 'q') ~= nil, group = list[of + 3],
      ttl = tonumber(list[of + 4]), onExpiry = list[of + 5],
    }
  end
  -- Calls inherit the properties of their shape.
  shape.__index = shape
end

-- Reads a call from its shape and its amounts.
function my.readCall()
  local shape = shapes[ARGV[at]]
  if not shape.specs then my.readShape(shape) end
  local name, list, count = ARGV[at + 1], {}, #shape.specs
  local call = { id = string.sub(name, shape.isMarker and 3 or 2), counters = list }
  setmetatable(call, shape)
  if not lives then lives = wordsOf(ARGV[argc]) end
  local err, first
  for i = 1, count do
    local spec, side, counter = shape.specs[i]
    first = key + 3 * i - 3
    side, err = my.sideOf(KEYS[first + 1], KEYS[first + 2], name)
    if side then counter, err = my.counterOf(KEYS[first], side, spec.tail, spec.bound, lives[number + i - 1]) end
    if err then break end
    counter.isShadow, counter.isQuota, counter.group = spec.isShadow, spec.isQuota, spec.group
    counter.ttl, counter.onExpiry, counter.amount = spec.ttl, spec.onExpiry, tonumber(ARGV[at + 1 + i])
    counter.outcome, counter.givenBack, counter.delta, counter.oldest, counter.lost = 'u', 0, 0, 0, 0
    if not side.isSwept then
      side.isSwept = true
      my.forget(counter)
    end
    list[i] = counter
  end
  at, key, number = at + 2 + count, key + 3 * count, number + count
  if shape.hasNote then
    call.noteKey, call.note = KEYS[key], ARGV[at]
    at, key = at + 1, key + 1
  end
  return call, err
end

function my.reportCall(outcome, first, second, call)
  local texts = { format('%s %d %d', outcome, first, second or 0) }
  for i = 1, #call.counters do
    local counter = call.counters[i]
    local open, taken = my.openOf(counter.side, counter.tail)
    -- Refunds may have made room for more than a counter can hold.
    texts[i + 1] = format('%s %d %d %d %d %d %d %d %d %d', counter.outcome, counter.a, counter.b, counter.c,
      math.min(max, taken), open, counter.oldest, counter.delta, counter.givenBack, counter.lost)
  end
  texts[#texts + 1] = ''
  return table.concat(texts, ' ')
end

local doing = { r = my.reserve, s = my.settle, l = my.look, d = my.discard }

-- Does calls until the next one may be common. A refused call is mostly followed by another refused one.
doUncommon = function()
  local notes, before, err = {}, reported, nil
  my.begin()
  repeat
    local call, unread = my.readCall()
    local outcome, first, second
    if not unread then outcome, first, second = doing[call.kind](call) end
    reported = reported + 1
    out[reported] = unread or my.reportCall(outcome, first, second, call)
    if not unread and call.note and (outcome == 'reserved' or outcome == 'repeated') then
      local lifeMs = my.number(math.max(1, first + recordMs - nowMs))
      notes[#notes + 1] = { key = call.noteKey, text = call.note, lifeMs = lifeMs, isNew = outcome == 'reserved' }
    end
    local next = at <= last and shapes[ARGV[at]]
  until not next or (next.isCommon and outcome ~= 'refused' and outcome ~= 'full')
  err = failure or my.writeAll(notes)
  if err and not my.makes and find(err.err, '${oomError}') then
    -- Redis is full: see the common settle.
    pcall('HDEL', sideList[1].hash, '')
    err = my.writeAll(notes)
  end
  if err then
    -- None of these was charged.
    for i = before + 1, reported do out[i] = err end
  end
end
end
doUncommon()
end
answer = out
end
`;
