import { redisScript } from './redis-script.ts';
import { luaCounting } from './scripts.ts';

/**
 * Stop-when-over for whole requests, in the order they came: ARGV is for each request how many ops it has, then for each
 * of them hits, ttl, limit and how it holds back ('a'lone, 't'ogether, 'n'ever); hits below 0 are taken back, and '' only
 * looks. KEYS are the ops' keys, repeated where a key comes twice. Answers with the total after, an op each, and with -1 - total for an op that was held back.
 * Which ops are held back: `holdBack` in stop-when-over.ts.
 */
export const stopScript = redisScript(`${luaCounting}
local out = {}
local first = 0
local at = 1
while at <= #ARGV do
  local count = tonumber(ARGV[at])
  local over = {}
  local stop = false
  local together = 0
  local overTogether = 0
  for i = 1, count do
    local arg = at + 4 * i - 3
    local hits = tonumber(ARGV[arg])
    if hits and hits >= 0 then
      local before = look(KEYS[first + i])
      over[i] = type(before) == 'number' and before + hits > tonumber(ARGV[arg + 2])
      if ARGV[arg + 3] == 't' then
        together = together + 1
        if over[i] then overTogether = overTogether + 1 end
      elseif over[i] and ARGV[arg + 3] == 'a' then
        stop = true
      end
    end
  end
  if together > 0 and together == overTogether then stop = true end
  for i = 1, count do
    local key = KEYS[first + i]
    local arg = at + 4 * i - 3
    local hits = tonumber(ARGV[arg])
    local after
    if hits and hits < 0 then
      after = clamp(key, hits, '0', max, '0')
      if type(after) == 'number' then after = math.max(0, after + hits) end
    elseif hits and hits > 0 and (over[i] or not stop) then
      after = add(key, ARGV[arg], ARGV[arg + 1])
      if type(after) == 'number' then after = math.min(max, after + hits) end
    else
      after = look(key)
      if type(after) == 'number' and (not hits or (stop and not over[i])) then after = -1 - after end
    end
    out[first + i] = exact(after)
  end
  first = first + count
  at = at + 4 * count + 1
end
return out
`);
