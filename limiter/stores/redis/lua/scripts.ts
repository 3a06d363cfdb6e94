import { createHash } from 'node:crypto';
import type { KeyedCommands } from '../wire/redis-connection.ts';
import { isNoScript } from '../wire/redis-error.ts';
import { luaReportOver } from './reserved-keys-over.ts';

export interface RedisScript {
  readonly source: string;
  /** How EVALSHA names it. */
  readonly sha1: string;
}

/** Ready to be named by its digest. */
export function redisScript(source: string): RedisScript {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

/** What a full Redis says to a write; before version 7 behind a minus, in 6.2 behind the script's line as well. The script may look and go on. */
export const oomError = '^@?[^ ]* ?%d*:? ?%-?OOM ';

/** What all scripts begin with. */
export const luaBase = `
local pcall = redis.pcall
local max = 9007199254740991
`;

/**
 * The Lua that the scripts share. Every function answers with a number, or with Redis's error for that key alone.
 * Totals stop at 2^53 - 1, the last number that Lua's doubles hold exactly. No key is created without a life: that is
 * why counting is a script and not INCRBY and EXPIRE on two lines, of which a lost connection could leave the first.
 */
export const luaCounting = `${luaBase}
-- The key stands above max, or INCRBY would overflow: it becomes max and keeps its life.
local function saturate(key, ttl)
  local left = pcall('PTTL', key)
  if type(left) == 'number' and left > 0 then return pcall('PSETEX', key, left, '9007199254740991') end
  return pcall('SETEX', key, ttl, '9007199254740991')
end

-- For the answer: the client reads integers near max one off, but text exactly.
local function exact(value)
  if type(value) == 'number' and (value > 4503599627370496 or value < -4503599627370496) then
    return string.format('%.0f', value)
  end
  return value
end

local function look(key)
  local held = pcall('GET', key)
  if type(held) == 'table' then return held end
  if not held then return 0, true end
  local value = tonumber(held)
  if not value then return redis.error_reply('ERR value is not an integer or out of range') end
  if value > max then return max end
  return value
end

-- Adds hits, 1 or more, unless INCRBY has answered with after; answers with the value before. A key that refunds brought to 0 counts as new: its life starts
-- again, which changes no total, as its name holds its window.
local function add(key, hits, ttl, after)
  after = after or pcall('INCRBY', key, hits)
  if type(after) == 'table' then
    local before = look(key)
    if before ~= max then return after end
    saturate(key, ttl)
    return before
  end
  local before = after - hits
  if before == 0 then
    local expire = pcall('EXPIRE', key, ttl)
    if type(expire) == 'table' then
      pcall('DEL', key)
      return expire
    end
  elseif after > max then
    before = pcall('DECRBY', key, hits)
    saturate(key, ttl)
    if before > max then return max end
  end
  return before
end

-- x -> min(high, max(low, x + shift)); a missing key stays missing when ttl is '0'. Answers with the value before.
local function clamp(key, shift, low, high, ttl)
  local before, missing = look(key)
  if type(before) == 'table' then return before end
  local after = math.min(tonumber(high), math.max(tonumber(low), before + shift))
  local wrote
  if missing then
    if ttl ~= '0' then wrote = pcall('SETEX', key, ttl, after) end
  elseif after ~= before then
    wrote = pcall('INCRBY', key, after - before)
  end
  if type(wrote) == 'table' and wrote.err then return wrote end
  return before
end
`;

/**
 * Counts the first `plain` keys, `additions` of them first: ARGV from `at` on has for each addition hits, ttl and most, then
 * for each other key shift, low, high, ttl and most (`FoldedRun`). Most calls only add to keys that are there: all other
 * functions are made when the first key needs them. What is over goes into `over`, for `luaReportOver`. Where Redis is full, it
 * is answered with what the key holds, and the error: an exhausted limit refuses hits that are not counted, too.
 */
export const luaCountKeys = `
local out = {}
local type, doAdd, doClamp, doLook, toText = type, nil, nil, nil, nil
local i = 1
while i <= plain do
  local before, after
  while i <= additions do
    after = pcall('INCRBY', KEYS[i], ARGV[at])
    if type(after) ~= 'number' or after > 4503599627370496 then break end
    before = after - ARGV[at]
    if before <= 0 then break end
    if before - ARGV[at + 2] > 0 then
      over = over or {}
      over[#over + 1] = i
    end
    out[i] = before
    i, at = i + 1, at + 3
  end
  if i > plain then break end
  if not doAdd then
    ${luaCounting}
    doAdd, doClamp, doLook, toText = add, clamp, look, exact
  end
  if i <= additions then
    before = doAdd(KEYS[i], ARGV[at], ARGV[at + 1], after)
    at = at + 3
  else
    before = doClamp(KEYS[i], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3])
    at = at + 5
  end
  local held = before
  if type(before) == 'table' and string.find(before.err, '${oomError}') then held = doLook(KEYS[i]) end
  if type(held) == 'number' and held - ARGV[at - 1] > 0 then
    over = over or {}
    over[#over + 1] = i
    if held ~= before then before = { toText(held), before } end
  end
  out[i] = toText(before)
  i = i + 1
end
`;

/**
 * A section (program.ts) that counts any number of different keys: KEYS are the additions first; ARGV is how many additions there are, then what
 * `luaCountKeys` wants. Answers with the value before, a key each, and behind them with what `luaReportOver` says.
 */
export const luaCountSection = `
local additions, plain, at, over, isCluster = tonumber(ARGV[1]), #KEYS, 2, nil, false
${luaCountKeys}
${luaReportOver}
answer = out
`;

/** Where the key is. Rejects with what `send` rejected with. */
export function runScript(
  commands: KeyedCommands,
  { key, script, args }: { key: string; script: RedisScript; args: string[] },
): Promise<unknown> {
  return commands.send(key, 'evalsha', [script.sha1, ...args]).catch((error: unknown) => {
    // Redis ran nothing when it does not know the script.
    if (!isNoScript(error)) throw error;
    return commands.send(key, 'eval', [script.source, ...args]);
  });
}
