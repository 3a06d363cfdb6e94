import { createHash } from 'node:crypto';
import { luaReportOver } from './reserved-keys-over.ts';

export interface RedisScript {
  readonly source: string;
  /** The name of the script for EVALSHA. */
  readonly sha1: string;
}

/** Returns a script with its digest, which names it. */
export function redisScript(source: string): RedisScript {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}

/**
 * The error of a full Redis for a write. Before version 7, it follows a minus sign; in 6.2, also the line of the script. The script may
 * read and continue.
 */
export const oomError = '^@?[^ ]* ?%d*:? ?%-?OOM ';

/** The beginning of all scripts. */
export const luaBase = `
local pcall = redis.pcall
local max = 9007199254740991
`;

/**
 * The Lua that the scripts share. Every function returns a number, or Redis's error for that key alone. Totals stop at 2^53 - 1, the
 * last number that Lua's doubles hold exactly. No key is created without a time to live. Counting is therefore a script instead of
 * INCRBY and EXPIRE: a lost connection could execute only the first of these.
 */
export const luaCounting = `${luaBase}
-- The key is above max, or INCRBY would overflow: it becomes max and keeps its time to live.
local function saturate(key, ttl)
  local left = pcall('PTTL', key)
  local wrote = type(left) == 'number' and left > 0 and pcall('PSETEX', key, left, '9007199254740991')
  if not wrote or wrote.err then pcall('SETEX', key, ttl, '9007199254740991') end
end

-- Formats a number for the answer: the client may read integers near max with an error of one, but it reads text exactly.
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

-- Adds hits, 1 or more, unless INCRBY has answered with after. Returns the value before. A key that refunds brought to 0 counts as
-- new: its time to live starts again. This changes no total, because its name contains its window.
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
      if type(pcall('DEL', key)) == 'table' then pcall('SETEX', key, ttl, '0') end
      return expire
    end
  elseif after > max then
    before = pcall('INCRBY', key, '-' .. hits)
    saturate(key, ttl)
    if before > max then return max end
  end
  return before
end

-- x -> min(high, max(low, x + shift)); a missing key stays missing if ttl is '0'. Returns the value before.
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
 * Counts the first `plain` keys, of which the first `additions` only add. ARGV from `at` on has hits, ttl and most for each addition,
 * then shift, low, high, ttl and most for each other key (`FoldedRun`). Most calls only add to existing keys, so all other functions
 * are created when the first key needs them. Keys that are over go into `over`, for `luaReportOver`. If Redis is full, the answer is
 * what the key holds, and the error: an exhausted limit rejects hits that are not counted, too.
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
 * A section (program.ts) that counts any number of different keys. KEYS are the additions first. ARGV is the number of additions,
 * then the arguments of `luaCountKeys`. It returns the value before of each key, followed by the report of `luaReportOver`.
 */
export const luaCountSection = `
local additions, plain, at, over, isCluster = tonumber(ARGV[1]), #KEYS, 2, nil, false
${luaCountKeys}
${luaReportOver}
answer = out
`;
