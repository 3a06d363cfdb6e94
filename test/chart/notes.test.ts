/** What `helm install` prints for values that its commands have to heed. */
import { expect, it } from 'vitest';
import { readManifests } from '../../rules/reader/read-manifests.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import { chartNotes, type Values } from '../support/helm-chart.ts';

const redis = { url: 'redis:6379' };
const rule = (own: object) => ({ key: 'k', rate_limit: { unit: 'minute', requests_per_unit: 3 }, ...own });

function notesOf(rules: Values): string {
  return chartNotes({ redis, controlPlane: { enabled: false }, limiter: { rules } });
}

function manifestOf(notes: string): string {
  return /<<END\n(.*?)^END$/ms.exec(notes)?.[1] ?? '';
}

describeWithServer('the notes of the chart', helmProgram, () => {
  it('end in a loop that takes twice the limit and one at most', () => {
    expect(chartNotes({ redis })).toContain('  for i in $(seq 7); do code=');
    const two = notesOf({ 'a.yaml': { domain: 'a', descriptors: [rule({ rate_limit: limit(2) })] } });
    expect(two).toContain('  for i in $(seq 5); do code=');
  });

  it.each([
    ['is unlimited', rule({ rate_limit: { unlimited: true } })],
    ['is in shadow mode', rule({ shadow_mode: true })],
    ['is in quota mode', rule({ quota_mode: true })],
    ['has no limit', { key: 'k' }],
    ['has a limit a second', rule({ rate_limit: { unit: 'second', requests_per_unit: 3 } })],
    ['has a limit of thousands', rule({ rate_limit: limit(5000) })],
  ])('pass over a rule that %s', (_, first) => {
    const second = rule({ key: 'path', value: '/a/*' });
    const chosen = notesOf({ 'a.yaml': { domain: 'a', descriptors: [first, second] } });
    expect(chosen).toContain('{"entries":[{"key":"path","value":"/a/you"}]}');
    const none = notesOf({ 'a.yaml': { domain: 'a', descriptors: [first] } });
    expect(none).not.toContain('for i in');
    expect(none.trim().split('\n').at(-1)).toMatch(/^ {2}curl -i .*"domain":"DOMAIN"/);
  });

  it('warn of a cluster that keeps no reservations', () => {
    const cluster = { type: 'CLUSTER', url: 'a:6379,b:6379' };
    const compatible = { counterKeys: 'compatible' };
    const warning = 'WARNING: a Redis Cluster with store.counterKeys=compatible keeps no reservations.';
    expect(chartNotes({ redis: cluster, store: compatible })).toContain(warning);
    const perSecond = { enabled: true, ...cluster };
    expect(chartNotes({ redis: { ...redis, perSecond }, store: compatible })).toContain(warning);
    expect(chartNotes({ redis: cluster })).not.toContain(warning);
    expect(
      chartNotes({ redis: { ...redis, perSecond: { type: 'CLUSTER' } }, store: compatible }),
    ).not.toContain(warning);
  });

  it('name no rule if there is a domain alone', () => {
    expect(notesOf({ 'a.yaml': 'domain: a' })).toContain('"domain":"DOMAIN"');
  });

  it('ask for a rule below others with all of its entries', () => {
    const below = { key: 'a', value: 1, descriptors: [{ key: 'b' }, rule({ value: 'x*' })] };
    const notes = notesOf({ 'a.yaml': { domain: 'a', descriptors: [{ key: 'z' }, below] } });
    expect(notes).toContain('"entries":[{"key":"a","value":"1"},{"key":"k","value":"xyou"}]');
  });

  it('say that rules limit nothing, or nothing soon', () => {
    const note = '\nNo rule is over limit after a few requests: ';
    const large = rule({ rate_limit: limit(5000) });
    expect(notesOf({ 'a.yaml': { domain: 'a', descriptors: [large] } })).toContain(note);
    expect(notesOf({ 'a.yaml': 'domain: a' })).toContain(note);
    expect(notesOf({ 'a.yaml': { domain: 'a', descriptors: [rule({})] } })).not.toContain(note);
  });

  it('pass over rules that are of another shape', () => {
    const wrong = ['a', { key: 'b', rate_limit: 'c' }, { key: 'd', rate_limit: { unit: 3 } }];
    const notes = notesOf({ 'a.yaml': { domain: 'a', descriptors: [...wrong, rule({})] } });
    expect(notes).toContain('"entries":[{"key":"k","value":"you"}]');
  });

  it('give the example the labels of the selector', () => {
    const notes = chartNotes({ redis, controlPlane: { labelSelector: 'team=a, tier==b' } });
    const text = manifestOf(notes);
    expect(readManifests(text, 'notes').errors).toEqual([]);
    expect(text).toContain('  labels:\n    team: a\n    tier: b\n');
    expect(notes).not.toContain('controlPlane.labelSelector');
  });

  it('give the example the class of the control plane, if it is not the default', () => {
    const text = manifestOf(chartNotes({ redis, controlPlane: { className: 'edge' } }));
    expect(readManifests(text, 'notes').errors).toEqual([]);
    expect(text).toContain('spec:\n  className: "edge"\n  fleet: "default"\n');
    expect(manifestOf(chartNotes({ redis }))).not.toContain('className');
  });

  it('say that the example needs labels, if the selector does not say which', () => {
    const notes = chartNotes({ redis, controlPlane: { labelSelector: 'team=a,tier in (edge,core)' } });
    expect(notes).toContain('labels that match controlPlane.labelSelector: team=a,tier in (edge,core)');
    expect(manifestOf(notes)).not.toContain('labels:');
  });

  it('say that the domain of the example must be allowed', () => {
    const notes = chartNotes({ redis, controlPlane: { domainOwners: 'shop*=shop' } });
    expect(notes).toContain(
      'controlPlane.domainOwners has to assign the domain weir-example to the namespace weir-system',
    );
    expect(chartNotes({ redis })).not.toContain('controlPlane.domainOwners has');
    const claimed = chartNotes({ redis, controlPlane: { domainOwnership: 'claimed' } });
    expect(claimed).toContain(
      'controlPlane.domainOwners has to assign the domain weir-example to the namespace weir-system',
    );
  });

  it.each([
    [{}, true],
    [{ domainOwners: 'shop*=shop' }, true],
    [{ domainOwners: 'shop*=shop; * = platform' }, false],
    [{ domainOwnership: 'claimed' }, false],
    [{ enabled: false }, false],
  ])('warn that domains are free for all, if they are: %j', (controlPlane, isWarned) => {
    const rules =
      'enabled' in controlPlane
        ? { limiter: { rules: { 'a.yaml': { domain: 'a', descriptors: [rule({})] } } } }
        : {};
    expect(chartNotes({ redis, controlPlane, ...rules }).includes('WARNING: anyone who may write')).toBe(
      isWarned,
    );
  });

  it('say how to ask over TLS', () => {
    const tls = (grpcTls: object) => chartNotes({ redis, limiter: { grpcTls } });
    const own = '--grpc-cert-file <certificate> --grpc-key-file <key>';
    const asked = tls({ existingSecret: 'grpc' });
    expect(asked).toContain('Configure your proxies to ask over gRPC, with TLS:');
    expect(asked).toContain('get secret grpc -o jsonpath');
    expect(asked).toContain('--grpc-use-tls --grpc-server-ca-file ca.crt');
    expect(asked).not.toContain(own);
    expect(tls({ existingSecret: 'grpc', clientCa: true })).toContain(own);
    expect(chartNotes({ redis })).not.toContain('--grpc-use-tls');
  });

  it('say how to ask over HTTP with TLS, and by a token', () => {
    const asked = (limiter: object) => chartNotes({ redis, limiter }).trim().split('\n').at(-1);
    const existingSecret = 'http';
    expect(asked({})).toContain("-w '%{http_code}' http://localhost:8080/json -d");
    expect(asked({ httpTls: { existingSecret } })).toContain(
      "' --cacert ca.crt https://localhost:8080/json -d",
    );
    expect(asked({ httpTls: { existingSecret, clientCa: true } })).toContain(
      ' --cacert ca.crt --cert <certificate> --key <key> https://localhost:8080/json -d',
    );
    const callers = { existingSecret: 'callers' };
    expect(asked({ callers })).toContain(
      '-H "Authorization: Bearer $(cat token)" http://localhost:8080/json',
    );
    expect(chartNotes({ redis, limiter: { callers } })).toContain(
      'Only the callers in limiter.callers get an answer',
    );
    const tls = chartNotes({
      redis,
      limiter: { callers, grpcTls: { existingSecret }, httpTls: { existingSecret } },
    });
    expect(tls).toContain('get secret http -o jsonpath');
    expect(tls).toContain('--grpc-server-ca-file ca.crt --token-file <token> <domain> <key>=');
  });

  it('have no example for limiters of a control plane elsewhere', () => {
    const away = { controlPlane: { enabled: false }, limiter: { xdsAddress: 'weir.other.svc:18000' } };
    expect(chartNotes({ redis, ...away })).not.toMatch(/weir-example|for i in/);
  });
});

function limit(requests: number): object {
  return { unit: 'minute', requests_per_unit: requests };
}
