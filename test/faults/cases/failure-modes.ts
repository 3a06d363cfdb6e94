import { redisProgram } from '../../support/find-server.ts';
import type { LimiterProcess } from '../../support/limiter-process.ts';
import { type FaultCase, slowestMs } from '../fault-case.ts';
import { keepsEverything, killAndRestart, redisInDanger } from './redis-killed.ts';

const needs = [redisProgram];
const inMode = (mode: string) => redisInDanger(keepsEverything, killAndRestart, { STORE_FAILURE_MODE: mode });
const bounds = { slowestMs, errors: 0, minOpened: 1 };

const allow: FaultCase = {
  name: 'mode-allow',
  what: 'Redis is killed and started again under `STORE_FAILURE_MODE=allow`: requests pass meanwhile, limits or not',
  needs,
  bounds: { ...bounds, minByMode: 1, overAdmitted: Number.POSITIVE_INFINITY },
  prepare: inMode('allow'),
};

const deny: FaultCase = {
  name: 'mode-deny',
  what: 'The same under `STORE_FAILURE_MODE=deny`: requests are denied meanwhile',
  guardedBy: 'mode-allow',
  needs,
  bounds: { ...bounds, minByMode: 1 },
  prepare: inMode('deny'),
};

const local: FaultCase = {
  name: 'mode-local',
  what: 'The same under `STORE_FAILURE_MODE=local`: the limiter counts on by itself and adds it to Redis afterward. Hits whose reply was lost with Redis are not added, so as many may pass beyond the limit',
  needs,
  // At most what was under way at the kill: a tenth of a second of the load is far more. What is
  // not added may pass once more.
  bounds: { ...bounds, lost: 100, overAdmitted: 100 },
  prepare: async (place) => ({ ...(await inMode('local')(place)), settled: nothingOwed }),
};

/** Resolves when everything that was counted locally is in the store. */
async function nothingOwed({ ports }: LimiterProcess): Promise<void> {
  for (;;) {
    const stats = await (await fetch(`http://127.0.0.1:${ports.debug}/stats`)).text();
    if (/store_failure_mode\.owed_counters: 0$/m.test(stats)) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export const failureModeCases: readonly FaultCase[] = [allow, deny, local];
