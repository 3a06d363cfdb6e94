/**
 * The sections of calls that include ops with bounds, or leases. The Lua beside each formula in `limiter/algorithms/` decides here,
 * too, which hits a bound lets pass.
 */

import type { AlgorithmLua } from '../../../algorithms/algorithm.ts';
import { algorithmsLua } from '../../../algorithms/registry.ts';
import { luaLeases } from '../../../allocate/lease-ledger.ts';
import type { FoldedRun } from '../../folded-run.ts';
import type { RedisErrors } from '../wire/redis-error.ts';
import { isCount, keyError, ReplyError, replyNumber } from '../wire/resp.ts';
import { luaReportOver } from './reserved-keys-over.ts';
import { luaCounting, luaCountKeys, oomError } from './scripts.ts';

/** Returns Lua that reads the words of an argument. */
function luaWords(argument: number): string {
  return `
words = {}
for word in string.gmatch(ARGV[${argument}], '%S+') do words[#words + 1] = word end
`;
}

/** The common beginning of scripts with bounds. It follows `luaBase`. */
export const luaBoundsSetUp = `
local floor = math.floor
local bounds = {}
-- What keys held, each followed by a space, and the errors of those that could not be read.
local texts, errors = {}, {}

-- Otherwise, Redis before 5.0 writes nothing after TIME.
if redis.replicate_commands then redis.replicate_commands() end
local time = pcall('TIME')
local now = not time.err and time[1] * 1000000 + time[2]
`;

/** Returns a Lua function that does what the algorithm of its bound specifies. */
export function luaOfAlgorithms(name: Exclude<keyof AlgorithmLua, 'kind' | 'helpers'>): string {
  const branches = algorithmsLua.map((lua) => `if kind == '${lua.kind}' then\n${lua[name]}\n`);
  return `
local function ${name}(bound, a, b, c, hits, charge, returned)
  local kind = bound[1]
  ${branches.join('else')}end
  unknown(kind)
end`;
}

/**
 * A bound is a table of its kind and its numbers (`Bound.scriptText`). The state of a counter is three numbers. A key holds a fixed
 * window's total as a number, so that a plain fixed window may count in the same key. It holds all other states as `1:2:3`.
 */
export const luaBoundKinds = `
-- Returns the text that the key holds, false if it is missing, and its numbers; or an error.
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

-- An unknown kind is an error, so that it is never counted as another one.
local function unknown(kind) error('no algorithm is named ' .. tostring(kind)) end
${algorithmsLua.map(({ helpers }) => helpers).join('')}
${luaOfAlgorithms('stateAt')}
${luaOfAlgorithms('room')}
${luaOfAlgorithms('take')}
${luaOfAlgorithms('giveBack')}
local function write(key, bound, ttl, text, a, b, c)
  if bound[1] ~= 'fixed' then return pcall('SETEX', key, ttl, string.format('%.0f:%.0f:%.0f', a, b, c)) end
  local held = tonumber(text or 0)
  if text and held <= max then return pcall('INCRBY', key, a - held) end
  -- A value above max becomes the answered value, and keeps its time to live.
  local left = text and pcall('PTTL', key)
  local wrote = type(left) == 'number' and left > 0 and pcall('PSETEX', key, left, string.format('%.0f', a))
  if wrote and not wrote.err then return wrote end
  return pcall('SETEX', key, ttl, string.format('%.0f', a))
end
`;

/** Restores the text that a key held before it was written. */
export const luaRestoreCounter = `
if not text then pcall('DEL', key)
elseif (tonumber(text) or max + 1) <= max then pcall('INCRBY', key, text - pcall('GET', key))
else pcall('SETEX', key, ttl, text) end
`;

