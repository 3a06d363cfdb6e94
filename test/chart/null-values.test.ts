/** A key with only comments below it is null. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { type JsonSchema, readChartValues } from '../../scripts/chart-values.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import {
  type ChartRun,
  chartFolder,
  objectsIn,
  podOf,
  release,
  renderChart,
  runHelm,
  tryChart,
  type Values,
} from '../support/helm-chart.ts';

const { schema } = readChartValues(readFileSync(join(chartFolder, 'values.yaml'), 'utf8'));

interface Named {
  path: string[];
  mayBeNull: boolean;
}

function namesOf(object: JsonSchema, depth: number, above: readonly string[] = []): Named[] {
  const properties = (object['properties'] ?? {}) as Record<string, JsonSchema>;
  const required = (object['required'] ?? []) as string[];
  return Object.entries(properties).flatMap(([name, one]) => {
    const path = [...above, name];
    const below = depth > 1 && one['additionalProperties'] === false ? namesOf(one, depth - 1, path) : [];
    return [{ path, mayBeNull: !required.includes(name) }, ...below];
  });
}

/** With everything on that has templates of its own. */
const base: Values = {
  redis: { url: 'redis:6379', existingSecret: null, tls: { enabled: true, existingSecret: 'tls' } },
  serviceMonitor: { enabled: true },
  prometheusRule: { enabled: true },
  dashboard: { enabled: true },
  networkPolicy: {
    enabled: true,
    metricsFrom: [{ podSelector: {} }],
    egress: { enabled: true, store: [{ ports: [{ port: 6379 }] }] },
  },
  aggregatedRoles: { enabled: true },
};

function withNulls(paths: readonly string[][]): Values {
  const values = structuredClone(base) as Record<string, unknown>;
  // They are most of the text, and the same with all other values.
  if (paths.every(([first]) => first !== 'crds')) values['crds'] = { enabled: false };
  for (const path of paths) {
    let object = values;
    for (const name of path.slice(0, -1)) {
      object[name] ??= {};
      object = object[name] as Record<string, unknown>;
    }
    object[path.at(-1) as string] = null;
  }
  return values;
}

const everything = namesOf(schema, 4);
/** What the base cannot do without. */
const needed = [
  'redis.url',
  ...['metricsFrom', 'egress.store', 'egress.apiServer'].map((name) => `networkPolicy.${name}`),
];
const isNeeded = ({ path }: Named): boolean => needed.includes(path.join('.'));
const shallow = everything.filter(({ path }) => path.length <= 2);
/** Those that have to be there are tried alone, and what is above others, which would hide them. */
const groups = Map.groupBy(shallow, ({ path, mayBeNull }) => {
  const isAlone = !mayBeNull || path.length === 1;
  return isAlone ? path.join('.') : path[0]!;
})
  .values()
  .flatMap((some) => inParts(some, 8))
  .map((some) => ({ some, names: some.map(({ path }) => path.join('.')).join(', ') }))
  .toArray();

function inParts<T>(items: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(items.length / size) }, (_, i) =>
    items.slice(i * size, (i + 1) * size),
  );
}

describeWithServer('a value that is null', helmProgram, () => {
  it('is empty if the default is, for all such values at once', { timeout: 60_000 }, () => {
    const may = everything.filter((one) => one.mayBeNull && !isNeeded(one)).map(({ path }) => path);
    expect(may.length).toBeGreaterThan(50);
    // Without a request of CPU there is nothing to scale by.
    const values = withNulls(may) as { limiter: { autoscaling: object; resources: unknown } };
    Object.assign(values.limiter, { autoscaling: { enabled: false } });
    const objects = renderChart(values as unknown as Values);
    expect(JSON.stringify(objects)).not.toContain(':null');
    const { containers, imagePullSecrets, volumes } = podOf(objects, 'limiter').spec;
    expect(imagePullSecrets).toBeUndefined();
    // Of no value that may be null.
    expect(volumes?.map(({ name }) => name)).toEqual(['xds-token']);
    expect(containers[0].env.map(({ name }) => name)).toContain('REDIS_URL');
    const install = ['install', release.name, chartFolder, '--dry-run=client'];
    expect(runHelm(install, values as unknown as Values)).toMatchObject({ status: 0, stderr: '' });
  });

  /** Renders with them alone; what is wrong, if anything is. */
  const renderWithout = (some: readonly Named[]): ChartRun =>
    tryChart(withNulls(some.map(({ path }) => path)));
  const expectNoNull = ({ stdout }: ChartRun): void =>
    expect(JSON.stringify(objectsIn(stdout))).not.toContain(':null');

  // Neighbours at once: where they are rejected together, each is tried alone.
  it.each(groups)('is empty or rejected with a message: $names', ({ some }) => {
    const together = renderWithout(some);
    if (together.status === 0) expectNoNull(together);
    else
      for (const { path, mayBeNull } of some) {
        const alone = renderWithout([{ path, mayBeNull }]);
        if (!mayBeNull) expect(alone.stderr).toContain(`missing property '${path.at(-1)}'`);
        // Of our own: "execution error at (weir/templates/checks.yaml:1:4): ...".
        else if (alone.status !== 0)
          expect(alone.stderr).toContain('execution error at (weir/templates/checks');
        else expectNoNull(alone);
      }
  });

  it('of certManager is empty', () => {
    const certManager = { enabled: true, issuerRef: { name: null } };
    const objects = renderChart({ redis: { url: 'redis:6379' }, certManager });
    expect(objects.filter(({ kind }) => kind === 'Issuer')).toHaveLength(2);
  });

  it('in global is empty', () => {
    const given = { redis: { url: 'redis:6379' }, image: { registry: null } };
    const rendered = renderChart({ ...given, global: { imageRegistry: null, imagePullSecrets: null } });
    expect(podOf(rendered, 'limiter').spec.containers[0].image).toBe('weir:0.1.0');
  });
});
