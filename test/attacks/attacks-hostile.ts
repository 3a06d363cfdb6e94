/** The attack of a client that is over its limit and tries to get past it by the form of its requests, through real proxies. */
import { setTimeout as sleep } from 'node:timers/promises';
import { hostileRequests } from '../hostile/hostile-requests.ts';
import { sendAll } from '../hostile/hostile-sender.ts';
import { type PublishedProxy, publishedProxies } from '../hostile/published-proxies.ts';
import { WatchedService } from '../hostile/watched-service.ts';
import { findServer } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import type { Attack, AttackTarget } from './attack.ts';

export const hostileAttacks: readonly Attack[] = [
  {
    name: 'hostile-client',
    what: '10,000 requests of many forms by a client over its limit, through Envoy, nginx, Caddy and HAProxy with the configurations of `examples/`',
    programs: publishedProxies.map(({ program }) => program),
    meets: /^HTTP 429$/,
    async run(target) {
      const { got, many } = target;
      got.isPart = true;
      got.reached = 'not all of its requests were sent';
      const each = many(10_000 / publishedProxies.length);
      const passed = await Promise.all(
        publishedProxies.map((proxy, index) => passedBy(proxy, `127.0.0.${10 + index}`, each, target)),
      );
      const all = passed.flat();
      got.reached =
        all.length === 0 ? undefined : `${all.length} pieces of requests came to the service: ${all[0]}`;
      got.isPart = false;
    },
  },
];

/** What came to the service once the limit was exhausted, with the seed. */
async function passedBy(
  { name, program, speaksHttp2, start }: PublishedProxy,
  from: string,
  count: number,
  { ports: { grpc, http }, got, random }: AttackTarget,
): Promise<string[]> {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  const service = new WatchedService();
  const ports = { proxy: await freePort(), service: await service.listen() };
  const proxy = await start(found.path, { ...ports, limiterGrpc: grpc, limiterHttp: http });
  // The attacker may be ended before it is done.
  const end = (): boolean => proxy.program.process.kill();
  process.once('exit', end);
  try {
    let status = 0;
    for (let asked = 0; asked < 20 && status !== 429; asked++)
      ({ status } = await httpAsk(ports.proxy, '/', { from }));
    if (status !== 429) return [`${name} never refused`];
    const before = service.came.length;
    const seed = Math.trunc(random() * 2 ** 31);
    const statuses = await sendAll(hostileRequests(seed, speaksHttp2), count, { port: ports.proxy, from });
    for (const [kind, times] of statuses) got.add(kind === 'none' ? 'no answer' : `HTTP ${kind}`, times);
    await sleep(100);
    return service.came.slice(before).map((piece) => `${name}, seed ${seed}: ${JSON.stringify(piece)}`);
  } finally {
    await proxy.stop();
    process.off('exit', end);
    await service.close();
  }
}
