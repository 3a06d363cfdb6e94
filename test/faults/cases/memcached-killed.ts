import { keyHash } from '../../../limiter/stores/memcache/memcache-key.ts';
import { eventually } from '../../support/eventually.ts';
import { memcachedProgram } from '../../support/find-server.ts';
import type { LimiterProcess } from '../../support/limiter-process.ts';
import { type MemcachedServer, startMemcached } from '../../support/memcached-server.ts';
import type { CasePlace, FaultCase, FaultScene, StoreInDanger } from '../fault-case.ts';
import type { Answer } from '../fault-load.ts';

const yearS = 31_536_000;

type Nodes = readonly [MemcachedServer, MemcachedServer];

/** Two nodes, of which something happens to the second. */
function nodesInDanger(act: (victim: MemcachedServer, scene: FaultScene) => Promise<void>) {
  return async ({ program }: CasePlace): Promise<StoreInDanger> => {
    const path = program(memcachedProgram);
    const nodes: Nodes = [await startMemcached({ path }), await startMemcached({ path })];
    let answers: readonly Answer[] = [];
    return {
      env: { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: nodes.map(({ address }) => address).join() },
      act: async (scene) => {
        ({ answers } = scene.load);
        await act(nodes[1], scene);
        await nodesDown(scene.limiter, 0);
      },
      held: () => countersInMemcache(nodes, answers),
      stop: async () => void (await Promise.all(nodes.map((node) => node.stop()))),
    };
  };
}

/** Throws when the first node, to which nothing happened, does not hold exactly what was answered. */
async function countersInMemcache(nodes: Nodes, answers: readonly Answer[]): Promise<Map<string, number>> {
  const yearStart = Math.floor(Date.now() / 1000 / yearS) * yearS;
  const counted = Map.groupBy(answers, ({ counter }) => `${counter}_${yearStart}`);
  const held = new Map<string, number>();
  for (const [index, node] of nodes.entries()) {
    const keys = [...counted.keys()].filter((key) => keyHash(key) % nodes.length === index);
    for (const [key, value] of await valuesOf(node, keys)) {
      held.set(key.slice(0, -`_${yearStart}`.length), value);
    }
    if (index > 0) continue;
    for (const key of keys) {
      const [first] = counted.get(key) as [Answer];
      const [hits, there] = [counted.get(key)?.length, held.get(first.counter)];
      if (hits !== there) throw new Error(`the node that was well holds ${there} of ${key}, and not ${hits}`);
    }
  }
  return held;
}

async function valuesOf(node: MemcachedServer, keys: readonly string[]): Promise<Map<string, number>> {
  const values = new Map<string, number>();
  for (let i = 0; i < keys.length; i += 50) {
    const answer = await node.talk(`get ${keys.slice(i, i + 50).join(' ')}\r\n`, /END\r\n$/);
    for (const [, key = '', value] of answer.matchAll(/VALUE (\S+) \d+ \d+\r\n(.*)\r\n/g))
      values.set(key, Number(value));
  }
  return values;
}

/** Resolves when the limiter says that so many nodes are down. */
function nodesDown({ ports }: LimiterProcess, count: number): Promise<void> {
  return eventually(async () => {
    const stats = await (await fetch(`http://127.0.0.1:${ports.debug}/stats`)).text();
    if (!stats.includes(`ratelimit.memcache.nodes_down: ${count}\n`))
      throw new Error(`not ${count} nodes down`);
  });
}

const needs = [memcachedProgram];
/** Counters of the node start again, and their keys pass while it is away, as the limiter cannot determine. */
const failsOpen = {
  errors: 0,
  lost: Number.POSITIVE_INFINITY,
  overAdmitted: Number.POSITIVE_INFINITY,
};

const killed: FaultCase = {
  name: 'memcached-killed',
  what: 'One of two memcached is killed (`kill -9`) and started again, empty: its keys pass meanwhile and count from 0 again, and the other counts exactly',
  needs,
  bounds: { ...failsOpen, slowestMs: 1000 },
  prepare: nodesInDanger(async (victim, { limiter, outage }) => {
    await victim.kill('SIGKILL');
    await nodesDown(limiter, 1);
    await outage();
    await victim.start();
  }),
};

const paused: FaultCase = {
  name: 'memcached-paused',
  what: 'One of two memcached hangs (`SIGSTOP`) and goes on (`SIGCONT`): its keys wait 500 ms at most, then they pass at once; the other counts exactly',
  needs,
  bounds: { ...failsOpen, slowestMs: 1500 },
  prepare: nodesInDanger(async (victim, { limiter, outage }) => {
    await victim.kill('SIGSTOP');
    await nodesDown(limiter, 1);
    await outage();
    await victim.kill('SIGCONT');
  }),
};

export const memcachedKilledCases: readonly FaultCase[] = [killed, paused];
