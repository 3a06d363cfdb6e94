import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SrvServer } from '../../../test/support/srv-server.ts';
import { isSrvName, lookUpNodes, type ResolveSrv } from './memcache-nodes.ts';

describe('lookUpNodes', () => {
  const server = new SrvServer();
  let resolve: ResolveSrv;
  beforeAll(async () => {
    const resolver = await server.start();
    resolve = (name) => resolver.resolveSrv(name);
  });
  afterAll(() => server.stop());

  it('sorts as the Go service does, in whose texts targets end with a dot', async () => {
    server.records = [
      { target: 'm10.x', port: 1 },
      { target: 'm1.x', port: 2 },
      { target: 'm1.x', port: 11 },
      { target: 'm.x.y', port: 1 },
      { target: 'm.x', port: 1 },
    ];
    const nodes = await lookUpNodes('_memcache._tcp.x', resolve);
    expect(nodes.map(({ label }) => label)).toEqual(['m.x:1', 'm.x.y:1', 'm1.x:11', 'm1.x:2', 'm10.x:1']);
    expect(nodes[0]?.endpoint).toEqual({ host: 'm.x', port: 1 });
  });

  it('rejects without records', async () => {
    server.records = [];
    await expect(lookUpNodes('_memcache._tcp.x', resolve)).rejects.toThrow('querySrv ENOTFOUND');
    await expect(lookUpNodes('_a._b.c', async () => [])).rejects.toThrow('no SRV record for _a._b.c');
  });
});

describe('isSrvName', () => {
  it.each([
    ['_memcache._tcp.example.org', true],
    ['memcache._tcp.example.org', false],
    ['_memcache._tcp', false],
    ['', false],
  ])('%j: %s', (name, is) => {
    expect(isSrvName(name)).toBe(is);
  });
});
