import { describe, expect, it } from 'vitest';
import { namesIn } from './promql-names.ts';

function asked(expression: string): unknown {
  const { metrics, grouping } = namesIn(expression);
  return [metrics.map(({ name, labels }) => [name, Object.fromEntries(labels)]), [...grouping]];
}

describe('namesIn', () => {
  it.each([
    ['up', [[['up', {}]], []]],
    [
      'up{job="a b{}",pod!="x",zone=~"z.*"}',
      [[['up', { job: 'a b{}', pod: undefined, zone: undefined }]], []],
    ],
    ['sum by (job, pod) (rate(a_total{x="1"}[5m])) > 0.5', [[['a_total', { x: '1' }]], ['job', 'pod']]],
    ['sum(rate(a[$__rate_interval])) without (le)', [[['a', {}]], ['le']]],
    [
      'a / on (job) group_left (version) b unless c offset 5m # up',
      [
        [
          ['a', {}],
          ['b', {}],
          ['c', {}],
        ],
        ['job', 'version'],
      ],
    ],
    ['histogram_quantile(0.99, sum by (le) (a_bucket)) or vector(1e3)', [[['a_bucket', {}]], ['le']]],
    [
      'absent(a{}) and on () b == bool 1',
      [
        [
          ['a', {}],
          ['b', {}],
        ],
        [],
      ],
    ],
    [
      '{__name__=~"a|b", x="1"} == 1',
      [
        [
          ['a', { x: '1' }],
          ['b', { x: '1' }],
        ],
        [],
      ],
    ],
    ["label_replace(a, 'dst', '$1', 'src', '(.*)')", [[['a', {}]], []]],
  ])('finds the names in %s', (expression, expected) => {
    expect(asked(expression)).toEqual(expected);
  });
});
