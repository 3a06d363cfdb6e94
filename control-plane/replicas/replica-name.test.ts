import { describe, expect, it } from 'vitest';
import { replicaName } from './own-objects.ts';

const random = (): number => 0.5;

describe('replicaName', () => {
  it.each([
    {
      what: 'a pod’s name',
      podName: 'weir-control-plane-7d9f-x2x4z',
      hostName: 'node',
      name: 'weir-control-plane-7d9f-x2x4z',
    },
    {
      what: 'a host’s name and something random',
      podName: undefined,
      hostName: 'laptop',
      name: 'laptop-i0000',
    },
    { what: 'the same for an empty POD_NAME', podName: '', hostName: 'laptop', name: 'laptop-i0000' },
    { what: 'no dots', podName: 'plane.example.com', hostName: '', name: 'plane-example-com' },
    {
      what: 'no capitals and no other marks',
      podName: undefined,
      hostName: '-My_Mac (2)-',
      name: 'my-mac-2---i0000',
    },
    { what: 'a hash for a name without letters', podName: '___', hostName: '', name: 'bda251550b' },
  ])('is $what', ({ podName, hostName, name }) => {
    expect(replicaName({ podName, hostName, random })).toBe(name);
  });

  it('is short enough, and different for long names that differ at their end', () => {
    const [one, two] = ['1', '2'].map((end) =>
      replicaName({ podName: 'x'.repeat(250) + end, hostName: '', random }),
    );
    expect(one).toMatch(/^x{189}-[0-9a-f]{10}$/);
    expect(one).not.toBe(two);
  });
});
