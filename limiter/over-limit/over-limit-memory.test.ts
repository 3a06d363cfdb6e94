import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { Unit } from '../../rules/model.ts';
import { limitedPlan, type MatchedTraits } from '../../test/support/matched-rule.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { type OverLimitHit, OverLimitMemory, overLimitJson, overLimitRowBytes } from './over-limit-memory.ts';

const start = Date.UTC(2026, 10, 22, 10);

function memoryOf(capacity: number) {
  const clock = { ms: start, nowMs: () => clock.ms };
  const memory = new OverLimitMemory(capacity, clock);
  memory.useRules('v1');
  return { memory, clock };
}

function hitOf(key: string, traits: MatchedTraits = {}): OverLimitHit {
  const plan = { ...limitedPlan({ path: 'shop.user', ...traits }).limits[0]!, key };
  return { counter: plan, windowEndSeconds: 0, secondsToReset: 0 };
}

const entries = (value: string) => [{ key: 'user', value }];
const called = (id: string) => ({ fields: [':path', '/x', 'x-request-id', id] });
const all = { limit: 1_000 };

describe('the memory of requests over limit', () => {
  it('has one row for a counter and second, with a count and the last request', () => {
    const { memory, clock } = memoryOf(100);
    const hit = hitOf('shop_user_a_1');
    memory.note(hit, entries('a'), 11, called('first'));
    memory.note(hit, entries('a'), 12, called('second'));
    clock.ms += 999;
    memory.note(hit, entries('a'), 13, called('third'));
    clock.ms += 1;
    memory.note(hit, entries('a'), 14, {});
    expect(memory.find(all)).toMatchObject({
      rows: [
        { second: start / 1000 + 1, count: 1, used: 14, requestId: null },
        { second: start / 1000, count: 3, used: 13, requestId: 'third' },
      ],
      stored: 2,
      since: start / 1000,
    });
  });

  it('reports rule, limit, window, override and version of the rules in the words of the admin API', () => {
    const { memory } = memoryOf(100);
    const trace = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    memory.note(hitOf('k', { name: 'few' }), entries('a'), 11, { fields: ['traceparent', trace] });
    memory.useRules('v2');
    expect(overLimitJson(memory.find(all).rows[0]!, 'limiter-1')).toEqual({
      at: '2026-11-22T10:00:00.000Z',
      domain: 'shop',
      rule: 'shop.user',
      limitName: 'few',
      entries: entries('a'),
      used: 11,
      limit: 10,
      window: { unit: 'minute', multiplier: 1, seconds: 60 },
      algorithm: 'fixed_window',
      override: null,
      rulesVersion: 'v1',
      count: 1,
      requestId: null,
      traceId: '4bf92f3577b34da6a3ce929d0e0e4736',
      key: 'k',
      limiter: 'limiter-1',
    });
  });

  it('says what hits are and which calendar they are counted in, blocked or not', () => {
    const { memory } = memoryOf(100);
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
    const requestsPerUnit = Number.MAX_SAFE_INTEGER;
    const hit = hitOf('k', { unit: Unit.MONTH, calendar, hitsUnit: 'bytes', requestsPerUnit });
    memory.note(hit, entries('a'), requestsPerUnit, {});
    const block = { id: 'b', effect: { kind: 'block' } };
    memory.note({ ...hit, counter: { ...hit.counter, rejection: 0, override: block } }, entries('b'), 1, {});
    const window = { unit: 'month', multiplier: 1, seconds: null, calendar };
    const [blocked, first] = memory.find(all).rows.map((row) => overLimitJson(row, 'limiter-1'));
    expect(first).toMatchObject({ hitsUnit: 'bytes', limit: requestsPerUnit, used: requestsPerUnit, window });
    expect(first).not.toHaveProperty('blocked');
    expect(blocked).toMatchObject({ blocked: true, window });
    const widest = hitOf('k', {
      unit: Unit.SECOND,
      unitMultiplier: 65_535,
      algorithm: Algorithm.TOKEN_BUCKET,
    });
    memory.note(widest, entries('c'), 1, {});
    const [row] = memory.find({ limit: 1 }).rows;
    expect(row).toMatchObject({
      unit: Unit.SECOND,
      unitMultiplier: 65_535,
      more: {},
      algorithm: 2,
    });
  });

  it('finds by domain, entries, request and time', () => {
    const { memory, clock } = memoryOf(100);
    memory.note(hitOf('a'), entries('a'), 1, called('id-a'));
    clock.ms += 5_000;
    const long = 'b'.repeat(400);
    memory.note(hitOf('b', { domain: 'other' }), entries(long), 1, called('id-b'));
    const keys = (question: object) => memory.find({ ...all, ...question }).rows.map(({ key }) => key);
    expect(keys({})).toEqual(['b', 'a']);
    expect(keys({ domain: 'other' })).toEqual(['b']);
    expect(keys({ entries: entries('a') })).toEqual(['a']);
    expect(keys({ entries: entries(long) })).toEqual(['b']);
    expect(keys({ requestId: 'id-a' })).toEqual(['a']);
    expect(keys({ since: start / 1000 + 1 })).toEqual(['b']);
    expect(keys({ until: start / 1000 + 4 })).toEqual(['a']);
    expect(keys({ limit: 1 })).toEqual(['b']);
  });

  it('finds, counts and dates those of some domains as if there were no others', () => {
    const { memory, clock } = memoryOf(800);
    clock.ms += 1_000;
    memory.note(hitOf('first'), entries('a'), 1, {});
    for (let n = 0; n < 50; n++) memory.note(hitOf(`x${n}`, { domain: 'other' }), entries(`${n}`), 1, {});
    clock.ms += 1_000;
    memory.note(hitOf('second'), entries('a'), 1, {});
    for (let n = 0; n < 50; n++) memory.note(hitOf(`y${n}`, { domain: 'other' }), entries(`${n}`), 1, {});
    const found = memory.find({ domains: ['shop', 'nobody'], limit: 10 });
    expect(found.rows.map(({ key }) => key)).toEqual(['second', 'first']);
    expect(found).toMatchObject({ stored: 2, since: start / 1000 + 1, domains: ['shop', 'other'] });
    expect(memory.find({ domains: ['shop'], domain: 'shop', limit: 1 })).toMatchObject({ stored: 2 });
    expect(memory.find({ domain: 'shop', limit: 1 })).toMatchObject({
      stored: 102,
      rows: [{ key: 'second' }],
    });
    expect(memory.find({ domains: [], limit: 10 })).toMatchObject({ rows: [], stored: 0, since: undefined });
  });

  it('names no domain whose rows are all forgotten', () => {
    const { memory } = memoryOf(8);
    memory.note(hitOf('k', { domain: 'gone' }), entries('a'), 1, {});
    for (let n = 0; n < 8; n++) memory.note(hitOf(`${n}`), entries(`${n}`), 1, {});
    expect(memory.find(all)).toMatchObject({ stored: 8, domains: ['shop'] });
    expect(memory.find({ ...all, domain: 'gone' }).rows).toEqual([]);
    memory.note(hitOf('k', { domain: 'gone' }), entries('a'), 1, {});
    expect(memory.find({ ...all, domain: 'gone' }).rows).toHaveLength(1);
  });

  it('knows the second of a hit in a window by the hit', () => {
    const { memory } = memoryOf(100);
    const end = start / 1000 + 60;
    memory.note({ ...hitOf('k'), windowEndSeconds: end, secondsToReset: 25 }, entries('a'), 1, {});
    expect(memory.find(all).rows[0]?.second).toBe(end - 25);
  });

  it('keeps the last ids of every row, however many take turns, and the beginning of long ones', () => {
    const { memory } = memoryOf(8 * 200);
    const hits = Array.from({ length: 200 }, (_, n) => hitOf(`${n}`));
    for (const round of [1, 2]) {
      for (const [n, hit] of hits.entries()) memory.note(hit, entries('a'), 1, called(`id-${round}-${n}`));
    }
    const long = 'x'.repeat(10_000);
    memory.note(hits[0]!, entries('a'), 1, called(long));
    expect(memory.find({ ...all, requestId: 'id-1-7' }).rows).toEqual([]);
    expect(memory.find({ ...all, requestId: 'id-2-7' }).rows).toMatchObject([{ key: '7', count: 2 }]);
    expect(memory.find({ ...all, requestId: long }).rows).toMatchObject([
      { key: '0', requestId: 'x'.repeat(64) },
    ]);
  });

  it('forgets the oldest, and gives a second of made-up values a part of its rows', () => {
    const { memory, clock } = memoryOf(200);
    for (let second = 0; second < 10; second++) {
      for (let n = 0; n < 1_000; n++) memory.note(hitOf(`${second}.${n}`), entries(`${n}`), 1, {});
      clock.ms += 1_000;
    }
    const { rows, stored, since } = memory.find({ limit: 10_000 });
    expect([rows.length, stored, since]).toEqual([200, 200, start / 1000 + 2]);
    expect(memory.leftOut).toBe(10 * 975);
  });

  it('takes 512 bytes a row at most, whatever comes', () => {
    const { memory } = memoryOf(10_000);
    expect(memory.bytes).toBeLessThanOrEqual(10_000 * overLimitRowBytes);
    const text = fc.string({ unit: 'binary', maxLength: 600 });
    fc.assert(
      fc.property(fc.array(fc.tuple(text, text), { maxLength: 6 }), text, text, (pairs, name, id) => {
        const one = memoryOf(4).memory;
        const before = one.bytes;
        const given = pairs.map(([key, value]) => ({ key, value }));
        one.note(hitOf(name, { name, path: `shop.${name}` }), given, 1, called(id));
        const [row] = one.find(all).rows;
        expect(one.bytes).toBe(before);
        expect(row?.count).toBe(1);
        if (row?.entries)
          expect(row.entries.map(({ key }) => key.toWellFormed())).toEqual(
            given.map(({ key }) => key.toWellFormed()),
          );
      }),
      { numRuns: caseCount(200) },
    );
  });
});
