/**
 * The Lua of the common reserve and the common settle: one counter of a fixed window, an id or marker that is unknown or open in the
 * current window, room for all, and nothing to expire or to forget. It does what the general code does (reservation-script.ts,
 * reservation-records.ts), with one read and one write of each key. Most of its time goes into strings, which Lua looks up whenever
 * one is created, and into arguments of commands. So it creates few of both, and passes no number as an argument.
 */

import { anyReservedKey } from './reserved-keys-over.ts';
import { oomError } from './scripts.ts';

/** Lua that follows `luaBase` and `luaBoundsSetUp`. */
export const luaReservationSetUp = `
local find, match, tonumber, type = string.find, string.match, tonumber, type
local pack, unpackHead = struct.pack, struct.unpack
local nowMs = floor(now / 1000)
-- Scores of records that are not open are higher by this number, which is also later than all times.
local closed = 4503599627370496
-- Sums of numbers below this one are exact.
local plain = 100000000000000
-- This is much faster than Lua's conversion of numbers to text.
local format = string.format
-- This is for systems where long has 32 bits.
if format('%d', max) ~= '9007199254740991' then
  format = function(form, ...) return string.format(string.gsub(form, '%%d', '%%.0f'), ...) end
end
-- A hash's head: its window, how many records are open that were charged in it, and what they took; the earliest times at which there
-- is something to expire and to forget; when both keys end; and the number of lines of markers plus open records of other windows.
local headForm, headBytes = '<ddddddd', 56
local function wordsOf(text)
  local list = {}
  for word in string.gmatch(text, '%S+') do list[#list + 1] = word end
  return list
end
-- The times to live of the counters. The jitter makes all of them different. They are read when the first is needed.
local lives
-- These follow the arguments of the last call.
local last = argc - 6
local maxOpen, recordMs = tonumber(ARGV[last + 1]), tonumber(ARGV[last + 2])
-- The key of all reservations lives as long as the reservation that lives longest. A cluster has no place for it.
local function noteAny(lifeMs)
  if ARGV[last + 3] ~= '1' then return end
  -- The user may have no right to this key, which is not in KEYS.
  local left = pcall('PTTL', '${anyReservedKey}')
  if type(left) == 'number' and left >= lifeMs then return end
  local wrote = pcall('PSETEX', '${anyReservedKey}', format('%d', lifeMs), '1')
  if wrote.err then pcall('SETEX', '${anyReservedKey}', format('%d', lifeMs / 1000 + 1), '1') end
end
for text in string.gmatch(ARGV[last + 4], '[^;]+') do bounds[#bounds + 1] = text end
-- Each shape is, in words: the verb, its flags, the number of its counters, of those in all places, and of descriptors; then for each
-- counter its bound, window, flags, group, TTL and effect on expiry.
local shapes, shapeCount = {}, 0
-- The shape of one counter, neither in shadow mode nor a quota.
local commonShape = '^(%a) (%S+) 1 (%d+ %d+) (%d+) (%d+) %- %d+ (%d+) (%a)$'
for text in string.gmatch(ARGV[last + 5], '[^;]+') do
  local kind, flags, widths, bound, window, ttl, onExpiry = match(text, commonShape)
  local shape = { text = text, hasNote = flags == '-n' }
  local capacity = kind and match(bounds[tonumber(bound)], '^fixed (%d+)$')
  if capacity then
    shape.window, shape.capacity, shape.isMarker = tonumber(window), tonumber(capacity), string.byte(flags) == 109
    if kind == 's' then
      shape.isCommon = flags == 'mc' or flags == '-c' or flags == 'm' or flags == '-'
      -- A reservation of another number of descriptors is not common.
      shape.isSettle, shape.record = true, '^o%a' .. window .. ' (%d+) %d+ %d+ %d+' .. match(widths, ' .*') .. '$'
    elseif kind == 'r' and ttl ~= '0' and (flags == 'm' or flags == '-' or flags == '-n') then
      local dueMs = nowMs + ttl
      local due = format('%d', dueMs)
      shape.isCommon, shape.isReserve, shape.dueMs, shape.due, shape.keptMs = true, true, dueMs, due, dueMs + recordMs
      shape.opens, shape.rest = 'o' .. onExpiry .. window .. ' ', ' ' .. ttl .. ' ' .. due .. ' ' .. widths
      shape.noteMs = shape.hasNote and format('%d', ttl + recordMs)
    end
  end
  shapeCount = shapeCount + 1
  shapes[format('%d', shapeCount)] = shape
end
-- The next call: its first argument and key, and its first counter's number.
local at, key, number = 1, 1, 1
local out, reported = { now }, 1
-- How many records may still be swept, because Redis does nothing else meanwhile.
local left = 250
`;

