/** Dashboards and alerts ask for nothing that nobody serves. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import type { ServedNames } from '../support/exposition-names.ts';
import { memcachedProgram, opensslProgram, promtoolProgram, redisProgram } from '../support/find-server.ts';
import { namesIn } from '../support/promql-names.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { alertRules } from './alert-rules.ts';
import { dashboard, dashboardExpressions, withoutVariables } from './dashboard-file.ts';
import { type ObservedPrograms, observedNames } from './observed-fleet.ts';

const folder = suiteFolder();

/** What a scrape adds, besides the metric `up`. */
const targetLabels = new Set(['namespace', 'job', 'instance']);

/** What an expression asks for that is not served: metrics, labels, and values that a label never has. */
function notServed(expression: string, served: ServedNames): string[] {
  const { metrics, grouping } = namesIn(expression);
  const missing: string[] = [];
  const known = new Set(targetLabels);
  for (const { name, labels } of metrics) {
    if (name === 'up') continue;
    const servedLabels = served.labelsOf(name);
    if (servedLabels === undefined) {
      missing.push(name);
      continue;
    }
    for (const label of servedLabels.keys()) known.add(label);
    for (const [label, value] of labels) {
      if (targetLabels.has(label)) continue;
      const values = servedLabels.get(label);
      if (values === undefined) missing.push(`${name}{${label}}`);
      else if (value !== undefined && !values.has(value)) missing.push(`${name}{${label}="${value}"}`);
    }
  }
  for (const label of grouping) if (!known.has(label)) missing.push(`by (${label})`);
  return missing;
}

function servedNamesSuite(programs: ObservedPrograms): void {
  let served: ServedNames;

  beforeAll(async () => {
    served = await observedNames(folder, programs);
  }, 120_000);

  it('has every name in every alert', () => {
    const missing = alertRules.map(({ alert, expr }) => [alert, notServed(expr, served)]);
    expect(missing.filter(([, names]) => names?.length !== 0)).toEqual([]);
  });

  it('has every name in every panel of the dashboard', () => {
    const missing = dashboardExpressions.map(({ place, expr }) => [place, notServed(expr, served)]);
    expect(missing.filter(([, names]) => names?.length !== 0)).toEqual([]);
  });

  it('would be missed if it were not there', () => {
    expect(notServed('weir_nothing + sum by (planet) (weir_build_info)', served)).toEqual([
      'weir_nothing',
      'by (planet)',
    ]);
    const error = 'ratelimit_service_should_rate_limit_error';
    expect(notServed(`${error}{err_type="redis_eror"} / ${error}{kind="a"}`, served)).toEqual([
      `${error}{err_type="redis_eror"}`,
      `${error}{kind}`,
    ]);
  });
}

describeWithServer('what limiters and a control plane serve', redisProgram, (redis) => {
  describeWithServer('with memcache', memcachedProgram, (memcached) => {
    describeWithServer('and TLS', opensslProgram, (openssl) =>
      servedNamesSuite({ redis, memcached, openssl }),
    );
  });
});

describe('the dashboard', () => {
  it('has panels with a number of their own each, which do not lie on each other', () => {
    const ids = dashboard.panels.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    const taken = new Set<string>();
    for (const { title, gridPos } of dashboard.panels) {
      expect(gridPos.x + gridPos.w, title).toBeLessThanOrEqual(24);
      for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
        for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
          expect(taken.has(`${x} ${y}`), title).toBe(false);
          taken.add(`${x} ${y}`);
        }
      }
    }
  });

  it('says where to ask which callers are over limit', () => {
    const texts = dashboard.panels.flatMap(({ type, options }) =>
      type === 'text' ? [options?.content] : [],
    );
    expect(texts.join('\n')).toContain('localhost:6070/top?domain=');
  });

  it('asks for nothing but the jobs and namespaces that are chosen', () => {
    const all = dashboardExpressions.filter(({ place }) => !place.startsWith('the variable'));
    for (const { place, expr } of all) {
      for (const { name, labels } of namesIn(expr).metrics) {
        expect([place, name, ...labels.keys()]).toEqual(
          expect.arrayContaining([place, name, 'namespace', 'job']),
        );
      }
    }
  });
});

describeWithServer('the expressions of the dashboard', promtoolProgram, (promtool) => {
  it('are expressions of Prometheus', () => {
    const file = join(folder, 'dashboard-rules.yaml');
    const rules = dashboardExpressions.map(({ expr }, index) => {
      return { record: `panel:expression:${index}`, expr: withoutVariables(expr) };
    });
    writeFileSync(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    const { status, stdout, stderr } = spawnSync(promtool, ['check', 'rules', file], { encoding: 'utf8' });
    expect([status, stdout + stderr]).toEqual([0, expect.stringContaining(`${rules.length} rules found`)]);
  });
});
