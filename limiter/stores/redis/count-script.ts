import { redisScript } from './redis-script.ts';
import { luaCounting } from './scripts.ts';

/**
 * Counts any number of different keys: KEYS are the additions first; ARGV is how many additions there are, then for each
 * of them hits and ttl, then for each other key shift, low, high and ttl (`FoldedRun`). Answers with the value before,
 * a key each.
 */
export const countScript = redisScript(`${luaCounting}
local additions = tonumber(ARGV[1])
local out = {}
local at = 2
for i = 1, additions do
  out[i] = exact(add(KEYS[i], ARGV[at], ARGV[at + 1]))
  at = at + 2
end
for i = additions + 1, #KEYS do
  out[i] = exact(clamp(KEYS[i], ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]))
  at = at + 4
end
return out
`);
