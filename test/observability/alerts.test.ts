import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { anchorsOf } from '../support/documents.ts';
import { goOnce, promtoolProgram } from '../support/find-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { type AlertCase, alertCases } from './alert-cases.ts';
import { type AlertRule, alertRules, alertsFile } from './alert-rules.ts';

const folder = suiteFolder();
const scraped = { namespace: 'limits', job: 'weir', instance: 'pod:1' };

/** Long after every alert's time. */
const evaluatedAt = '50m';

function withScraped(series: string): string {
  const [, name, labels] = /^([^{]+)(?:\{(.*)\})?$/.exec(series) as unknown as [string, string, string?];
  const added = Object.entries(scraped).map(([label, value]) => `${label}="${value}"`);
  return `${name}{${[...added, ...(labels === undefined ? [] : [labels])].join(',')}}`;
}

function promtoolTest(
  { alert, labels, annotations }: AlertRule,
  alertCase: AlertCase,
  which: 'fires' | 'quiet',
): object {
  const kept = Object.fromEntries(alertCase.kept.map((label) => [label, scraped[label]]));
  const expected = {
    exp_labels: { ...labels, ...kept, ...alertCase.labels },
    exp_annotations: { ...annotations, summary: alertCase.summary },
  };
  return {
    name: `${alert} ${which}`,
    interval: '1m',
    input_series: Object.entries(alertCase[which]).map(([series, values]) => ({
      series: withScraped(series),
      values,
    })),
    alert_rule_test: [
      { eval_time: evaluatedAt, alertname: alert, exp_alerts: which === 'fires' ? [expected] : [] },
    ],
  };
}

describe('the alerts', () => {
  it('have a case each', () => {
    expect(Object.keys(alertCases)).toEqual(alertRules.map(({ alert }) => alert));
  });

  it('say how grave they are', () => {
    for (const { labels } of alertRules) expect(['critical', 'warning', 'info']).toContain(labels.severity);
  });

  it('lead operators to a symptom of the page', () => {
    const page = readFileSync(new URL('../../docs/troubleshooting.md', import.meta.url), 'utf8');
    const symptoms = anchorsOf(page);
    for (const { annotations } of alertRules) {
      const [address, symptom] = annotations.runbook_url.split('#');
      expect(address).toBe('https://github.com/example/weir/blob/main/docs/troubleshooting.md');
      expect([...symptoms]).toContain(symptom);
    }
  });

  it('are each in the handbook, which names no others', () => {
    const handbook = readFileSync(new URL('../../docs/alerts.md', import.meta.url), 'utf8');
    const named = [...handbook.matchAll(/^\| `(Weir\w+)`/gm)].map(([, name]) => name);
    expect(named).toEqual(alertRules.map(({ alert }) => alert));
  });
});

describeWithServer('the alerts, to promtool', promtoolProgram, (promtool) => {
  const run = (...args: string[]): { status: number | null; output: string } => {
    const { status, stdout, stderr } = spawnSync(promtool, args, {
      env: { ...process.env, ...goOnce },
      encoding: 'utf8',
    });
    return { status, output: stdout + stderr };
  };

  it('are rules', () => {
    expect(run('check', 'rules', alertsFile)).toEqual({
      status: 0,
      output: expect.stringContaining(`${alertRules.length} rules found`),
    });
  });

  it('miss a limiter that was never seen', () => {
    const { alert, labels, annotations } = alertRules[0] as AlertRule;
    const expected = {
      exp_labels: labels,
      exp_annotations: { ...annotations, summary: 'No limiter is scraped' },
    };
    const tests = [
      {
        interval: '1m',
        alert_rule_test: [{ eval_time: evaluatedAt, alertname: alert, exp_alerts: [expected] }],
      },
    ];
    const file = join(folder, 'never-seen.yaml');
    writeFileSync(file, JSON.stringify({ rule_files: [alertsFile], evaluation_interval: '1m', tests }));
    expect(run('test', 'rules', file)).toEqual({ status: 0, output: expect.stringContaining('SUCCESS') });
  });

  const fileOf = (alert: string): string => join(folder, `${alert}.yaml`);
  /** By alert, what one run for all of them says: each would take longer to start than to run. Each case has its own rule alone. */
  let results: Map<string, string>;

  beforeAll(() => {
    for (const rule of alertRules) {
      const alertCase = alertCases[rule.alert] as AlertCase;
      const tests = (['fires', 'quiet'] as const).map((which) => promtoolTest(rule, alertCase, which));
      const ruleFile = join(folder, `${rule.alert}.rules.yaml`);
      // JSON is YAML.
      writeFileSync(ruleFile, JSON.stringify({ groups: [{ name: 'one', rules: [rule] }] }));
      const text = JSON.stringify({ rule_files: [ruleFile], evaluation_interval: '1m', tests });
      writeFileSync(fileOf(rule.alert), text);
    }
    const files = alertRules.map(({ alert }) => fileOf(alert));
    const { output } = run('test', 'rules', ...files);
    // What failed stands on the other stream, with the name of its test.
    const parts = output.split(/^Unit Testing: +/m).slice(1);
    results = new Map(parts.map((text, index) => [alertRules[index]!.alert, text]));
  });

  it.each(alertRules.map(({ alert }) => alert))('%s fires, and only then', (alert) => {
    expect(results.get(alert)).toMatch(new RegExp(`^${RegExp.escape(fileOf(alert))}\\s+SUCCESS\\s*$`));
  });
});
