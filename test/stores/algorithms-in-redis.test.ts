import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { algorithmsLua } from '../../limiter/algorithms/registry.ts';
import { luaOfAlgorithms } from '../../limiter/stores/redis/lua/bounded-scripts.ts';
import { luaBase, redisScript } from '../../limiter/stores/redis/lua/scripts.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { caseCount } from '../support/property-cases.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { type AlgorithmCase, bucketCases, fixedCases, slidingCases } from './algorithm-cases.ts';

/**
 * The formulas alone, without keys. Each of ARGV is a case of space-separated words: the counter (`-` for none), the time, the hits,
 * the charge with the numbers of what was returned, and the bound.
 */
const script = redisScript(`${luaBase}
local floor, now = math.floor, 0
local function unknown(kind) error('no algorithm is named ' .. tostring(kind)) end
${algorithmsLua.map(({ helpers }) => helpers).join('')}
${(['stateAt', 'room', 'take', 'giveBack', 'maxTaken', 'giveBackOf'] as const).map(luaOfAlgorithms).join('')}
local results = {}
local function texts(...)
  local out = {}
  for i, number in ipairs({...}) do out[i] = string.format('%.0f', number) end
  return table.concat(out, ' ')
end
for i = 1, #ARGV do
  local words = {}
  for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = tonumber(word) or word end
  now = words[4]
  local bound = {unpack(words, 16)}
  local a, b, c
  if words[1] ~= '-' then a, b, c = words[1], words[2], words[3] end
  a, b, c = stateAt(bound, a, b, c)
  local free, hits = room(bound, a, b, c), words[5]
  local charge = {
    a = words[6], b = words[7], c = words[8], others = words[9], isHere = true, returned = {words[10], words[11], words[12]},
  }
  local returned = {words[13], words[14], words[15]}
  results[i] = table.concat({
    texts(a, b, c), texts(free), texts(take(bound, a, b, c, math.min(hits, free))), texts(maxTaken(bound, a, b, c)),
    texts(giveBack(bound, a, b, c, hits)), texts(giveBackOf(bound, a, b, c, hits, charge, returned)),
    texts(returned[1], returned[2], returned[3]),
  }, ', ')
end
return results`);

function wordsOf({ bound, held, nowMicros, hits, charge, returned }: AlgorithmCase): string {
  return [
    ...(held ?? ['-', 0, 0]),
    ...[nowMicros, hits],
    ...[...charge.held, charge.others, ...charge.returned, ...returned],
    bound.scriptText,
  ].join(' ');
}

function expectedOf({ bound, held: before, nowMicros, hits, charge, returned }: AlgorithmCase): string {
  const held = bound.stateAt(before, nowMicros);
  const room = bound.room(held, nowMicros);
  const back = bound.giveBackOf(charge, { held, hits, returned, nowMicros });
  return [
    held,
    [room],
    bound.take(held, Math.min(hits, room)),
    [bound.maxTaken(held, nowMicros)],
    bound.giveBack(held, hits, nowMicros),
    [...back.held, back.given],
    back.returned,
  ]
    .map((numbers) => numbers.join(' '))
    .join(', ');
}

describeWithServer('the Lua of the algorithms', redisProgram, (path) => {
  let server: RedisServer;
  let client: Redis;

  beforeAll(async () => {
    server = await startRedis({ path });
    client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
  });
  afterAll(async () => {
    client.disconnect();
    await server.stop();
  });

  it.each<[string, fc.Arbitrary<AlgorithmCase>]>([
    ['a fixed window', fixedCases],
    ['a sliding window', slidingCases],
    ['a token bucket', bucketCases],
  ])('computes for %s what its TypeScript computes', async (_, cases) => {
    await fc.assert(
      fc.asyncProperty(fc.array(cases, { minLength: 200, maxLength: 200 }), async (list) => {
        const results = await client.eval(script.source, 0, ...list.map(wordsOf));
        expect(results).toEqual(list.map(expectedOf));
      }),
      { numRuns: caseCount(10) },
    );
  });
});
