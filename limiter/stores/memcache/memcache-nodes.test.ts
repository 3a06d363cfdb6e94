import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { keyHash } from './memcache-key.ts';
import { MemcacheNodes } from './memcache-nodes.ts';

/** Nodes at paths where nothing listens, each with two connections. */
function nodesOf(...labels: string[]): MemcacheNodes {
  const nodes = new MemcacheNodes({
    connectionsPerNode: 2,
    timeoutMs: 1_000,
    random: () => 0,
    onChange: () => {},
  });
  onTestFinished(() => {
    for (const connection of nodes.connections()) connection.close();
  });
  nodes.set(labels.map((label) => ({ label, endpoint: { path: `/nowhere/${label}` } })));
  return nodes;
}

describe('MemcacheNodes', () => {
  it('finds a key on the node that gomemcache chooses, and always on one connection', () => {
    const nodes = nodesOf('a', 'b', 'c');
    const all = nodes.connections();
    fc.assert(
      fc.property(fc.string(), (key) => {
        const found = nodes.connectionOf(key)!;
        expect(Math.floor(all.indexOf(found) / 2)).toBe(keyHash(key) % 3);
        expect(nodes.connectionOf(key)).toBe(found);
      }),
    );
  });

  it('gives a node listed twice twice the keys, and every connection some', () => {
    const nodes = nodesOf('a', 'b', 'a', 'a');
    const keys = Array.from({ length: 400 }, (_, i) => `key${i}`);
    const all = nodes.connections();
    const counts = all.map(
      (connection) => keys.filter((key) => nodes.connectionOf(key) === connection).length,
    );
    const [first, second, third, fourth] = counts;
    expect(first! + second!).toBeGreaterThan(2 * (third! + fourth!));
    for (const count of counts) expect(count).toBeGreaterThan(0);
  });

  it('has no connection without nodes', () => {
    expect(nodesOf().connectionOf('key')).toBeUndefined();
  });
});
