/** Stores that a load of budgets is run on, empty, and what happens to them meanwhile. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { keepsEverything } from '../faults/cases/redis-killed.ts';
import { eventually } from '../support/eventually.ts';
import { startSentinelTrio } from '../support/redis-sentinels.ts';
import { startRedis } from '../support/redis-server.ts';

export interface BudgetStore {
  /** Settings of the limiters. */
  env: Record<string, string>;
  /** Of the server that holds the counters now. */
  port(): Promise<number>;
  /** Resolves when it is well again. */
  hurt(): Promise<void>;
  stop(): Promise<void>;
}

const awayMs = 1000;

/** Is killed and started again with its data. */
export async function restartedRedis(path: string): Promise<BudgetStore> {
  const redis = await startRedis({ path, args: [...keepsEverything] });
  return {
    env: { REDIS_URL: `127.0.0.1:${redis.port}` },
    port: async () => redis.port,
    async hurt() {
      await redis.kill('SIGKILL');
      await sleep(awayMs);
      await redis.start();
    },
    stop: () => redis.stop(),
  };
}

/** Its master is killed and stays away. */
export async function failedOverRedis(path: string): Promise<BudgetStore> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-budgets-sentinels-'));
  const trio = await startSentinelTrio({ path, folder });
  const [master] = trio.servers;
  return {
    env: { REDIS_TYPE: 'sentinel', REDIS_URL: trio.url },
    port: () => trio.masterPort(),
    async hurt() {
      await master.kill('SIGKILL');
      const chosen = async (): Promise<void> => {
        if ((await trio.masterPort()) === master.port) throw new Error('there is no other master yet');
      };
      await eventually(chosen, { timeoutMs: 40_000 });
    },
    async stop() {
      await trio.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Stops the store at the end. */
export async function onStore<Result>(
  start: Promise<BudgetStore>,
  act: (store: BudgetStore) => Promise<Result>,
): Promise<Result> {
  const store = await start;
  try {
    return await act(store);
  } finally {
    await store.stop();
  }
}
