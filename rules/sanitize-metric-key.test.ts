import { describe, expect, it } from 'vitest';
import { sanitizeMetricKey } from './match-result.ts';

describe('sanitizeMetricKey', () => {
  const cases: [key: string, name: string][] = [
    ['mongo_cps.database_default', 'mongo_cps.database_default'],
    ['n_10.0.0.1:8|9', 'n_10_0_0_1_8_9'],
    ['d.ip_192.168.1.77.path_a', 'd.ip_192_168_1_77.path_a'],
    ['d.a_1.2.3', 'd.a_1.2.3'],
    ['1.2.3.4.5.6.7.8', '1_2_3_4.5_6_7_8'],
    ['d.k_a\nfake:1|c', 'd.k_a_fake_1_c'],
    ['d.k_\u0000\r\t\u007f\u0085\u2028', 'd.k_______'],
    ['d.k_ö /path?x=y', 'd.k_ö /path?x=y'],
    ['', ''],
  ];
  for (const [key, name] of cases) {
    it(`makes ${JSON.stringify(name)} of ${JSON.stringify(key)}`, () => {
      expect(sanitizeMetricKey(key)).toBe(name);
    });
  }
});
