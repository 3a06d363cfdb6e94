/** YAML reads words such as `on` as other types: a name that a person chose stays a text. */
import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import { renderChart } from '../support/helm-chart.ts';

/** Values of these fields, wherever they stand. */
const nameFields = new Set([
  'name',
  'secretName',
  'namespace',
  'serviceAccountName',
  'priorityClassName',
  'key',
]);

function namesIn(value: unknown): unknown[] {
  if (Array.isArray(value)) return value.flatMap(namesIn);
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([field, below]) =>
    nameFields.has(field) && typeof below !== 'object' ? [below] : namesIn(below),
  );
}

describeWithServer('names in the chart', helmProgram, () => {
  it.each(['on', 'yes', 'null', '123', '1e3'])('stay texts: %s', (name) => {
    const objects = renderChart({
      redis: { existingSecret: name },
      fullnameOverride: 'weir',
      limiter: { priorityClassName: name, serviceAccount: { create: false, name } },
      controlPlane: { priorityClassName: name },
    });
    const names = namesIn(objects);
    expect(names.filter((one) => typeof one !== 'string')).toEqual([]);
    expect(names.filter((one) => one === name).length).toBeGreaterThanOrEqual(4);
  });

  it.each([
    ['', true],
    ['payments*=payments,platform; public=*;\n*=platform', true],
    ['a=b=c', true],
    ['payments', false],
    ['payments=', false],
    ['payments=Team_A', false],
    ['=payments', false],
    ['a=b,;c=d', false],
  ])('in domainOwners are checked by the schema: %j', (domainOwners, isAccepted) => {
    const render = () => renderChart({ redis: { url: 'redis:6379' }, controlPlane: { domainOwners } });
    if (isAccepted) expect(render).not.toThrow();
    else expect(render).toThrow(/domainOwners/);
  });
});
