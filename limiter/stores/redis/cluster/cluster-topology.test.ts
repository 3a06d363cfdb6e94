import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../../../test/support/eventually.ts';
import { type FakeAnswer, startFakeRedis } from '../../../../test/support/fake-redis.ts';
import { StoreError } from '../../store-error.ts';
import { RedisConnection } from '../wire/redis-connection.ts';
import { RedisErrors } from '../wire/redis-error.ts';
import { ClusterCommands } from './cluster-commands.ts';
import { ClusterNodes } from './cluster-nodes.ts';
import { ClusterTopology } from './cluster-topology.ts';

const host = '127.0.0.1';
const noSlots = '*0\r\n';

/** A cluster of one node, which has all slots unless `answer` to CLUSTER SLOTS differs. It answers other commands with nothing. */
async function clusterOf(answer?: FakeAnswer) {
  const allSlots = () =>
    `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$${host.length}\r\n${host}\r\n:${server.port}\r\n`;
  const server = await startFakeRedis((words) => (words[0] === 'cluster' ? (answer ?? allSlots)(words) : ''));
  const place = { host, port: server.port };
  const changes: [boolean, string | undefined][] = [];
  const errors = new RedisErrors({ timeoutMs: 5_000, password: undefined });
  const address = { endpoint: place, username: undefined, password: undefined, db: 0, label: 'node' };
  const nodes = new ClusterNodes({
    timeoutMs: 5_000,
    newConnection: (_, counts) =>
      new RedisConnection({
        address,
        timeoutMs: 5_000,
        silenceMs: 700,
        random: () => 0,
        counts,
        onChange: (reached, reason) => changes.push([reached, reason]),
      }),
  });
  const translate = (error: unknown) => (error instanceof StoreError ? error : errors.fromOwnCommand(error));
  const topology = new ClusterTopology({ nodes, seeds: [place], translate, onMissed: () => {} });
  const commands = new ClusterCommands({ topology, errors, timeoutMs: 5_000 });
  onTestFinished(async () => {
    topology.close();
    nodes.close();
    await server.close();
  });
  const reads = () => server.calls.get('CLUSTER') ?? 0;
  return { server, place, changes, topology, commands, reads };
}

describe('a cluster', () => {
  it('is not connected while its nodes know no slots', async () => {
    const { topology } = await clusterOf(() => noSlots);
    await expect(topology.read()).rejects.toMatchObject({
      message: 'Redis knows of no cluster slots',
      transient: true,
    });
  });

  it('is asked for its slots again soon after one has moved', async () => {
    const { place, topology, reads } = await clusterOf();
    await topology.read();
    expect(reads()).toBe(1);
    topology.redirected({ ...place, ask: false, slot: 5 });
    await eventually(() => expect(reads()).toBe(2), { timeoutMs: 2_000 });
  });

  it('is asked for its slots when a key has no node', async () => {
    const { commands, reads } = await clusterOf();
    await expect(commands.send('k', 'get', ['k'])).rejects.toMatchObject({
      message: 'no node of the Redis Cluster accepts writes for the slot of this key',
      notCounted: true,
    });
    await eventually(() => expect(reads()).toBe(1));
  });

  it('fails a call to a node that is gone, and names the node', async () => {
    const { server, place, topology, commands, changes } = await clusterOf();
    await topology.read();
    await server.close();
    await eventually(() => expect(changes.at(-1)?.[0]).toBe(false));
    await expect(commands.send('k', 'get', ['k'])).rejects.toMatchObject({
      message: expect.stringContaining(`node ${host}:${place.port} is not connected`),
      notCounted: true,
    });
  });

  it('reports a node that does not answer, although it is connected', async () => {
    const { topology, commands, changes } = await clusterOf();
    await topology.read();
    const waiting = commands.send('k', 'get', ['k']);
    await expect(waiting).rejects.toThrow('did not answer in time (STORE_BREAKER_SILENCE)');
    expect(changes.slice(0, 2)).toEqual([
      [true, undefined],
      [false, 'it does not answer'],
    ]);
  });
});
