/**
 * The sections of calls that have ops with bounds, or leases, among others. What a bound lets pass is decided here once more, by the
 * Lua that stands beside each formula in `limiter/algorithms/`.
 */

import { algorithmsLua } from '../../../algorithms/registry.ts';
import type { FoldedRun } from '../../folded-run.ts';
import { luaLeases } from '../../leases/ledger.ts';
import type { StoreError } from '../../store-error.ts';
import { isCount, keyError, replyNumber } from '../wire/reply-checks.ts';
import { ReplyError } from '../wire/resp.ts';
import { luaTellOver } from './reserved-keys-over.ts';
import { luaCounting, luaCountKeys } from './scripts.ts';

/** What scripts with bounds know before they read what to do. Stands behind `luaBase`. */
export const luaBoundsSetUp = `
local floor = math.floor
local bounds = {}
-- What keys held, each with a space behind, and the errors of those that could not be read.
local texts, errors = {}, {}
-- Of the argument that says what to do with groups.
local words = {}

-- Redis before 5.0 writes nothing after TIME otherwise.
if redis.replicate_commands then redis.replicate_commands() end
local time = pcall('TIME')
local now = not time.err and time[1] * 1000000 + time[2]
`;

/** A function that does what the algorithm of its bound says. */
function luaOfAlgorithms(name: 'heldAt' | 'room' | 'take' | 'giveBack'): string {
  const branches = algorithmsLua.map((lua) => `if kind == '${lua.kind}' then\n${lua[name]}\n`);
  return `
local function ${name}(bound, a, b, c, hits)
  local kind = bound[1]
  ${branches.join('else')}end
  unknown(kind)
end`;
}

/**
 * A bound is a table of its kind and its numbers (`Bound.scriptText`), what a counter holds three numbers. A key holds a
 * fixed window's total as a number, all else as `1:2:3`, so that a plain fixed window may count on in the same key.
 * What cannot be written is refused at a script's first write or not at all, so a group is written whole.
 */
export const luaBoundKinds = `
-- Gives the text that the key holds, false where it is missing, and its numbers; or an error.
local function read(key, bound)
  local text = pcall('GET', key)
  if type(text) ~= 'string' then return text end
  if bound[1] == 'fixed' then
    if string.find(text, '^%-?%d+$') then return text, math.min(max, math.max(0, tonumber(text))) end
  else
    local a, b, c = string.match(text, '^(%d+):(%d+):(%d+)$')
    a, b, c = tonumber(a), tonumber(b), tonumber(c)
    if a and a <= max and b <= max and c <= max then return text, a, b, c end
  end
  return redis.error_reply('ERR value is not what a ' .. bound[1] .. ' limit holds')
end

-- An unknown one is an error, lest it be counted as another.
local function unknown(kind) error('no algorithm is named ' .. tostring(kind)) end
${algorithmsLua.map(({ helpers }) => helpers).join('')}
${luaOfAlgorithms('heldAt')}
${luaOfAlgorithms('room')}
${luaOfAlgorithms('take')}
${luaOfAlgorithms('giveBack')}
local function write(key, bound, ttl, text, a, b, c)
  if bound[1] ~= 'fixed' then return pcall('SETEX', key, ttl, string.format('%.0f:%.0f:%.0f', a, b, c)) end
  local held = tonumber(text or 0)
  if text and held <= max then return pcall('INCRBY', key, a - held) end
  -- What stands above max becomes what was answered, and keeps its life.
  local left = text and pcall('PTTL', key)
  if type(left) == 'number' and left > 0 then return pcall('PSETEX', key, left, string.format('%.0f', a)) end
  return pcall('SETEX', key, ttl, string.format('%.0f', a))
end
`;

/** All that scripts about groups with bounds begin with. */
export const luaBounds = `${luaBoundsSetUp}
local function readArguments(ofBounds, ofGroups)
  for text in string.gmatch(ofBounds, '[^;]+') do
    local bound = {}
    for part in string.gmatch(text, '%S+') do bound[#bound + 1] = tonumber(part) or part end
    bounds[#bounds + 1] = bound
  end
  for word in string.gmatch(ofGroups, '%S+') do words[#words + 1] = word end
end
${luaBoundKinds}`;

