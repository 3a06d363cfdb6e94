import { redisProgram } from '../../support/find-server.ts';
import { machineLoad } from '../../support/machine-load.ts';
import { type RedisServer, startRedis } from '../../support/redis-server.ts';
import { TcpProxy } from '../../support/tcp-proxy.ts';
import { countersInRedis } from '../counters-in-redis.ts';
import {
  type CasePlace,
  type FaultCase,
  type FaultScene,
  type StoreInDanger,
  slowestMs,
} from '../fault-case.ts';
import type { Answer } from '../fault-load.ts';

/** A Redis that is well, behind a proxy that is not. */
function behindProxy(
  act: (proxy: TcpProxy, scene: FaultScene) => Promise<void>,
  env: () => Record<string, string> = () => ({}),
) {
  return async ({ program }: CasePlace): Promise<StoreInDanger> => {
    const redis: RedisServer = await startRedis({ path: program(redisProgram) });
    const proxy = await TcpProxy.to(redis.port);
    return {
      env: { REDIS_URL: `127.0.0.1:${proxy.port}`, ...env() },
      act: (scene) => act(proxy, scene),
      held: () => countersInRedis({ port: redis.port }),
      stop: async () => {
        await proxy.close();
        await redis.stop();
      },
    };
  };
}

const needs = [redisProgram];

const cut: FaultCase = {
  name: 'connection-cut',
  what: 'The connection to Redis is reset, five times; a new one succeeds at once',
  needs,
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: behindProxy(async (proxy, { load, outage }) => {
    for (let i = 0; i < 5; i += 1) {
      // Replies that are on their way are lost.
      proxy.delay(20);
      await nextWell(load);
      proxy.cut();
      await nextWell(load);
    }
    await proxy.heal();
    await outage();
  }),
};

const refused: FaultCase = {
  name: 'connection-refused',
  what: 'The connection to Redis is reset, and new connections are refused until the end of the fault',
  guardedBy: 'redis-killed',
  needs,
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: behindProxy(async (proxy, { outage }) => {
    await proxy.refuse();
    await outage();
    await proxy.heal();
  }),
};

/** In each direction. */
const delayMs = 150;

const delayed: FaultCase = {
  name: 'connection-slow',
  what: 'Every byte to and from Redis arrives 150 ms late: the answers are late by 300 ms, and all of them are counted',
  needs,
  bounds: { slowestMs, errors: 0, opened: 0 },
  prepare: behindProxy(
    async (proxy, { load, outage }) => {
      proxy.delay(delayMs);
      const fromMs = performance.now();
      await nextWell(load);
      await outage();
      const isDelayed = ({ askedMs, outcome }: Answer): boolean => askedMs > fromMs && outcome !== 'ERROR';
      const times = load.answers.filter(isDelayed).map(({ tookMs }) => tookMs);
      await proxy.heal();
      const quickestMs = Math.min(...times);
      // Timers may end a millisecond early.
      if (quickestMs < 2 * delayMs - 5) throw new Error(`an answer took only ${quickestMs} ms`);
    },
    // The default where the limiter gets a processor at once.
    () => ({ STORE_BREAKER_SILENCE: `${Math.min(1900, Math.round(700 * machineLoad()))}ms` }),
  ),
};

const tooSlow: FaultCase = {
  name: 'connection-too-slow',
  what: 'Every byte to and from Redis arrives 1.5 s late, later than `STORE_BREAKER_SILENCE` allows',
  needs,
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: behindProxy(async (proxy, { outage }) => {
    proxy.delay(1500);
    await outage();
    await proxy.heal();
  }),
};

const swallowed: FaultCase = {
  name: 'connection-swallowed',
  what: 'The network drops everything without a word (a black hole), then resets the connection',
  guardedBy: 'redis-paused',
  needs,
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: behindProxy(async (proxy, { outage }) => {
    proxy.swallow();
    await outage();
    await proxy.heal();
  }),
};

export const redisNetworkCases: readonly FaultCase[] = [cut, refused, delayed, tooSlow, swallowed];

/** Resolves with the next request that is asked for from now on and counted. */
async function nextWell(load: FaultScene['load']): Promise<void> {
  const fromMs = performance.now();
  const isWell = () =>
    load.latest(50).some(({ askedMs, outcome }) => askedMs > fromMs && outcome !== 'ERROR');
  while (!isWell()) await new Promise((resolve) => setTimeout(resolve, 5));
}
