/**
 * The scripts of calls that have ops with bounds among others. What a bound lets pass is decided here once more, in the
 * same doubles as in bound.ts, sliding-window.ts and token-bucket.ts: read them side by side.
 */
import { answerSteps, BoundTable, type Step, stepArgs, stepKeys } from './bounded-steps.ts';
import { type KeyedCommands, luaCounting, redisScript, runScript } from './scripts.ts';

/**
 * A bound is a table of its kind and its numbers (`Bound.scriptText`), what a counter holds three numbers. A key holds a
 * fixed window's total as a number, all else as `1:2:3`, so that a plain fixed window may count on in the same key.
 * What cannot be written is refused at a script's first write or not at all, so a group is written whole.
 */
const luaBounds = `
local floor = math.floor
local bounds = {}

-- Redis before 5.0 writes nothing after TIME otherwise.
if redis.replicate_commands then redis.replicate_commands() end
local time = pcall('TIME')
local now = not time.err and time[1] * 1000000 + time[2]

-- From ARGV: how many they are, then each. Gives where ARGV goes on.
local function readBounds(at)
  local count = tonumber(ARGV[at])
  for i = 1, count do
    local bound = {}
    for part in string.gmatch(ARGV[at + i], '%S+') do bound[#bound + 1] = tonumber(part) or part end
    bounds[i] = bound
  end
  return at + count + 1
end

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

local function heldAt(bound, a, b, c)
  if bound[1] == 'fixed' then return a or 0, 0, 0 end
  if bound[1] == 'sliding' then
    local window = floor(now / bound[3])
    if not a or a + 1 < window then return window, 0, 0 end
    if a < window then return window, c, 0 end
    return window, b, c
  end
  local parts, fullWhole, fullRest = bound[3], bound[6], bound[7]
  if not a or a < now then return now, 0, parts end
  if c ~= parts and b > 0 then a, b = a + 1, 0 end
  local ahead = a - now
  if ahead > fullWhole or (ahead == fullWhole and b > fullRest) then return now + fullWhole, fullRest, parts end
  return a, b, parts
end

local function roomOfBucket(bound, a, b)
  local capacity, parts, whole, rest = bound[2], bound[3], bound[4], bound[5]
  local freeWhole, freeRest = bound[6] - (a - now), bound[7] - b
  if freeRest < 0 then freeWhole, freeRest = freeWhole - 1, freeRest + parts end
  local function fits(tokens)
    local restOfAll = tokens * rest
    local wholes = tokens * whole + floor(restOfAll / parts)
    return wholes < freeWhole or (wholes == freeWhole and restOfAll % parts <= freeRest)
  end
  local quotient = floor((freeWhole + freeRest / parts) / (whole + rest / parts))
  local tokens = math.min(capacity, math.max(0, quotient))
  while tokens > 0 and not fits(tokens) do tokens = tokens - 1 end
  while tokens < capacity and fits(tokens + 1) do tokens = tokens + 1 end
  return tokens
end

local function room(bound, a, b, c)
  local capacity = bound[2]
  if bound[1] == 'fixed' then return math.max(0, capacity - a) end
  if bound[1] == 'bucket' then return roomOfBucket(bound, a, b) end
  local ticks = bound[5]
  local restTicks = ticks - floor((now % bound[3]) / bound[4])
  return math.max(0, floor((capacity * ticks - b * restTicks) / ticks) - c)
end

local function take(bound, a, b, c, hits)
  if bound[1] == 'fixed' then return a + hits, 0, 0 end
  if bound[1] == 'sliding' then return a, b, c + hits end
  local parts, restOfAll = bound[3], hits * bound[5]
  local rest = b + restOfAll % parts
  return a + hits * bound[4] + floor(restOfAll / parts) + floor(rest / parts), rest % parts, parts
end

local function giveBack(bound, a, b, c, hits)
  if bound[1] == 'fixed' then return math.max(0, a - hits), 0, 0 end
  if bound[1] == 'sliding' then
    local fromCurrent = math.min(c, hits)
    return a, math.max(0, b - (hits - fromCurrent)), c - fromCurrent
  end
  local parts = bound[3]
  if hits >= bound[2] then return now, 0, parts end
  local whole, rest = take(bound, 0, 0, 0, hits)
  whole, rest = a - whole, b - rest
  if rest < 0 then whole, rest = whole - 1, rest + parts end
  if whole < now then return now, 0, parts end
  return whole, rest, parts
end

local function write(key, bound, ttl, text, a, b, c)
  if bound[1] ~= 'fixed' then return pcall('SETEX', key, ttl, string.format('%.0f:%.0f:%.0f', a, b, c)) end
  if text then return pcall('INCRBY', key, a - math.min(max, tonumber(text))) end
  return pcall('SETEX', key, ttl, a)
end

-- Counts a group of size keys, those of KEYS behind first, so many times as it passes whole; hits below 0 are given back.
-- ARGV has each key's bound and life, the first at at, the others each stride further. Gives what the keys held before, or
-- an error.
local function step(first, size, at, stride, hits, times)
  if not now then return redis.error_reply('NOPERM limits with bounds need TIME: ' .. time.err) end
  local texts, held = {}, {}
  for i = 1, size do
    local bound = bounds[tonumber(ARGV[at + (i - 1) * stride])]
    local text, a, b, c = read(KEYS[first + i], bound)
    if type(text) == 'table' then return text end
    texts[i] = text
    if hits > 0 or (text and hits < 0) then
      a, b, c = heldAt(bound, a, b, c)
      if hits > 0 then times = math.min(times, floor(room(bound, a, b, c) / hits)) end
      held[i] = { bound, a, b, c }
    end
  end
  if times == 0 then return texts end
  for i = 1, size do
    if held[i] then
      local bound, a, b, c = unpack(held[i])
      if hits > 0 then a, b, c = take(bound, a, b, c, times * hits)
      else a, b, c = giveBack(bound, a, b, c, times * -hits) end
      local wrote = write(KEYS[first + i], bound, ARGV[at + (i - 1) * stride + 1], texts[i], a, b, c)
      if type(wrote) == 'table' and wrote.err then return wrote end
    end
  end
  return texts
end
`;

