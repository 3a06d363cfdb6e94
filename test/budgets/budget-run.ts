/** Streams over several limiters and one store, to which something happens, and what became of the budgets. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { countersInRedis } from '../faults/counters-in-redis.ts';
import { defaultSettings } from '../faults/fault-case.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { BudgetClient } from './budget-client.ts';
import { type BudgetFigures, BudgetLedger } from './budget-ledger.ts';
import type { BudgetStore } from './budget-stores.ts';
import { domain, type LoadShape, planStreams, rulesFor, type StreamPlan, scopes } from './stream-plan.ts';
import type { Way } from './ways.ts';

export interface BudgetLoad extends LoadShape {
  /** How long a rejected stream comes again, and how long it waits each time, about. */
  patienceMs: number;
  againMs: number;
  /** Of a reservation. */
  ttlMs: number;
  /** From the start until a limiter is killed, and until the store is hurt. */
  killLimiterMs: number;
  hurtStoreMs: number;
}

/** Everything of a load follows from how long its reservations live: what happens comes sooner in a short run. */
export function budgetLoad({
  streams,
  seed,
  ttlMs,
}: Pick<BudgetLoad, 'streams' | 'seed' | 'ttlMs'>): BudgetLoad {
  return {
    ...{ streams, seed, ttlMs },
    withinMs: ttlMs / 10,
    lastMs: [ttlMs / 10, ttlMs / 3],
    patienceMs: ttlMs * 0.75,
    againMs: ttlMs / 20,
    killLimiterMs: ttlMs / 15,
    hurtStoreMs: ttlMs / 6,
  };
}

const limiterCount = 4;
const sampleMs = 250;
/** What whole seconds and a busy machine add to a TTL. */
const expiryMs = 3000;

interface Scene {
  way: Way;
  load: BudgetLoad;
  store: BudgetStore;
  client: BudgetClient;
  ledger: BudgetLedger;
}

/** Runs one way from the start of its limiters to the end of everything; the store is empty before. */
export async function runBudgets(way: Way, load: BudgetLoad, store: BudgetStore): Promise<BudgetFigures> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-budgets-'));
  const limiters: LimiterProcess[] = [];
  try {
    writeFileSync(join(folder, 'budgets.yaml'), rulesFor(load.streams));
    const rules = { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: '.' };
    for (let i = 0; i < limiterCount; i++)
      limiters.push(await startLimiter({ env: { ...defaultSettings, ...rules, ...store.env } }));
    const client = new BudgetClient(limiters.map(({ ports }) => ports.http));
    const scene = { way, load, store, client, ledger: new BudgetLedger(load.streams) };
    try {
      return await underFaults(scene, limiters);
    } finally {
      client.close();
    }
  } finally {
    await Promise.all(limiters.map(({ program }) => program.stop('SIGKILL')));
    rmSync(folder, { recursive: true, force: true });
  }
}

async function underFaults(scene: Scene, limiters: readonly LimiterProcess[]): Promise<BudgetFigures> {
  const { way, load, store, client, ledger } = scene;
  let isOver = false;
  const samples = sampled(scene, () => isOver);
  try {
    await Promise.all([
      sleep(load.killLimiterMs).then(() => limiters.at(-1)?.program.stop('SIGKILL')),
      sleep(load.hurtStoreMs).then(() => store.hurt()),
      ...planStreams(load).map((stream) => live(stream, scene)),
    ]);
    if (way.reserves) ledger.leaked = await reservedAfterTtl(scene);
    const held = await countersInRedis({ port: await store.port() }, domain);
    const limitersEnded = limiters.filter(({ program }) => !program.running).length;
    return ledger.figures(way.name, held, { retries: client.retries, limitersEnded });
  } finally {
    isOver = true;
    await samples;
  }
}

/** From the first question of a stream to its last. */
async function live(stream: StreamPlan, { way, load, client, ledger }: Scene): Promise<void> {
  await sleep(stream.beginMs);
  ledger.arrived();
  const untilMs = performance.now() + load.patienceMs;
  let askedMs = performance.now();
  while (!(await way.begin(client, stream))) {
    if (performance.now() > untilMs) return ledger.refused();
    await sleep(load.againMs * (0.5 + Math.random()));
    askedMs = performance.now();
  }
  ledger.began();
  await sleep(stream.lastsMs);
  if (stream.dies) return ledger.died();
  const lateFromMs = askedMs + load.ttlMs;
  ledger.settling(stream, lateFromMs);
  await way.end(client, stream, { allow: (tokens) => ledger.allow(stream, tokens), lateFromMs });
  ledger.ended(stream);
  if (stream.isTwice) await way.end(client, stream, { allow: () => {}, lateFromMs });
}

/** Looks at all counters again and again, where the store is there. */
async function sampled({ store, ledger }: Scene, isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    const held = await store
      .port()
      .then((port) => countersInRedis({ port, retries: 1 }, domain))
      .catch(() => undefined);
    if (held !== undefined) ledger.look(held);
    await sleep(sampleMs);
  }
}

/** Tokens that are still reserved when the longest reservation has expired. */
async function reservedAfterTtl({ client, ledger, load }: Scene): Promise<number> {
  await sleep(Math.max(0, ledger.lastBeganMs + load.ttlMs + expiryMs - performance.now()));
  let sum = 0;
  for (const { key, value } of scopes) {
    const { body } = await client.ask(`/v1/budgets?domain=${domain}&entry=${key}=${value}`);
    for (const { reserved } of body.budgets) sum += reserved;
  }
  return sum;
}
