// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references to what was matched
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { suiteFolder } from '../../test/support/suite-folder.ts';
import { Mapper } from '../stats/prometheus/mapper.ts';
import { createObserver } from '../stats/prometheus/value-series.ts';
import { MapperFileError, readMapperFile, readMapperText } from './mapper-file.ts';

const folder = suiteFolder();

const everyFeature = `
defaults:
  observer_type: histogram
  histogram_options:
    buckets: [1, 10, 100]
  ttl: 1m30s
mappings:
- match: "app.*.requests.*"
  name: "app_requests_total"
  help: Requests by "code".
  labels:
    app: "$1"
    code: "\${2}xx"
    job: 7
- match: 'app\\.(?P<name>[a-z]+)\\.(size|weight)$'
  match_type: regex
  name: "app_\${2}"
  labels: { app: "$name", whole: "$0" }
  scale: 1e-3
  ttl: 5s
- match: gone.*
  action: drop
  name: dropped
- match: both.*
  match_metric_type: gauge
  name: both_gauge
- match: both.*
  match_metric_type: counter
  name: both_counter
- match: old.*
  match_metric_type: timer
  name: old_timer
  timer_type: summary
  quantiles:
  - { quantile: 0.99, error: 0.001 }
  - { quantile: 0.5, error: 0.05 }
- match: new.*
  name: new_timer
  observer_type: summary
  summary_options: { quantiles: [{ quantile: 0.75, error: 0.01 }], max_age: 30s, age_buckets: 3 }
- match: bucketed.*
  name: bucketed
  histogram_options: { buckets: [0.5, 2] }
- match: bucketed_once.*
  name: bucketed_once
  buckets: [3, 4]
- match: plain.*
  name: plain
  honor_labels: true
- match: .+_rest
  match_type: regex
  name: $0
`;

const file = readMapperText(everyFeature, 'map.yaml');
const mapper = new Mapper(file.mapping);

describe('a mapper file with every feature', () => {
  it('is read without a warning', () => {
    expect(file.warnings).toEqual([]);
  });

  it('maps globs with references, help and fixed labels', () => {
    const metric = mapper.map('app.shop.requests.4', 'counter');
    expect(metric).toMatchObject({
      name: 'app_requests_total',
      help: 'Requests by "code".',
      ttlMs: 90_000,
      scale: 1,
    });
    expect(Object.fromEntries(metric?.labels ?? [])).toEqual({ app: 'shop', code: '4xx', job: '7' });
  });

  it('maps regular expressions with numbered and named groups, scale and a ttl', () => {
    const metric = mapper.map('my.app.shop.weight', 'gauge');
    expect(metric).toMatchObject({ name: 'app_weight', scale: 0.001, ttlMs: 5_000 });
    expect(Object.fromEntries(metric?.labels ?? [])).toEqual({ app: 'shop', whole: 'app.shop.weight' });
  });

  it('drops', () => {
    expect(mapper.map('gone.x', 'counter')).toBeUndefined();
  });

  it('distinguishes kinds', () => {
    expect(mapper.map('both.x', 'gauge')?.name).toBe('both_gauge');
    expect(mapper.map('both.x', 'counter')?.name).toBe('both_counter');
    expect(mapper.map('both.x', 'observer')).toMatchObject({ name: 'both_x', isMapped: false });
    expect(mapper.map('old.x', 'counter')?.isMapped).toBe(false);
  });

  it('gives timers their type, by the older key too', () => {
    const observer = (stat: string) => mapper.map(stat, 'observer')?.observer;
    expect(observer('old.x')).toMatchObject({ type: 'summary', quantiles: [0.5, 0.99] });
    const summary = { type: 'summary', quantiles: [0.75], maxAgeMs: 30_000, ageBuckets: 3 };
    expect(observer('new.x')).toEqual(summary);
    expect(observer('bucketed.x')).toEqual({ type: 'histogram', buckets: [0.5, 2] });
    expect(observer('bucketed_once.x')).toEqual({ type: 'histogram', buckets: [3, 4] });
    expect(observer('unmapped.x')).toEqual({ type: 'histogram', buckets: [1, 10, 100] });
  });

  it('takes honor_labels and makes names fit', () => {
    expect(mapper.map('plain.x', 'counter')?.honorLabels).toBe(true);
    expect(mapper.map('a.b-c_rest', 'counter')?.name).toBe('a_b_c_rest');
  });

  it('tries every glob before any regular expression', () => {
    expect(mapper.map('plain.x_rest', 'counter')?.name).toBe('plain');
  });
});