/** Counts groups of keys with bounds. It follows `luaWords` and `over`, which is the same as for `luaReportOver`. */
const luaSteps = `${luaBoundsSetUp}
local function readBounds(argument)
  for text in string.gmatch(argument, '[^;]+') do
    local bound = {}
    for part in string.gmatch(text, '%S+') do bound[#bound + 1] = tonumber(part) or part end
    bounds[#bounds + 1] = bound
  end
end
${luaBoundKinds}
local function isOver(i)
  over = over or {}
  over[#over + 1] = i
end

-- The texts of the keys of one group, and their current numbers. A table for each key costs more.
local before, as, bs, cs = {}, {}, {}, {}

-- Counts a group of size keys, which follow first in KEYS, as often as it passes whole, at most the given times. Hits below 0 are
-- given back. Each key's time to live and bound are among the words: the first at at, each other one stride further. Returns an
-- error, or nothing. What each key held is in before.
local function step(first, size, at, stride, hits, times)
  if not now then return redis.error_reply('NOPERM limits with bounds need TIME: ' .. time.err) end
  local wanted = times
  for i = 1, size do
    local bound = bounds[tonumber(words[at + (i - 1) * stride + 1])]
    local text, a, b, c = read(KEYS[first + i], bound)
    if type(text) == 'table' then return text end
    before[i] = text
    if hits ~= 0 then
      a, b, c = stateAt(bound, a, b, c)
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
      local bound = bounds[tonumber(words[at + (i - 1) * stride + 1])]
      local a, b, c = as[i], bs[i], cs[i]
      if hits > 0 then a, b, c = take(bound, a, b, c, times * hits)
      else a, b, c = giveBack(bound, a, b, c, times * -hits) end
      local wrote = write(KEYS[first + i], bound, words[at + (i - 1) * stride], before[i], a, b, c)
      if type(wrote) == 'table' and wrote.err then
        -- A full Redis rejects the first write or none, but the user may lack the right to a later one: a group is written whole.
        for n = 1, i - 1 do
          local key, ttl, text = KEYS[first + n], words[at + (n - 1) * stride], before[n]
          ${luaRestoreCounter}
        end
        return wrote
      end
    end
  end
end

local function report(err, size, mark)
  if err then errors[#errors + 1] = err end
  for i = 1, size do texts[#texts + 1] = err and '!' or mark .. (before[i] or '') end
end

-- Appends the report after the values of plain keys.
local function reported(out)
  texts[#texts + 1] = ''
  out[#out + 1] = table.concat(texts, ' ')
  out[#out + 1] = now or 0
  for i = 1, #errors do out[#out + 1] = errors[i] end
end
`;

/**
 * A section that counts plain keys like `luaCountSection`, then keys with leases, then groups, one after another. ARGV is the number
 * of additions, the number of other plain keys, the bounds, the groups, the leases (`leaseArgument`), 1 in a cluster, the arguments
 * of `luaCountSection` for the plain keys, and the hashes of reservations on the keys with leases (`reservationKeysOf`). A group is
 * its size, hits, how many times, and for each of its keys its time to live and the number of its bound. It returns the answer of
 * `luaCountSection` for the plain keys, three numbers for each key with leases (`answerLeased`), what all others held before
 * (`CounterTexts`), the time in microseconds, an error for each group that has one, and the report of `luaReportOver`.
 */
export const luaBoundedCountSection = `${luaCounting}
local words, over
${luaWords(4)}${luaSteps}${luaLeases}
readBounds(ARGV[3])
local additions, plain, at, isCluster = tonumber(ARGV[1]), ARGV[1] + ARGV[2], 7, ARGV[6] == '1'
${luaCountKeys}
local first = countLeased(plain, ARGV[5], out)
at = 1
while at <= #words do
  local size = tonumber(words[at])
  report(step(first, size, at + 3, 2, tonumber(words[at + 1]), tonumber(words[at + 2])), size, '')
  first = first + size
  at = at + 3 + 2 * size
end
reported(out)
${luaReportOver}
answer = out
`;

/** Writes the answers from the three numbers that begin at `at`. If the last one is an error, the message stays unanswered. */
export function answerLeased(
  run: FoldedRun,
  reply: readonly unknown[],
  at: number,
  errors: RedisErrors,
): void {
  const before = replyNumber(reply[at]);
  const outstanding = replyNumber(reply[at + 1]);
  const { keeps, want, max, livesMs } = run.lease!;
  const reported = reply[at + 2];
  // For shares, the third item is a text of three numbers.
  const [granted, ...others] =
    livesMs > 0 && reported instanceof Buffer
      ? reported.toString('latin1').split(' ').map(Number)
      : [replyNumber(reported) ?? Number.NaN];
  const maxGranted = livesMs > 0 ? keeps + want : Math.min(want, max);
  if (before === undefined) run.fail(errors.fromCommand(keyError(reply[at])));
  else if (!isCount(outstanding)) run.fail(errors.fromCommand(keyError(reply[at + 1])));
  else if (reported instanceof ReplyError) {
    errors.fromCommand(reported);
    run.answer(before);
  } else if (!isCount(granted) || granted > maxGranted || !others.every(Number.isSafeInteger))
    run.fail(errors.fromCommand(keyError(reported)));
  else run.answerLeased(before, outstanding, granted, others);
}

