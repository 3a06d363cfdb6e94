import { describe, expect, it } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import { machineSlowness } from '../../test/support/machine-slowness.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';

function object(index: number, generation: number): ConfigObject {
  const descriptors = Array.from({ length: 20 }, (_, rule) => ({
    key: 'user',
    value: `v${rule}`,
    rateLimit: { unit: 'minute', requestsPerUnit: generation },
  }));
  const spec = { fleet: `fleet-${index % 100}`, domain: `domain-${index}`, descriptors };
  return configObject({ name: `object-${index}`, createdMs: index, generation, spec });
}

/** CPU of this process, which others on the machine do not lengthen as they do a time on the clock. */
function cpuMs(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('Decider', () => {
  it('decides on 5,000 objects with 100,000 rules within 60 ms of CPU after one has changed', () => {
    const decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    let objects = Array.from({ length: 5_000 }, (_, index) => object(index, 1));
    expect(decider.decideAll(objects, new Map()).outcomes.size).toBe(5_000);
    const times = Array.from({ length: 21 }, (_, turn) => {
      objects = objects.with(turn, object(turn, 2));
      return cpuMs(() => decider.decideAll(objects, new Map()));
    });
    expect(times.sort((a, b) => a - b)[10]).toBeLessThan(60 * machineSlowness());
  });
});
