/** YAML reads words such as `on` as other types: a name that a person chose stays a text. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { parseDomainOwners } from '../../control-plane/model/domain-owners.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import { chartFolder, renderChart, runHelm, type Values } from '../support/helm-chart.ts';

/** A name that YAML reads as nothing but a text, and that occurs nowhere in the chart. */
const plain = 'zz9plain';

/** Everything that a person names, in charts that together render every template. */
const charts: Readonly<Record<string, (name: string) => Values>> = {
  'with Secrets': (name) => ({
    imagePullSecrets: [name],
    redis: { existingSecret: name, authSecret: name, tls: { enabled: true, existingSecret: name } },
    limiter: {
      fleet: name,
      priorityClassName: name,
      serviceAccount: { create: false, name },
      grpcTls: { existingSecret: name },
      httpTls: { existingSecret: name },
      callers: { existingSecret: name, existingSecretKey: name },
      debugToken: { existingSecret: name, existingSecretKey: name },
      xdsTls: { enabled: true, existingSecret: name },
      xdsToken: { existingSecret: name, existingSecretKey: name },
      existingProfilesConfigMap: name,
      existingProfilesConfigMapKey: name,
    },
    controlPlane: {
      className: name,
      priorityClassName: name,
      watchNamespaces: [name],
      labelSelector: `${name}=${name}`,
      serviceAccount: { create: false, name },
      debugToken: { existingSecret: name },
      webhooks: { urlsSecret: name, signingSecret: name },
      secretLookup: { tokenSecret: name, tlsSecret: name },
      xds: { tls: { existingSecret: name }, tokensSecret: name, clientFleets: `token:${name}=${name}` },
      extraEnv: [{ name: 'LEASE_NAME', value: name }],
    },
    admission: { enabled: true, tlsSecret: name, caBundle: '-----BEGIN CERTIFICATE-----' },
    ...monitoring(name),
  }),
  'with cert-manager': (name) => ({
    redis: { url: 'redis:6379' },
    limiter: { fleet: name },
    certManager: { enabled: true, issuerRef: { name, kind: name, group: name } },
    admission: { enabled: true },
    ...monitoring(name),
  }),
  'with ConfigMaps': (name) => ({
    store: { type: 'memory', memoryPerPod: true },
    controlPlane: { enabled: false },
    limiter: {
      existingRulesConfigMap: name,
      callers: { existingConfigMap: name, existingConfigMapKey: name },
    },
    helmTest: { domain: name, descriptor: `${name}=${name}`, tokenSecret: name, tokenSecretKey: name },
    ...monitoring(name),
  }),
};

function monitoring(name: string): Values {
  return {
    commonLabels: { [name]: name },
    serviceMonitor: { enabled: true, namespace: name, labels: { [name]: name } },
    prometheusRule: { enabled: true, labels: { [name]: name } },
    dashboard: { enabled: true, labels: { [name]: name } },
    networkPolicy: { enabled: true, metricsFrom: [{ podSelector: { matchLabels: { [name]: name } } }] },
  };
}

/** All that a release of this name has, in a namespace of this name. */
function rendered(name: string, values: Values): unknown[] {
  const of = [name, chartFolder, '--namespace', name];
  const template = runHelm(['template', ...of], values);
  const install = runHelm(['install', ...of, '--dry-run=client'], values);
  if (template.status !== 0 || install.status !== 0) throw new Error(template.stderr + install.stderr);
  return [withoutFileTexts(template.stdout), manifestIn(install.stdout)].flatMap(read);
}

/** What the chart has of its files word for word, most of its text, holds no names. */
function withoutFileTexts(text: string): string {
  const specs = readdirSync(join(chartFolder, 'files')).map((file) => {
    const [, spec = ''] = readFileSync(join(chartFolder, 'files', file), 'utf8').split(/(?<=^spec:\n)/m);
    return spec.trimEnd();
  });
  return specs.reduce((rest, spec) => {
    expect(rest).toContain(spec);
    return rest.replace(spec, '');
  }, text);
}

/** As both versions of YAML read it: the API server takes `on` for a boolean as the first does, and `1e3` for a number as the second does. */
function read(text: string): unknown[] {
  return (['1.1', '1.2'] as const).flatMap((version) =>
    parseAllDocuments(text, { version }).map((document) => document.toJS() as unknown),
  );
}

/** What the notes report to apply. */
function manifestIn(notes: string): string {
  return /<<END\n(.*?)^END$/ms.exec(notes)?.[1] ?? '';
}

/** The same with another name, but for hashes. */
function renamed(value: unknown, name: string): unknown {
  const rename = (text: string): string => text.replaceAll(plain, name);
  if (typeof value === 'string') return rename(value);
  if (Array.isArray(value)) return value.map((one) => renamed(one, name));
  if (typeof value !== 'object' || value === null) return value;
  const fields = Object.entries(value).filter(([field]) => !field.startsWith('checksum/'));
  return Object.fromEntries(fields.map(([field, below]) => [rename(field), renamed(below, name)]));
}

describeWithServer('names in the chart', helmProgram, () => {
  const withPlainNames: Record<string, unknown[]> = {};

  it.each(
    Object.keys(charts).flatMap((chart) =>
      ['on', 'null', '123', '1e3'].map((name) => [chart, name] as const),
    ),
  )('stay texts, %s: %s', (chart, name) => {
    const values = charts[chart]!;
    withPlainNames[chart] ??= rendered(plain, values(plain));
    const expected = withPlainNames[chart];
    expect(JSON.stringify(expected).split(plain).length).toBeGreaterThan(50);
    expect(renamed(rendered(name, values(name)), name)).toEqual(renamed(expected, name));
  });

  it.each([
    ['', true],
    ['payments*=payments,platform; public=*;\n*=platform', true],
    ['a=b=c', true],
    ['a=b\r\n', true],
    ['\r\na*=b , c\r\n; \r\n*b=d\r\n\r\n*=e', true],
    ['a.b=c;a*b=c;a=b;a*=c;*=d', true],
    ['payments', false],
    ['payments=', false],
    ['payments=\r\n', false],
    ['payments=Team_A', false],
    ['=payments', false],
    ['a=b,;c=d', false],
    ['a=b;a=c', false],
    ['a=b=c;\r\n a=b = d', false],
    ['a*=b;a*c=d', false],
    ['a*c=b;a*b*c=d', false],
    ['*=b;a=c', false],
  ])('in domainOwners are checked as the control plane does: %j', (domainOwners, isAccepted) => {
    expect(parseDomainOwners(domainOwners, 'open').ok).toBe(isAccepted);
    const render = () => renderChart({ redis: { url: 'redis:6379' }, controlPlane: { domainOwners } });
    if (isAccepted) expect(render).not.toThrow();
    else expect(render).toThrow(/domainOwners/);
  });
});
