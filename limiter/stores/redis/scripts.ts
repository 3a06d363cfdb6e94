/**
 * The Lua that the scripts share. Every function answers with a number, or with Redis's error for that key alone.
 * Totals stop at 2^53 - 1, the last number that Lua's doubles hold exactly. No key is created without a life: that is
 * why counting is a script and not INCRBY and EXPIRE on two lines, of which a lost connection could leave the first.
 */
export const luaCounting = `
local pcall = redis.pcall
local max = 9007199254740991

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

-- Adds hits, 1 or more; answers with the value before. A key that refunds brought to 0 counts as new: its life starts
-- again, which changes no total, as its name holds its window.
local function add(key, hits, ttl)
  local after = pcall('INCRBY', key, hits)
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
