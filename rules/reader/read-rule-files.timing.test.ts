import { describe, expect, it } from 'vitest';
import { cpuMs } from '../../test/support/cpu-time.ts';
import { machineSlowness } from '../../test/support/machine-slowness.ts';
import { readRuleFiles } from './read-rule-files.ts';

/** One domain with 100,000 top-level rules, every tenth with a nested one, as people write them. */
function largeFile(): string {
  const parts = ['# all tenants\ndomain: big\ndescriptors:\n'];
  for (let i = 0; i < 100_000; i++) {
    const limit = (indent: string) =>
      `${indent}rate_limit:\n${indent}  unit: minute\n${indent}  requests_per_unit: ${i % 1000}\n`;
    if (i % 10 > 0) parts.push(`  - key: user_id\n    value: user-${i}\n${limit('    ')}`);
    else
      parts.push(
        `  - key: tenant\n    value: "t ${i}" # paying\n    descriptors:\n      - key: path\n${limit('        ')}`,
      );
  }
  return parts.join('');
}

describe('readRuleFiles', () => {
  const file = largeFile();
  const bytes = Buffer.from(file);

  it('reads and checks 100,000 rules in well under the time that a load may take', () => {
    const max = 1500 * machineSlowness();
    let best = Infinity;
    for (let run = 0; run < 3 && best >= max; run++) {
      let read: ReturnType<typeof readRuleFiles> | undefined;
      const spent = cpuMs(() => {
        read = readRuleFiles([{ name: 'big.yaml', text: bytes }], { mergeDomains: false });
      });
      best = Math.min(best, spent);
      expect(read?.errors).toEqual([]);
      expect(read?.sources[0]?.descriptors).toHaveLength(100_000);
    }
    expect(best).toBeLessThan(max);
  });

  it('finds the place of the last error among 100,000', () => {
    const broken = `${file}  - key: user_id\n    value: user-1\n`;
    const { errors } = readRuleFiles([{ name: 'big.yaml', text: broken }], { mergeDomains: false });
    const line = broken.split('\n').length - 2;
    expect(errors).toMatchObject([{ code: 'duplicate-descriptor', line, column: 10 }]);
  });
});
