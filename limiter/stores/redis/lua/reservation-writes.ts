/**
 * The end of calls about reservations: the Lua that writes what they changed (reservation-records.ts), all of it or nothing. A full
 * Redis rejects the first write that could need memory, and no later one. A user of Redis may lack the right to any command. So those
 * that cannot be reverted are tried before, without a change.
 */
import { luaRestoreCounter } from './bounded-scripts.ts';

/** Lua that follows `luaReservations`. */
export const luaReservationWrites = `
-- makes: whether any of the calls creates a record.
function my.begin()
  my.makes, failure = false, nil
  sides, counters, sideList, counterList = {}, {}, {}, {}
end

function my.errorIn(answer) return type(answer) == 'table' and answer.err and answer end

-- Collects what is to be written of a side, in lists of arguments. Returns whether there is anything.
function my.collect(side)
  local scored, unscored, set, unset = {}, {}, {}, {}
  for name, score in pairs(side.scores) do
    if score then
      scored[#scored + 1] = my.number(score)
      scored[#scored + 1] = name
    else
      unscored[#unscored + 1] = name
    end
  end
  for field in pairs(side.dirty) do
    local text = side.fields[field]
    if text then
      set[#set + 1] = field
      set[#set + 1] = text
    else
      unset[#unset + 1] = field
    end
  end
  -- Both keys end with the last reservation. Without an end there was none, and there is nothing to store.
  if side.isChanged and side.ends > 0 then
    local window = side.window == '-' and -2 or tonumber(side.window) or -1
    set[#set + 1] = 'h'
    set[#set + 1] = pack(headForm, window, side.count, side.taken, side.due, side.forget, side.ends, side.others)
  end
  side.writes = { scored, set, unset, unscored }
  -- If only the set was evicted, it is created again.
  local setMs = not side.isLonger and #scored > 0 and pcall('PTTL', side.set) or 1
  side.life = (side.isLonger or type(setMs) == 'table' or setMs < 0) and my.number(side.ends - nowMs)
  return #scored + #set + #unset + #unscored > 0
end

-- Tries commands on a side without a change: no record has the name '', and XX adds nothing to a set.
function my.try(side)
  local _, _, unset, unscored = unpack(side.writes)
  return my.errorIn(pcall('ZADD', side.set, 'XX', '0', '')) or (#unset > 0 and my.errorIn(pcall('HDEL', side.hash, '')))
    or (#unscored > 0 and my.errorIn(pcall('ZREM', side.set, ''))) or (side.life and my.errorIn(pcall('PEXPIRE', side.hash, side.life)))
end

-- Writes a list in parts of an even number, because a command takes no more.
function my.writeParts(command, key, list)
  for i = 1, #list, 1000 do
    local err = my.errorIn(pcall(command, key, unpack(list, i, math.min(#list, i + 999))))
    if err then return err end
  end
end

function my.writeSide(side)
  local scored, set, unset, unscored = unpack(side.writes)
  local err = my.writeParts('HMSET', side.hash, set) or my.writeParts('ZADD', side.set, scored)
    or my.writeParts('HDEL', side.hash, unset) or my.writeParts('ZREM', side.set, unscored)
  if not err and side.life then
    noteAny(side.ends - nowMs)
    pcall('PEXPIRE', side.hash, side.life)
    pcall('PEXPIRE', side.set, side.life)
  end
  return err
end

-- Writes notes, counters and sides. Returns an error, or nothing.
function my.writeAll(notes)
  local isAny, err, written = false, nil, 0
  for i = 1, #sideList do isAny = my.collect(sideList[i]) or isAny end
  for i = 1, #counterList do isAny = isAny or counterList[i].changed end
  for i = 1, isAny and #sideList or 0 do err = err or my.try(sideList[i]) end
  for i = 1, #notes do
    local note = notes[i]
    local unwritten = not err and my.errorIn(pcall('PSETEX', note.key, note.lifeMs, note.text))
    err = err or (note.isNew and unwritten)
  end
  for i = 1, #counterList do
    local one = counterList[i]
    if one.changed and not err then
      err = my.errorIn(write(one.key, one.bound, one.life, one.text, one.a, one.b, one.c))
      if not err then written = i end
    end
  end
  for i = 1, #sideList do err = err or my.writeSide(sideList[i]) end
  if not err then return end
  for i = 1, written do
    local one = counterList[i]
    local key, ttl, text = one.key, one.life, one.text
    if one.changed then
      ${luaRestoreCounter}
    end
  end
  for i = 1, #notes do
    if notes[i].isNew then pcall('DEL', notes[i].key) end
  end
  return err
end
`;