describe('globs', () => {
  const rules = `
mappings:
- { match: "a.*", name: wide }
- { match: "a.b", name: narrow }
`;
  it('win by their order', () => {
    expect(new Mapper(readMapperText(rules, 'f').mapping).map('a.b', 'counter')?.name).toBe('wide');
  });

  it('win by what they spell out with glob_disable_ordering', () => {
    const text = `defaults: { glob_disable_ordering: true }${rules}`;
    expect(new Mapper(readMapperText(text, 'f').mapping).map('a.b', 'counter')?.name).toBe('narrow');
  });

  it('are expressions if the defaults say so', () => {
    const text = 'defaults: { match_type: regex }\nmappings: [{ match: "^a", name: found }]';
    expect(new Mapper(readMapperText(text, 'f').mapping).map('abc', 'counter')?.name).toBe('found');
  });
});

describe('an empty mapper file', () => {
  it('maps nothing', () => {
    const { mapping, warnings } = readMapperText('', 'f');
    expect(warnings).toEqual(['f is empty, so every statistic keeps its name']);
    expect(new Mapper(mapping).map('a.b', 'counter')).toMatchObject({ name: 'a_b', isMapped: false });
  });
});

const one = (lines: string) => `mappings:\n- match: a.*\n  name: a\n${lines}`;

describe('buckets', () => {
  it.each(['.inf', '+.inf', '.Inf', '+Inf', 'Inf'])('may end with %s, which is always there', (last) => {
    const text = one(`  observer_type: histogram\n  histogram_options: { buckets: [1, ${last}] }\n`);
    const { observer } = new Mapper(readMapperText(text, 'f').mapping).map('a.b', 'observer') ?? {};
    expect(observer).toEqual({ type: 'histogram', buckets: [1, Number.POSITIVE_INFINITY] });
    const lines = createObserver(observer!, 0).samples(0);
    expect(lines.map(([suffix, label]) => suffix + label)).toEqual([
      '_bucketle="1"',
      '_bucketle="+Inf"',
      '_sum',
      '_count',
    ]);
  });
});

describe('a bad mapper file', () => {
  for (const { text, message } of [
    { text: one('  labelz: {}\n'), message: 'm.yaml:4:11: unknown key labelz' },
    { text: 'mapping: []\n', message: 'm.yaml:1:10: unknown key mapping' },
    { text: 'mappings:\n- match: a.*\n', message: 'm.yaml:2:3: name: is missing' },
    { text: 'mappings:\n- name: a\n', message: 'm.yaml:2:3: match: is missing' },
    {
      text: one('  ttl: soon\n'),
      message: 'm.yaml:4:8: ttl: expected a duration such as 30s or 1h30m, not "soon"',
    },
    { text: one('  scale: big\n'), message: 'm.yaml:4:10: scale: expected a number, not "big"' },
    { text: one('  action: hide\n'), message: 'm.yaml:4:11: action: expected map or drop' },
    { text: one('  match_type: like\n'), message: 'm.yaml:4:15: match_type: expected glob or regex' },
    { text: one('  labels: { a-b: x }\n'), message: 'm.yaml:4:18: a-b: "a-b" is not a name of a label' },
    { text: one('  labels: [a]\n'), message: 'm.yaml:4:11: labels: expected a map' },
    { text: one('  buckets: [.inf, 1]\n'), message: 'm.yaml:4:19: buckets must ascend' },
    { text: one('  buckets: [-.inf, 1]\n'), message: 'm.yaml:4:13: expected a number, not "-.inf"' },
    { text: one('  buckets: [1, 3, 2]\n'), message: 'm.yaml:4:19: buckets must ascend' },
    {
      text: 'mappings:\n- match: a.*\n  name: a b\n',
      message: 'm.yaml:3:9: name: "a b" is not a name of a metric',
    },
    { text: 'mappings:\n- match: a.*b\n  name: a\n', message: 'm.yaml:2:10: invalid match "a.*b"' },
    {
      text: "mappings:\n- match: '(a'\n  match_type: regex\n  name: a\n",
      message: 'm.yaml:2:10: invalid regex "(a": error parsing regexp: missing closing ): `(a`',
    },
    {
      text: "mappings:\n- match: '(?=a)'\n  match_type: regex\n  name: a\n",
      message:
        'm.yaml:2:10: invalid regex "(?=a)": error parsing regexp: invalid or unsupported Perl syntax: `(?=`',
    },
    {
      text: one('  observer_type: summary\n  histogram_options: { buckets: [1] }\n'),
      message: 'm.yaml:5:22: a summary has no histogram_options',
    },
    {
      text: one('  buckets: [1]\n  histogram_options: { buckets: [1] }\n'),
      message: 'm.yaml:4:12: buckets are also in histogram_options',
    },
    { text: 'mappings: ]\n', message: 'm.yaml:1:11: did not find expected node content' },
    {
      text: 'mappings:\n- match: a.*b\n  name: a\n- match: b.*c\n  name: b\n',
      message: 'm.yaml:2:10: invalid match "a.*b"; m.yaml:4:10: invalid match "b.*c"',
    },
    {
      text: 'mappings:\n- match: a.*b\n  name: a\n- match: b.*\n  colour: red\n  name: 1 2\n- match: c.*d\n  name: c\ndefaults: 1\n',
      message:
        'm.yaml:2:10: invalid match "a.*b"; m.yaml:5:11: unknown key colour; m.yaml:6:9: name: "1 2" is not a name of a metric; m.yaml:7:10: invalid match "c.*d"; m.yaml:9:11: defaults: expected a map',
    },
  ]) {
    it(`is rejected: ${message}`, () => {
      expect(() => readMapperText(text, 'm.yaml')).toThrow(new MapperFileError([message]));
    });
  }

  it('is rejected when it cannot be read', () => {
    const path = join(folder, 'missing.yaml');
    expect(() => readMapperFile(path)).toThrow(`PROMETHEUS_MAPPER_YAML: ${path}: no such file or directory`);
  });

  it('is rejected when it is a folder', () => {
    expect(() => readMapperFile(folder)).toThrow(
      `PROMETHEUS_MAPPER_YAML: ${folder}: is a folder, not a file`,
    );
  });

  it('is named by its path', () => {
    const path = join(folder, 'bad.yaml');
    writeFileSync(path, 'mappings: 5\n');
    expect(() => readMapperFile(path)).toThrow(
      `PROMETHEUS_MAPPER_YAML: ${path}:1:11: mappings: expected a list`,
    );
  });
});