/** Lua that does calls until one is not common. It answers a reserve with three numbers, a settle with four. */
export const luaReservationFastPath = `
while at <= last do
  local shape = shapes[ARGV[at]]
  local isCommon = false
  repeat
    if not shape.isCommon then break end
    local counter, hash, name, isMarker = KEYS[key], KEYS[key + 1], ARGV[at + 1], shape.isMarker
    local side = pcall('HMGET', hash, 'h', name)
    if side.err then break end
    local head, known = side[1], side[2]
    local window, count, taken, due, forget, ends, others = shape.window, 0, 0, closed, closed, 0, 0
    if head then
      if #head ~= headBytes then break end
      window, count, taken, due, forget, ends, others = unpackHead(headForm, head)
      if window ~= shape.window or taken >= plain then break end
      -- Records are forgotten somewhat later, so that many are forgotten at a time. A script that swept enough sweeps no more.
      if due <= nowMs and (left > 0 or shape.isSettle) or forget <= nowMs - recordMs / 4 and left > 0 then break end
      if others > 0 and isMarker and pcall('HGET', hash, 'm' .. string.sub(name, 2)) then break end
    end
    local amountText, change, changeText, limit, reserved = ARGV[at + 2], 0, '0', shape.capacity, 0
    local noted
    if shape.isReserve then
      if known or count >= maxOpen then break end
      change, changeText = amountText + 0, amountText
      if change >= plain or change + taken > limit then break end
      if shape.hasNote then
        noted = pcall('GET', KEYS[key + 3])
        if noted and noted ~= ARGV[at + 3] then break end
      end
    else
      reserved = known and match(known, shape.record)
      if not reserved then break end
      if amountText == '-' then amountText = reserved end
      reserved, limit = reserved + 0, plain
      change = amountText - reserved
      if change >= plain or reserved >= plain then break end
      if change ~= 0 then changeText = format('%d', change) end
    end
    -- This comes first, because it returns what the counter holds. It is reverted if the call is not common.
    local total = pcall('INCRBY', counter, changeText)
    if shape.isSettle and type(total) == 'table' and find(total.err, '${oomError}') then
      -- After a first write that could free memory, a full Redis rejects no further one. So reservations are settled in it, too.
      pcall('HDEL', hash, '')
      total = pcall('INCRBY', counter, changeText)
    end
    if type(total) ~= 'number' then break end
    local former, set, err = total - change, KEYS[key + 2], nil
    -- A counter that holds less than what is open on it was evicted, reset or paid back.
    local least = shape.isSettle and taken or 0
    if total >= 0 and former >= least and total <= limit and total < plain then
      if former == 0 then
        lives = lives or wordsOf(ARGV[argc])
        err = pcall('EXPIRE', counter, lives[number])
      end
      if type(err) == 'table' then
        -- This is reported below.
      elseif shape.isReserve then
        count, taken = count + 1, taken + change
        if shape.dueMs < due then due = shape.dueMs end
        local isLonger = ends < shape.keptMs
        if isLonger then ends = shape.keptMs + 60000 + floor((shape.keptMs - nowMs) / 8) end
        -- If only the set was evicted, it is created again here.
        local left = isLonger and -2 or pcall('PTTL', set)
        local life = (type(left) == 'table' or left < 0) and format('%d', ends - nowMs)
        -- Both keys must end. So a user without the right to this creates none.
        if life then err = pcall('PEXPIRE', hash, life) end
        if type(err) ~= 'table' and shape.hasNote then
          local wrote = pcall('PSETEX', KEYS[key + 3], shape.noteMs, ARGV[at + 3])
          err = wrote.err and wrote
        end
        if type(err) ~= 'table' then err = pcall('ZADD', set, shape.due, name) end
        if type(err) ~= 'table' then
          err = pcall('HMSET', hash, name, shape.opens .. amountText .. shape.rest,
            'h', pack(headForm, window, count, taken, due, forget, ends, others))
          if err.err then pcall('ZREM', set, name) end
        end
        if err.err then
          if shape.hasNote and not noted then pcall('DEL', KEYS[key + 3]) end
        elseif life then
          noteAny(ends - nowMs)
          pcall('PEXPIRE', hash, life)
          pcall('PEXPIRE', set, life)
        end
      else
        count, taken = count - 1, taken - reserved
        if count < 0 or taken < 0 then count, taken = 0, 0 end
        if count == 0 and others == 0 then due = closed end
        if isMarker then
          err = pcall('HMSET', hash, 'h', pack(headForm, window, count, taken, due, forget, ends, others))
          if not err.err then
            err = pcall('HDEL', hash, name)
            if type(err) ~= 'table' then err = pcall('ZREM', set, name) end
            if type(err) == 'table' then pcall('HMSET', hash, name, known, 'h', head) end
          end
        else
          -- It stays in the set unchanged until others are swept.
          if forget == closed then forget = nowMs + recordMs end
          err = pcall('HMSET', hash, name, 's' .. amountText .. ' ' .. known,
            'h', pack(headForm, window, count, taken, due, forget, ends, others))
        end
      end
      isCommon = type(err) ~= 'table' or not err.err
    end
    if not isCommon then
      if former ~= 0 then pcall('INCRBY', counter, format('%d', 0 - change))
      elseif type(pcall('DEL', counter)) == 'table' then
        lives = lives or wordsOf(ARGV[argc])
        pcall('SETEX', counter, lives[number], '0')
      end
      break
    end
    out[reported + 1], out[reported + 2], out[reported + 3] = total, taken, count
    reported = reported + 3
    if shape.isSettle then
      reported = reported + 1
      out[reported] = reserved
    end
  until true
  if not isCommon then break end
  at, key, number = at + 3, key + 3, number + 1
  if shape.hasNote then at, key = at + 1, key + 1 end
end
`;
