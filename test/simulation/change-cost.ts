/**
 * `npm run change-cost`: what one change of an object costs a replica of the control plane by the number of objects in its fleet, as
 * CPU of this process on virtual time, with an API server in memory and three limiters with delta xDS. A second replica follows.
 */
import { BinaryReader } from '@bufbuild/protobuf/wire';
import { Incremental, RejectedLists } from '../../control-plane/xds/discovery-form.ts';
import type { CallListener } from '../../control-plane/xds/limiter-stream.ts';
import { encodeDeltaRequest, nodeMessage } from '../../limiter/config-source/xds/ads-stream.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import { kind as configKind } from '../../rules/language/kinds.ts';
import { Random } from '../fuzz/random.ts';
import { rateLimitConfig } from '../support/rate-limit-config.ts';
import { defineFlags, numberOf, scriptFlags } from '../support/script-flags.ts';
import { MemoryCluster } from './memory-cluster.ts';
import { kindNamed, publishedSchemas } from './simulated-objects.ts';
import { SimulatedReplica, systemNamespace } from './simulated-replica.ts';
import { epochMs, VirtualTime } from './virtual-time.ts';

const warmUp = 80;
const namespace = 'team';
const fleet = 'edge';
const configs = kindNamed(configKind);

/** Accepts what it is sent. */
function connectLimiter(time: VirtualTime, replica: SimulatedReplica, name: string): void {
  let listener: CallListener | undefined;
  const metadata = {
    ...{ fleet, pod: name, instance: name, counter_keys: 'unambiguous' },
    capabilities: [...capabilities],
  };
  const node = nodeMessage({ id: name, metadata, version: '1' });
  const send = (nonce: string): void => {
    const bytes = encodeDeltaRequest(node, { version: '', nonce, error: undefined }, {});
    time.after(1, () => listener?.received(Buffer.from(bytes)));
  };
  const call = {
    peer: '10.1.0.1:5000',
    follow: (one: CallListener) => {
      listener = one;
    },
    send: (bytes: Uint8Array, taken: () => void) => {
      time.after(0, taken);
      send(nonceOf(bytes));
    },
    end: () => {},
    fail: () => {},
    cut: () => {},
    hold: () => {},
  };
  replica.loop!.streams.open(call, { caller: undefined }, new Incremental(new RejectedLists()));
  send('');
}

function nonceOf(bytes: Uint8Array): string {
  const reader = new BinaryReader(bytes);
  let nonce = '';
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field === 5) nonce = reader.string();
    else reader.skip(wireType, field);
  }
  return nonce;
}

interface Numbers {
  objects: number;
  changes: number;
  replicas: number;
}

/** A control plane that has nothing to do any more. */
async function settledPlane({ objects, replicas }: Numbers) {
  const time = new VirtualTime();
  const cluster = new MemoryCluster(() => epochMs + time.nowMs);
  const random = new Random(1);
  for (const name of [namespace, systemNamespace])
    cluster.create({ kind: kindNamed('Namespace'), namespace: undefined }, { metadata: { name } }, 'kube');
  for (let i = 0; i < objects; i++) {
    const object = rateLimitConfig({ name: `o-${i}`, namespace, domain: `d-${i}`, fleet, requests: 10 });
    cluster.create({ kind: configs, namespace }, object, 'measurement');
  }
  const planes = Array.from(
    { length: replicas },
    (_, i) =>
      new SimulatedReplica({
        ...{ name: `cp-${i}`, time, cluster, random: () => random.below(1 << 30) / (1 << 30) },
        others: ({ path }) => (path.startsWith('/openapi/v3') ? publishedSchemas(false) : undefined),
        asked: () => {},
        notified: () => {},
      }),
  );
  for (const plane of planes) {
    plane.start(0);
    await time.advance(3_000);
  }
  for (let i = 0; i < 3; i++) connectLimiter(time, planes[0]!, `limiter-${i}`);
  await time.advance(30_000);
  while (planes.some(({ loop }) => loop!.statusesWaiting > 0)) await time.advance(5_000);
  return { time, cluster };
}

async function cpuMs(run: () => Promise<void>): Promise<number> {
  const before = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

async function measure(numbers: Numbers): Promise<void> {
  const { objects, changes, replicas } = numbers;
  const { time, cluster } = await settledPlane(numbers);
  const change = async (i: number): Promise<void> => {
    const rule = { key: 'key', rateLimit: { unit: 'day', requestsPerUnit: 1_000 + i } };
    const target = { kind: configs, namespace, name: `o-${(i * 7) % objects}`, isStatus: false };
    cluster.merge(target, { spec: { descriptors: [rule] } }, 'measurement');
    await time.advance(1_000);
  };
  for (let i = 0; i < warmUp; i++) await change(i);
  const idleMs = await cpuMs(() => time.advance(changes * 1_000));
  const ms = await cpuMs(async () => {
    for (let i = 0; i < changes; i++) await change(warmUp + i);
  });
  console.log(
    `${objects} objects, ${replicas} replicas: ${(ms / changes).toFixed(2)} ms a change; a second without one ${(idleMs / changes).toFixed(2)} ms`,
  );
}

/** The row of a number from 1 on. */
const positive = { type: 'number', min: 1, max: 1_000_000, whole: true } as const;
const { objects, ...rest } = scriptFlags(
  defineFlags({
    help: `Usage: npm run change-cost -- [--objects <n>]... [--changes <n>] [--replicas <n>]

  --objects <n>   in the fleet (default 50 and 5000)
  --changes <n>   that are measured, one a second, after 80 others (default 200)
  --replicas <n>  the first one leads (default 1)
`,
    rows: {
      objects: { type: 'strings', default: ['50', '5000'] },
      changes: { ...positive, default: 200 },
      replicas: { ...positive, default: 1 },
    },
    read: ({ objects: texts, ...numbers }) => ({
      ...numbers,
      objects: texts.map((text) => numberOf('objects', positive, text)),
    }),
  }),
);
for (const count of objects) await measure({ objects: count, ...rest });
// What ran in the simulation may hold the process.
process.exit(0);