describe('a mapper file with something of no effect', () => {
  it('is read with a warning', () => {
    const text = one(
      '  histogram_options: { native_histogram_bucket_factor: 1.1 }\n  summary_options: { buf_cap: 5 }\n',
    );
    expect(readMapperText(text, 'm.yaml').warnings).toEqual([
      'm.yaml:4:56: native_histogram_bucket_factor has no effect: native histograms are not supported',
      'm.yaml:5:31: buf_cap has no effect: the limiter does not buffer',
    ]);
  });

  it('is warned of a scale that makes counters fall', () => {
    expect(readMapperText(one('  scale: -1\n'), 'm.yaml').warnings).toEqual([
      'm.yaml:4:10: counters cannot fall: those that match are dropped',
    ]);
    expect(readMapperText(one('  scale: -1\n  match_metric_type: gauge\n'), 'm.yaml').warnings).toEqual([]);
  });

  it('is warned of references to nothing', () => {
    const text = 'mappings:\n- match: a.*\n  name: $1_total\n  labels: { x: $2 }\n';
    expect(readMapperText(text, 'm.yaml').warnings).toEqual([
      'm.yaml:3:9: "$1_total": ${1_total} has no group and is always empty',
      'm.yaml:4:16: "$2": ${2} has no group and is always empty',
    ]);
  });
});

describe('the mapper file in docs/prometheus.md', () => {
  const docs = readFileSync(join(import.meta.dirname, '../../docs/prometheus.md'), 'utf8');
  const [, text] = /```yaml\n(defaults:[^`]*)```/.exec(docs) ?? [];

  it('maps as it says', () => {
    const { mapping, warnings } = readMapperText(text ?? '', 'docs');
    const documented = new Mapper(mapping);
    expect(warnings).toEqual([]);
    expect(documented.map('ratelimit.service.rate_limit.d.k.over_limit', 'counter')).toMatchObject({
      name: 'limits_over_limit_total',
      labels: new Map([
        ['domain', 'd'],
        ['key', 'k'],
      ]),
    });
    expect(documented.map('ratelimit_server.Check.response_time', 'observer')).toMatchObject({
      name: 'response_seconds',
      labels: new Map([['method', 'Check']]),
      observer: { type: 'histogram', buckets: [0.001, 0.01, 0.1, 1] },
    });
    expect(documented.map('runtime.num_values', 'gauge')).toBeUndefined();
  });
});

it('rejects expressions that together cost too much for a name', () => {
  const costly = `- { match: '(.*,){8}a.{0,900}x', match_type: regex, name: a }\n`;
  const read = (times: number) => () => readMapperText(`mappings:\n${costly.repeat(times)}`, 'mapper.yaml');
  expect(read(1)).not.toThrow();
  expect(read(20)).toThrow(
    /mapper.yaml:\d+:\d+: invalid regex .*: the expressions up to here cost [\d,]+ for each byte/,
  );
});