/** Counting groups of keys with bounds. Stands behind `luaBounds`. */
const luaSteps = `
-- As for \`luaTellOver\`.
local over
local function isOver(i)
  over = over or {}
  over[#over + 1] = i
end

-- Of the keys of one group: their texts, and their numbers of now. A table for each key costs more.
local before, as, bs, cs = {}, {}, {}, {}

-- Counts a group of size keys, those of KEYS behind first, so many times as it passes whole; hits below 0 are given back.
-- Each key's bound and life are among the words, the first at at, the others each stride further. Gives an error, or nothing:
-- what each key held is in before.
local function step(first, size, at, stride, hits, times)
  if not now then return redis.error_reply('NOPERM limits with bounds need TIME: ' .. time.err) end
  local wanted = times
  for i = 1, size do
    local bound = bounds[tonumber(words[at + (i - 1) * stride])]
    local text, a, b, c = read(KEYS[first + i], bound)
    if type(text) == 'table' then return text end
    before[i] = text
    if hits > 0 or (text and hits < 0) then
      a, b, c = heldAt(bound, a, b, c)
      if hits > 0 then
        local fitting = floor(room(bound, a, b, c) / hits)
        if fitting < wanted then isOver(first + i) end
        times = math.min(times, fitting)
      end
      as[i], bs[i], cs[i] = a, b, c
    end
  end
  if times == 0 or hits == 0 then return end
  for i = 1, size do
    if hits > 0 or before[i] then
      local bound = bounds[tonumber(words[at + (i - 1) * stride])]
      local a, b, c = as[i], bs[i], cs[i]
      if hits > 0 then a, b, c = take(bound, a, b, c, times * hits)
      else a, b, c = giveBack(bound, a, b, c, times * -hits) end
      local wrote = write(KEYS[first + i], bound, words[at + (i - 1) * stride + 1], before[i], a, b, c)
      if type(wrote) == 'table' and wrote.err then return wrote end
    end
  end
end

local function tell(err, size, mark)
  if err then errors[#errors + 1] = err end
  for i = 1, size do texts[#texts + 1] = err and '!' or mark .. (before[i] or '') end
end

-- Behind the values of plain keys.
local function told(out)
  texts[#texts + 1] = ''
  out[#out + 1] = table.concat(texts, ' ')
  out[#out + 1] = now or 0
  for i = 1, #errors do out[#out + 1] = errors[i] end
end
`;

/**
 * A section that counts as `luaCountSection`, then keys with leases, then groups, one after another. ARGV is how many additions and how many other plain
 * keys there are, the bounds, the groups, the leases (`leaseArgument`), 1 in a cluster, what `luaCountSection` wants for the plain keys, and what is
 * reserved on those with leases (`reservationKeysOf`). A group is its size, hits, how many times, and for
 * each of its keys the number of its bound and its life. Answers for the plain keys as `luaCountSection`, with three numbers for
 * each key with leases (`answerLeased`), then with what all others held before (`HeldTexts`), the time in microseconds, an error
 * for each group that has one, and what `luaTellOver` says.
 */
export const luaBoundedCountSection = `${luaCounting}${luaBounds}${luaSteps}${luaLeases}
readArguments(ARGV[3], ARGV[4])
local additions, plain, at, isCluster = tonumber(ARGV[1]), ARGV[1] + ARGV[2], 7, ARGV[6] == '1'
${luaCountKeys}
local first = countLeased(plain, ARGV[5], out)
at = 1
while at <= #words do
  local size = tonumber(words[at])
  tell(step(first, size, at + 3, 2, tonumber(words[at + 1]), tonumber(words[at + 2])), size, '')
  first = first + size
  at = at + 3 + 2 * size
end
told(out)
${luaTellOver}
answer = out
`;