/**
 * As `countScript`, then groups, one after another. ARGV is how many additions and how many other plain keys there are, the
 * bounds, what `countScript` wants for the plain keys, then for each group its size, hits, how many times, and for each of
 * its keys the number of its bound and its life. Answers for each key of a group with what it held before, and at the end
 * with the time in microseconds.
 */
export const boundedCountScript = redisScript(`${luaCounting}${luaBounds}
local additions, plain = tonumber(ARGV[1]), ARGV[1] + ARGV[2]
local at = readBounds(3)
local out = {}
for i = 1, additions do
  out[i] = exact(add(KEYS[i], ARGV[at], ARGV[at + 1]))
  at = at + 2
end
for i = additions + 1, plain do
  out[i] = exact(clamp(KEYS[i], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]))
  at = at + 4
end
local first = plain
while at <= #ARGV do
  local size = tonumber(ARGV[at])
  local before = step(first, size, at + 3, 2, tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]))
  for i = 1, size do out[first + i] = before.err and before or before[i] end
  first = first + size
  at = at + 3 + 2 * size
end
out[first + 1] = now or 0
return out
`);

/** Counts and answers steps whose keys have one slot, atomically. Rejects with what `send` rejected with. */
export async function admitByScript(commands: KeyedCommands, steps: readonly Step[]): Promise<void> {
  const keys = steps.flatMap(stepKeys);
  const bounds = new BoundTable();
  const rest = stepArgs(steps, bounds);
  const args = [String(keys.length), ...keys, '0', '0', ...bounds.toArgs(), ...rest];
  const reply = await runScript(commands, { key: keys[0]!, script: boundedCountScript, args });
  if (!Array.isArray(reply) || reply.length !== keys.length + 1) throw reply;
  answerSteps(steps, { replies: reply, at: 0, translate: (refusal) => commands.translate(refusal) });
}

/**
 * As `stopScript`, with groups among the ops. ARGV is the bounds, then for each request how many ops it has, and for each of
 * them the number of its bound, 0 without one, ttl, hits, limit, how it holds back, and the size of the group that begins
 * there. Answers for an op with a bound with '-' where others held it back, else '+', and behind that what its key held
 * before; at the end with the time in microseconds.
 */
export const boundedStopScript = redisScript(`${luaCounting}${luaBounds}
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
    local total = used(KEYS[first + i], bounds[tonumber(ARGV[at + 6 * i])])
    if type(total) == 'number' and total + hits > tonumber(ARGV[at + 6 * i + 3]) then return true end
  end
  return false
end

local function countPlain(key, at, hits, heldBack)
  local after
  if hits and hits < 0 then
    after = clamp(key, hits, '0', max, '0')
    if type(after) == 'number' then after = math.max(0, after + hits) end
  elseif hits and hits > 0 and not heldBack then
    after = add(key, ARGV[at + 2], ARGV[at + 1])
    if type(after) == 'number' then after = math.min(max, after + hits) end
  else
    after = look(key)
    if type(after) == 'number' and heldBack then after = -1 - after end
  end
  return exact(after)
end

local out = {}
local first = 1
local at = readBounds(1)
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  at = at + 1
  local over, stop, together, overTogether = {}, false, 0, 0
  local i = 0
  while i < count do
    local arg = at + 6 * i
    local hits, holdsBack, size = tonumber(ARGV[arg + 2]), ARGV[arg + 4], tonumber(ARGV[arg + 5])
    if hits and hits >= 0 then
      over[i] = isAnyOver(first + i, size, arg, hits)
      if holdsBack == 't' then
        together = together + 1
        if over[i] then overTogether = overTogether + 1 end
      elseif over[i] and holdsBack == 'a' then
        stop = true
      end
    end
    i = i + size
  end
  if together > 0 and together == overTogether then stop = true end
  i = 0
  while i < count do
    local arg = at + 6 * i
    local hits, size = tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 5])
    local heldBack = not hits or (hits >= 0 and stop and not over[i])
    if ARGV[arg] == '0' then
      out[first + i] = countPlain(KEYS[first + i], arg, hits, heldBack)
    else
      local before = step(first + i - 1, size, arg, 6, heldBack and 0 or hits, 1)
      for j = 1, size do
        out[first + i + j - 1] = before.err and before or (heldBack and '-' or '+') .. (before[j] or '')
      end
    end
    i = i + size
  end
  first = first + count
  at = at + 6 * count
end
out[first] = now or 0
return out
`);