/**
 * A section of stop-when-over for whole requests, in the order of their arrival. ARGV has for each request the number of its ops, and
 * for each op hits, '?' to only read, limit, how it holds back ('a'lone, 't'ogether, 'n'ever) and time to live. Hits below 0 are
 * refunded. If any op has a bound, each op also has the number of its bound, 0 without one, and the size of the group that begins
 * there. All of that is then one text, and the bounds are a second one. For each op without a bound, it returns the total after, or
 * -1 - total if the op was held back. If there are bounds, the answer of `luaBoundedCountSection` follows, with an asterisk before
 * the report about a group that others held back. The report of `luaReportOver` comes last. Which ops are held back: `stopOthersWhenOver` in
 * stop-when-over.ts.
 */
export const luaStopSection = `${luaCounting}
local words, size = ARGV, argc
local out, over, isCluster = {}, nil, false
local stride, usedOf, countGroup, reportGroups = 4, look, nil, nil
if argc == 2 then
  ${luaWords(1)}${luaSteps}
  readBounds(ARGV[2])
  size, stride, reportGroups = #words, 6, reported
  usedOf = function(key, arg)
    local bound = bounds[tonumber(words[arg + 4])]
    if not bound then return look(key) end
    local text, a, b, c = read(key, bound)
    if not now or type(text) == 'table' then return false end
    a, b, c = stateAt(bound, a, b, c)
    if bound[1] == 'fixed' then return a end
    return bound[2] - room(bound, a, b, c)
  end
  countGroup = function(first, size, arg, hits, isHeldBack)
    report(step(first, size, arg + 3, 6, isHeldBack and 0 or hits, 1), size, isHeldBack and '*' or '')
  end
end
local first, at, count = 0, 1, 0
while at <= size do
  local exceeds, unread, stop, together, overTogether, arg, i = {}, nil, false, 0, 0, at + 1, 1
  count = tonumber(words[at])
  while i <= count do
    local hits, group = tonumber(words[arg]), countGroup and tonumber(words[arg + 5]) or 1
    if hits and hits >= 0 then
      for n = 0, group - 1 do
        local used = usedOf(KEYS[first + i + n], arg + stride * n)
        if type(used) == 'number' then
          if used + hits > tonumber(words[arg + stride * n + 1]) then exceeds[i] = true end
        elseif used then
          unread = unread or {}
          unread[i] = used
        end
      end
      if words[arg + 2] == 't' then
        together = together + 1
        if exceeds[i] then overTogether = overTogether + 1 end
      elseif exceeds[i] and words[arg + 2] == 'a' then
        stop = true
      end
    end
    i, arg = i + group, arg + stride * group
  end
  if together > 0 and together == overTogether then stop = true end
  i, arg = 1, at + 1
  while i <= count do
    local hits, group = tonumber(words[arg]), countGroup and tonumber(words[arg + 5]) or 1
    local isHeldBack = not hits or hits >= 0 and stop and not exceeds[i]
    if countGroup and words[arg + 4] ~= '0' then
      countGroup(first + i - 1, group, arg, hits, isHeldBack)
    else
      local key, after = KEYS[first + i], unread and unread[i]
      if after then
        -- It is unknown whether it is over, so it is not counted.
      elseif hits and hits < 0 then
        after = clamp(key, hits, '0', max, '0')
        if type(after) == 'number' then after = math.max(0, after + hits) end
      elseif hits and hits > 0 and not isHeldBack then
        after = add(key, words[arg], words[arg + 3])
        if type(after) == 'number' then
          after = math.min(max + 1, after + hits)
        elseif string.find(after.err, '${oomError}') then
          -- An exhausted limit refuses hits that a full Redis cannot count.
          local held = look(key)
          if type(held) == 'number' and held >= tonumber(words[arg + 1]) and held + hits <= max then
            after, isHeldBack = held + hits, true
          end
        end
      else
        after = look(key)
      end
      if type(after) == 'number' and (not hits or hits >= 0) then
        if after - words[arg + 1] > 0 then
          over = over or {}
          over[#over + 1] = first + i
        end
        if isHeldBack then after = -1 - after end
      end
      out[#out + 1] = exact(after)
    end
    i, arg = i + group, arg + stride * group
  end
  first, at = first + count, arg
end
if reportGroups then reportGroups(out) end
${luaReportOver}
answer = out
`;