/** Writes the answers from the three numbers that begin at `at`. An error in the place of the last leaves the message unanswered. */
export function answerLeased(
  run: FoldedRun,
  reply: readonly unknown[],
  at: number,
  translate: (error: unknown) => StoreError,
): void {
  const before = replyNumber(reply[at]);
  const outstanding = replyNumber(reply[at + 1]);
  const granted = replyNumber(reply[at + 2]);
  const { want, most } = run.lease!;
  if (before === undefined) run.fail(translate(keyError(reply[at])));
  else if (!isCount(outstanding)) run.fail(translate(keyError(reply[at + 1])));
  else if (reply[at + 2] instanceof ReplyError) {
    translate(reply[at + 2]);
    run.answer(before);
  } else if (!isCount(granted) || granted > Math.min(want, most))
    run.fail(translate(keyError(reply[at + 2])));
  else run.answerLeased(before, outstanding, granted);
}

/**
 * As `luaStopSection`, with groups among the ops. ARGV is the bounds, and all requests: of each how many ops it has, and of each of
 * them the number of its bound, 0 without one, ttl, hits, or '?' to look only, limit, how it holds back, and the size of the
 * group that begins there. Answers for ops without a bound as `luaStopSection`, then as `luaBoundedCountSection`, with a star before
 * what is told of a group that others held back.
 */
export const luaBoundedStopSection = `${luaCounting}${luaBounds}${luaSteps}
local function used(key, bound)
  if not bound then return look(key) end
  local text, a, b, c = read(key, bound)
  if not now or type(text) == 'table' then return false end
  a, b, c = heldAt(bound, a, b, c)
  if bound[1] == 'fixed' then return a end
  return bound[2] - room(bound, a, b, c)
end

local function isAnyOver(first, size, at, hits)
  for i = 0, size - 1 do
    local total = used(KEYS[first + i], bounds[tonumber(words[at + 6 * i])])
    if type(total) == 'number' and total + hits > tonumber(words[at + 6 * i + 3]) then return true end
  end
  return false
end

local function countPlain(i, at, hits, heldBack)
  local key, after = KEYS[i], nil
  if hits and hits < 0 then
    after = clamp(key, hits, '0', max, '0')
    if type(after) == 'number' then after = math.max(0, after + hits) end
  elseif hits and hits > 0 and not heldBack then
    after = add(key, words[at + 2], words[at + 1])
    if type(after) == 'number' then after = math.min(max + 1, after + hits) end
  else
    after = look(key)
  end
  if type(after) == 'number' and not (hits and hits < 0) then
    if after - words[at + 3] > 0 then isOver(i) end
    if heldBack then after = -1 - after end
  end
  return exact(after)
end

readArguments(ARGV[1], ARGV[2])
local out = {}
local first = 1
local at = 1
while at <= #words do
  local count = tonumber(words[at])
  at = at + 1
  local exceeds, stop, together, overTogether = {}, false, 0, 0
  local i = 0
  while i < count do
    local arg = at + 6 * i
    local hits, holdsBack, size = tonumber(words[arg + 2]), words[arg + 4], tonumber(words[arg + 5])
    if hits and hits >= 0 then
      exceeds[i] = isAnyOver(first + i, size, arg, hits)
      if holdsBack == 't' then
        together = together + 1
        if exceeds[i] then overTogether = overTogether + 1 end
      elseif exceeds[i] and holdsBack == 'a' then
        stop = true
      end
    end
    i = i + size
  end
  if together > 0 and together == overTogether then stop = true end
  i = 0
  while i < count do
    local arg = at + 6 * i
    local hits, size = tonumber(words[arg + 2]), tonumber(words[arg + 5])
    local heldBack = not hits or (hits >= 0 and stop and not exceeds[i])
    if words[arg] == '0' then
      out[#out + 1] = countPlain(first + i, arg, hits, heldBack)
    else
      tell(step(first + i - 1, size, arg, 6, heldBack and 0 or hits, 1), size, heldBack and '*' or '')
    end
    i = i + size
  end
  first = first + count
  at = at + 6 * count
end
told(out)
local isCluster = false
${luaTellOver}
answer = out
`;
