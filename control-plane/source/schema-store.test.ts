import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { publishedFields } from '../../test/support/published-fields.ts';
import { ApiError, type Denial } from '../kubernetes/api.ts';
import { SchemaStore } from './schema-store.ts';

const kind = 'RateLimitConfig';
const doubts = new Set([`${kind} spec.extras`]);
const none: ReadonlySet<string> = new Set();

const refused = (status: number) => new ApiError({ status, reason: '', message: `status ${status}` });

let timers: ManualTimers;
let answer: object | ApiError;
let reads: number;
let changes: number;
let denials: [denial: Denial, isDenied: boolean][];
let telemetry: ReturnType<typeof recordedTelemetry>;
let store: SchemaStore;

beforeEach(() => {
  timers = new ManualTimers();
  answer = publishedFields({ domain: {} });
  reads = 0;
  changes = 0;
  denials = [];
  telemetry = recordedTelemetry();
  const request = async () => {
    reads += 1;
    if (answer instanceof ApiError) throw answer;
    return answer;
  };
  store = new SchemaStore({
    client: {
      request: request as never,
      denied: (denial, isDenied) => void denials.push([denial, isDenied]),
    },
    log: telemetry.log,
    clock: { monotonicMs: () => timers.nowMs },
    timers,
    changed: () => {
      changes += 1;
    },
  });
});

/** Moves time on in steps, as answers come between timers. */
async function pass(ms: number): Promise<void> {
  for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
    timers.advance(100);
    await turn();
  }
}

async function begin(): Promise<void> {
  store.start();
  await turn();
}

describe('SchemaStore', () => {
  it('reads the schemas of specs, by kind, and calls changed when a later read finds others', async () => {
    await begin();
    expect([store.schemas, changes]).toEqual([new Map([[kind, { properties: { domain: {} } }]]), 1]);
    await pass(30_000);
    expect([reads, changes]).toEqual([2, 1]);
    answer = publishedFields({ extras: {} });
    await pass(30_000);
    expect([store.schemas?.get(kind), changes]).toEqual([{ properties: { extras: {} } }, 2]);
    store.close();
    expect(timers.size).toBe(0);
  });

  it('waits a second for schemas that may end a doubt, once for each field', async () => {
    await begin();
    store.confirm(doubts);
    await pass(900);
    store.confirm(doubts);
    expect([store.confirmed, changes]).toEqual([none, 1]);
    await pass(200);
    expect([store.confirmed, changes, reads]).toEqual([doubts, 2, 4]);
    const more = new Set(['RateLimitOverride spec.extras']);
    store.confirm(more);
    await pass(1_100);
    expect(store.confirmed).toEqual(doubts.union(more));
  });

  it('stops waiting when it reads other schemas, which may end the doubt', async () => {
    await begin();
    store.confirm(doubts);
    await turn();
    answer = publishedFields({ extras: { default: 1 } });
    await pass(300);
    expect([changes, store.schemas?.get(kind)?.properties]).toEqual([2, { extras: { default: 1 } }]);
    expect(store.confirmed).toEqual(none);
  });

  it('has no schemas while they cannot be read', async () => {
    answer = refused(503);
    await begin();
    expect([store.schemas, changes]).toEqual([new Map(), 1]);
    expect(telemetry.messages()).toEqual(['The schemas of the CRDs cannot be read from /openapi/v3']);
    answer = publishedFields({});
    await pass(30_000);
    expect([store.schemas?.size, changes, denials]).toEqual([1, 2, []]);
  });

  it.each([401, 403])('waits for an API server that answers %i when it has just begun', async (status) => {
    answer = refused(status);
    await begin();
    await pass(10_000);
    await Promise.all([store.refresh(), store.refresh()]);
    expect([store.schemas, changes, reads]).toEqual([undefined, 0, 12]);
    expect(store.known).toEqual(new Map());
    answer = publishedFields({});
    await pass(1_000);
    expect([store.schemas?.size, changes]).toEqual([1, 1]);
    expect([telemetry.events, denials]).toEqual([[], []]);
  });

  const denial = { verb: 'get', resource: '/openapi/v3', reason: 'status 403' };

  it('reports a denial after 30 s, and the end of it', async () => {
    answer = refused(403);
    await begin();
    await pass(29_000);
    expect([store.schemas, denials]).toEqual([undefined, []]);
    await pass(1_000);
    expect([store.schemas, changes, denials]).toEqual([new Map(), 1, [[denial, true]]]);
    await pass(60_000);
    expect(denials).toHaveLength(1);
    answer = publishedFields({});
    await pass(30_000);
    expect([changes, denials]).toEqual([
      2,
      [
        [denial, true],
        [denial, false],
      ],
    ]);
  });

  it('keeps its schemas during a later denial, which it reports after 30 s, too', async () => {
    await begin();
    answer = refused(403);
    await pass(30_000);
    store.confirm(doubts);
    expect([store.confirmed, denials]).toEqual([none, []]);
    await pass(30_000);
    expect([store.schemas?.size, denials]).toEqual([1, [[denial, true]]]);
  });
});
