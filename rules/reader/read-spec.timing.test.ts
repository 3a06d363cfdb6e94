import { expect, it } from 'vitest';
import { cpuMs } from '../../test/support/cpu-time.ts';
import { machineSlowness } from '../../test/support/machine-slowness.ts';
import { readSpec } from './manifest-reader.ts';

it('reads 5,000 objects of 20 rules in less than two seconds', () => {
  const descriptors = Array.from({ length: 20 }, (_, n) => ({
    key: 'user',
    value: `u${n}`,
    rateLimit: { unit: 'second', requestsPerUnit: n },
  }));
  const specs = Array.from({ length: 5000 }, (_, n) => ({ domain: `d${n}`, descriptors }));
  const spent = cpuMs(() => expect(specs.every((spec) => readSpec(spec, 'n').ok)).toBe(true));
  expect(spent).toBeLessThan(2000 * machineSlowness());
});
