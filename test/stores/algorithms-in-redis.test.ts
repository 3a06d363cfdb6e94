import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Bound, type Charge, type CounterState, exactMost } from '../../limiter/algorithms/bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { algorithmsLua } from '../../limiter/algorithms/registry.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import { luaOfAlgorithms } from '../../limiter/stores/redis/lua/bounded-scripts.ts';
import { luaBase } from '../../limiter/stores/redis/lua/scripts.ts';
import { isExactBucket } from '../../rules/algorithms/token-bucket.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { caseCount } from '../support/property-cases.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

/**
 * The formulas alone, without keys. Each of ARGV is a case of space-separated words: the counter (`-` for none), the time, the hits,
 * the charge with the numbers of what was returned, and the bound.
 */
const script = `${luaBase}
local floor, now = math.floor, 0
local function unknown(kind) error('no algorithm is named ' .. tostring(kind)) end
${algorithmsLua.map(({ helpers }) => helpers).join('')}
${(['stateAt', 'room', 'take', 'giveBack', 'mostTaken', 'giveBackOf'] as const).map(luaOfAlgorithms).join('')}
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
    texts(a, b, c), texts(free), texts(take(bound, a, b, c, math.min(hits, free))), texts(mostTaken(bound, a, b, c)),
    texts(giveBack(bound, a, b, c, hits)), texts(giveBackOf(bound, a, b, c, hits, charge, returned)),
    texts(returned[1], returned[2], returned[3]),
  }, ', ')
end
return results`;

/** 2026-11-22T12:00:00Z and a bit. */
const start = 1_795_348_800_123_456;

interface Case {
  bound: Bound;
  held: CounterState | undefined;
  nowMicros: number;
  hits: number;
  charge: Charge;
  returned: CounterState;
}

function wordsOf({ bound, held, nowMicros, hits, charge, returned }: Case): string {
  return [
    ...(held ?? ['-', 0, 0]),
    ...[nowMicros, hits],
    ...[...charge.held, charge.others, ...charge.returned, ...returned],
    bound.scriptText,
  ].join(' ');
}

function expectedOf({ bound, held: before, nowMicros, hits, charge, returned }: Case): string {
  const held = bound.stateAt(before, nowMicros);
  const room = bound.room(held, nowMicros);
  const back = bound.giveBackOf(charge, { held, hits, returned, nowMicros });
  return [
    held,
    [room],
    bound.take(held, Math.min(hits, room)),
    [bound.mostTaken(held, nowMicros)],
    bound.giveBack(held, hits, nowMicros),
    [...back.held, back.given],
    back.returned,
  ]
    .map((numbers) => numbers.join(' '))
    .join(', ');
}

const count = fc.oneof(fc.nat(4), fc.nat(30), fc.nat(1_000_000));
const seconds = fc.oneof(fc.constantFrom(1, 30, 60, 3600), fc.integer({ min: 1, max: 100_000 }));

const fixed: fc.Arbitrary<Case> = fc
  .record({ requests: count, total: fc.option(count, { nil: undefined }), hits: count })
  .map(({ requests, total, hits }) => ({
    ...{ bound: new FixedWindow(requests), hits, nowMicros: start, returned: [0, 0, 1] },
    held: total === undefined ? undefined : [total, 0, 0],
    charge: { held: [0, 0, 0], taken: hits, others: 0, returned: [0, 0, 1] },
  }));

const sliding: fc.Arbitrary<Case> = fc
  .record({
    requests: fc.oneof(count, fc.constant(exactMost)),
    length: seconds,
    /** Of the counter and of the charge, in windows after the current one. */
    at: fc.integer({ min: -3, max: 3 }),
    chargedAt: fc.integer({ min: -3, max: 2 }),
    counts: fc.option(fc.tuple(count, fc.oneof(count, fc.constant(exactMost))), { nil: undefined }),
    laterMicros: fc.nat(1e9),
    hits: count,
  })
  .map(({ requests, length, at, chargedAt, counts, laterMicros, hits }) => {
    const windowMicros = length * 1_000_000;
    const nowMicros = start + laterMicros;
    const window = Math.floor(nowMicros / windowMicros);
    return {
      ...{ bound: new SlidingWindow({ requests, windowMicros }), hits, nowMicros, returned: [0, 0, 1] },
      held: counts && [window + at, ...counts],
      charge: { held: [window + chargedAt, 0, 0], taken: hits, others: 0, returned: [0, 0, 1] },
    };
  });

/** Of a full bucket's time, and a rest of the given parts or of others. */
const time = fc.record({
  share: fc.oneof(fc.double({ min: 0, max: 1.3, noNaN: true }), fc.constantFrom(0, 1)),
  rest: fc.double({ min: 0, max: 0.999, noNaN: true }),
  others: fc.constantFrom(0, 0, 0, 1, 5),
});

const bucket: fc.Arbitrary<Case | undefined> = fc
  .record({
    requests: fc.oneof(fc.nat(20), fc.integer({ min: 1, max: 10_000 })),
    burst: fc.oneof(fc.nat(20), fc.integer({ min: 1, max: 10_000 })),
    length: seconds,
    held: fc.option(time, { nil: undefined }),
    charged: time,
    returnedBefore: time,
    returnedSince: time,
    others: fc.nat(20),
    hits: fc.oneof(fc.nat(20), fc.nat(10_000)),
    isEarlier: fc.boolean(),
  })
  .map(
    ({ requests, burst, length, held, charged, returnedBefore, returnedSince, others, hits, isEarlier }) => {
      const numbers = { requests, burst, windowMicros: length * 1_000_000 };
      if (!isExactBucket(numbers)) return undefined;
      const bound = new TokenBucket(numbers);
      const full = bound.untilUnusedMicros(bound.take([0, 0, Math.max(1, requests)], bound.capacity), 0);
      const timeOf = ({
        share,
        rest,
        others: more,
      }: {
        share: number;
        rest: number;
        others: number;
      }): CounterState => {
        const parts = Math.max(1, requests) + more;
        return [Math.floor(full * share), Math.floor(rest * parts), parts];
      };
      const at = ([whole, rest, parts]: CounterState): CounterState => [start + whole, rest, parts];
      const before = timeOf(returnedBefore);
      const since = timeOf(returnedSince);
      return {
        ...{ bound, hits, nowMicros: start },
        held: held && (isEarlier ? [start - 5, 0, requests] : at(timeOf(held))),
        charge: { held: at(timeOf(charged)), taken: hits, others, returned: before },
        // What was returned never becomes less.
        returned: [
          before[0] + since[0],
          since[2] === before[2] ? Math.max(before[1], since[1]) : 0,
          before[2],
        ],
      };
    },
  );

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

  it.each<[string, fc.Arbitrary<Case | undefined>]>([
    ['a fixed window', fixed],
    ['a sliding window', sliding],
    ['a token bucket', bucket],
  ])('computes for %s what its TypeScript computes', async (_, one) => {
    const cases = one.filter((each) => each !== undefined);
    await fc.assert(
      fc.asyncProperty(fc.array(cases, { minLength: 200, maxLength: 200 }), async (list) => {
        const results = await client.eval(script, 0, ...list.map(wordsOf));
        expect(results).toEqual(list.map(expectedOf));
      }),
      { numRuns: caseCount(10) },
    );
  });
});
