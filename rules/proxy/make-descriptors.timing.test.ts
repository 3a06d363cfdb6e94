import { performance } from 'node:perf_hooks';
import { expect, it } from 'vitest';
import { descriptorMaker } from './make-descriptors.ts';
import { readProfilesFile } from './read-profiles.ts';

/** Would take a backtracking engine longer than anybody waits. */
const regex = '(a|aa)+(.*a)*b?';

const text = `profiles:
  shop:
    domain: shop
    rate_limits:
      - actions:
          - header_value_match: {descriptor_value: a, headers: [{name: ":path", safe_regex_match: {regex: "/${regex}"}}]}
          - query_parameters: {query_parameter_name: page, descriptor_key: page, skip_if_absent: true}
`;

/** Of the quickest of several: what else runs does not count. */
function milliseconds(work: () => void): number {
  const times = Array.from({ length: 15 }, () => {
    const start = performance.now();
    work();
    return performance.now() - start;
  });
  return Math.min(...times);
}

it('takes time that grows with a request and no faster, up to the largest that Node lets in', () => {
  const file = readProfilesFile(text);
  const make = descriptorMaker('profiles' in file ? file.profiles[0]! : expect.unreachable());
  const ask = (bytes: number) => () => {
    make(['X-Forwarded-Uri', `/${'a'.repeat(bytes - 2)}c`]);
  };
  const small = milliseconds(ask(2_000));
  expect(milliseconds(ask(16_000))).toBeLessThan(small * 20 + 1);

  const headers = Array.from({ length: 2_000 }, (_, index) => [`x-${index}`, 'v']).flat();
  const manyParameters = ['X-Forwarded-Uri', `/?${'a=1&'.repeat(3_500)}`];
  expect(milliseconds(() => make([...headers, ...manyParameters]))).toBeLessThan(50);
});
