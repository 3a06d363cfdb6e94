/** What quota clients get of a real limiter: by whose rights, by which rules, within which bounds, and what is counted of it. */
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { QuotaClient } from '../support/quota-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const perDay = (requests: number): string => `rate_limit: { requests_per_unit: ${requests}, unit: day }`;
const rules = `domain: edge
descriptors:
  - key: name
    ${perDay(86_400_000)}
  - key: name
    value: shadow
    shadow_mode: true
    ${perDay(1)}
  - key: name
    value: none
    ${perDay(0)}
  - key: name
    value: free
    rate_limit: { unlimited: true }
  - key: name
    value: tokens
    rate_limit: { requests_per_unit: 5, unit: day, hits_unit: tokens }
  - key: name
    value: several
    rate_limits:
      - { requests_per_unit: 7, unit: minute }
      - { name: long, requests_per_unit: 1000, unit: hour }
  - key: b
    descriptors: [{ key: a, ${perDay(0)} }]
  - key: a
    descriptors: [{ key: b, ${perDay(86_400_000)} }]
`;

async function serve(env: Record<string, string> = {}, callers?: string): Promise<InProcessLimiter> {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/edge.yaml'), rules);
  const callersFile = join(folder, 'callers.yaml');
  if (callers !== undefined) writeFileSync(callersFile, callers);
  const limiter = await InProcessLimiter.start({
    env: {
      ...{ RUNTIME_ROOT: folder, RLQS: 'true' },
      ...(callers !== undefined && { CALLERS_FILE: callersFile }),
      ...env,
    },
  });
  onTestFinished(async () => void (await limiter.stop()));
  return limiter;
}

function clientOf({ ports }: InProcessLimiter, metadata?: Record<string, string>): QuotaClient {
  const client = new QuotaClient(ports.grpc, metadata);
  onTestFinished(() => client.close());
  return client;
}

/** The last answer for a bucket, of those that came from now on: `allow`, `deny`, `abandoned`, or a number of tokens. */
async function answerFor(client: QuotaClient, bucket: string, wanted: string | RegExp): Promise<void> {
  await eventually(() =>
    expect(client.answers.findLast((answer) => answer.startsWith(`${bucket} `))).toMatch(
      typeof wanted === 'string' ? `${bucket} ${wanted}` : wanted,
    ),
  );
}

const tokens = / [1-9]\d*$/;

describe('quota clients', () => {
  it('get what the rules say, whatever the order of their entries', async () => {
    const limiter = await serve();
    const client = clientOf(limiter);
    const names = ['x', 'shadow', 'none', 'free', 'tokens', 'several'].map((name) => `name=${name}`);
    const buckets = [...names, 'b=1,a=1', 'b=1', 'other=1'];
    client.report('edge', Object.fromEntries(buckets.map((bucket) => [bucket, { denied: 1 }])));
    await answerFor(client, 'name=x', tokens);
    for (const [bucket, answer] of [
      ['name=shadow', 'allow'],
      ['name=none', 'deny'],
      ['name=free', 'allow'],
      ['name=tokens', 'deny'],
      // Of two rules that match in some order the first one in the file; of one entry alone none. Answers have entries by their keys.
      ['a=1,b=1', 'deny'],
      ['b=1', 'allow'],
      ['other=1', 'allow'],
    ] as const)
      await answerFor(client, bucket, answer);
    await answerFor(client, 'name=several', / [1-7]$/);
    const lines = limiter.lines.join('\n');
    expect(lines).toContain('Rules cannot be assigned to quota clients');
    expect(lines).toContain('A rule cannot be assigned to quota clients');
  });

  it('may use the domains that their caller may ask about', async () => {
    const secret = 'c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLW5vdC1yYW5k';
    const hash = createHash('sha256').update(secret).digest('hex');
    const entry = (name: string, domain: string, right: string): string =>
      `  - { name: ${name}, token_sha256: ${hash}, domains: [${domain}], rights: [${right}] }\n`;
    const limiter = await serve(
      { RLQS_MAX_BUCKETS_OF_CALLER: '1' },
      `callers:\n${entry('proxy', 'edge', 'ask')}${entry('other', 'shop', 'ask')}${entry('reader', 'edge', 'read')}`,
    );
    const ended = (metadata?: Record<string, string>): Promise<string> => {
      const client = clientOf(limiter, metadata);
      client.report('edge', { 'name=x': { denied: 1 } });
      return client.ended;
    };
    const as = (name: string) => ({ authorization: `Bearer ${name}.${secret}` });
    expect(await ended()).toMatch(/^UNAUTHENTICATED /);
    expect(await ended(as('other'))).toBe('PERMISSION_DENIED caller other may not use the domain "edge"');
    expect(await ended(as('reader'))).toBe('PERMISSION_DENIED caller reader does not have the right ask');
    const proxy = clientOf(limiter, as('proxy'));
    proxy.report('edge', { 'name=x': { denied: 1 } });
    await answerFor(proxy, 'name=x', tokens);
    // Its one bucket is of the other stream.
    const second = clientOf(limiter, as('proxy'));
    second.report('edge', { 'name=y': { denied: 1 } });
    await answerFor(second, 'name=y', 'deny');
    expect((await limiter.stats()).get('ratelimit.quota.denied_buckets.__bound=caller')).toBe(1);
  });

  it('have streams and buckets within bounds, and lose those that are idle', async () => {
    const limiter = await serve({
      ...{ RLQS_MAX_STREAMS: '1', RLQS_MAX_BUCKETS_OF_STREAM: '2', RLQS_IDLE_REPORTS: '2' },
    });
    const client = clientOf(limiter);
    client.report('edge', { 'name=x': { denied: 1 }, 'name=y': { denied: 1 } });
    await answerFor(client, 'name=y', tokens);
    client.report('edge', { 'name=z': { denied: 1 } });
    await answerFor(client, 'name=z', 'deny');
    const refused = clientOf(limiter);
    refused.report('edge', { 'name=x': { denied: 1 } });
    expect(await refused.ended).toBe('RESOURCE_EXHAUSTED too many streams (RLQS_MAX_STREAMS)');
    for (let report = 0; report < 2; report++) client.report('edge', { 'name=x': {} });
    await answerFor(client, 'name=x', 'abandoned');
    // Its room is the next one's.
    client.report('edge', { 'name=z': { denied: 1 } });
    await answerFor(client, 'name=z', tokens);
    const stats = await limiter.stats();
    expect({
      denied: stats.get('ratelimit.quota.denied_buckets.__bound=stream'),
      streams: stats.get('ratelimit.quota.refused_streams.__reason=streams'),
      abandoned: stats.get('ratelimit.quota.abandoned'),
      open: [stats.get('ratelimit.quota.streams'), stats.get('ratelimit.quota.buckets')],
    }).toEqual({ denied: 1, streams: 1, abandoned: 1, open: [1, 2] });
  });

  it('have their requests in the statistics of the rule, including those over limit', async () => {
    const limiter = await serve();
    const client = clientOf(limiter);
    client.report('edge', { 'name=x': { denied: 1 }, 'name=none': { denied: 4 } });
    await answerFor(client, 'name=x', tokens);
    client.report('edge', { 'name=x': { allowed: 3, denied: 2 }, 'name=shadow': { allowed: 5 } });
    const ruleStats = async (rule: string): Promise<Record<string, number>> => {
      const stats = await limiter.stats();
      const names = ['total_hits', 'within_limit', 'passed', 'over_limit', 'limited'];
      const prefix = `ratelimit.service.rate_limit.edge.${rule}`;
      return Object.fromEntries(names.map((name) => [name, stats.get(`${prefix}.${name}`) ?? 0]));
    };
    await eventually(async () =>
      expect(await ruleStats('name')).toEqual({
        ...{ total_hits: 6, within_limit: 3, passed: 3, over_limit: 3, limited: 3 },
      }),
    );
    expect(await ruleStats('name_none')).toEqual({
      ...{ total_hits: 4, within_limit: 0, passed: 0, over_limit: 4, limited: 4 },
    });
    // Shadow mode: what is beyond the limit of 1 is over it, and passes.
    expect(await ruleStats('name_shadow')).toMatchObject({ total_hits: 5, over_limit: 4, limited: 0 });
  });

  it('follow overrides, and what a reset counter has free again', async () => {
    const limiter = await serve();
    const client = clientOf(limiter);
    client.report('edge', { 'name=x': { denied: 1 } });
    await answerFor(client, 'name=x', tokens);
    const change = async (method: string, path: string, body?: object): Promise<string> => {
      const answer = await httpAsk(limiter.ports.debug, path, {
        method,
        ...(body && { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
      });
      expect([answer.status < 300, answer.body]).toEqual([true, answer.body]);
      return answer.body;
    };
    const key = 'domain=edge&entry=name%3Dx';
    const usedNow = async (): Promise<number> =>
      JSON.parse((await httpAsk(limiter.ports.debug, `/v1/counters?${key}`)).body).counters[0].used;
    const granted = Number(client.answers.at(-1)!.split(' ')[1]);
    client.report('edge', { 'name=x': { allowed: granted } });
    await eventually(async () => expect(await usedNow()).toBeGreaterThan(2 * granted));
    const before = await usedNow();
    await change('DELETE', `/v1/counters?${key}`);
    // What it may still use is charged again; what it used is not.
    await eventually(async () => {
      const after = await usedNow();
      expect([after > 0, after <= before - granted]).toEqual([true, true]);
    });
    const override = { domain: 'edge', match: [{ key: 'name', value: 'x' }], reason: 'test' };
    await change('POST', '/v1/overrides', { ...override, id: 'o', permanent: true, block: true });
    await answerFor(client, 'name=x', 'deny');
    await change('DELETE', '/v1/overrides?id=o');
    await answerFor(client, 'name=x', tokens);
    // Shadow mode ends as soon: nothing is allowed until the next report that the limit does not cover.
    const shadow = { ...override, match: [{ key: 'name', value: 'y' }] };
    await change('POST', '/v1/overrides', { ...shadow, id: 's', permanent: true, shadow: true });
    client.report('edge', { 'name=y': { denied: 1 } });
    await answerFor(client, 'name=y', 'allow');
    await change('DELETE', '/v1/overrides?id=s');
    await answerFor(client, 'name=y', tokens);
  });
});

describeWithServer('quota clients over TLS', opensslProgram, (openssl) => {
  it('get assignments as over plain connections', async () => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const server = authority.issue({ name: 'server', alternativeNames: 'DNS:localhost' });
    const limiter = await serve({
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: server.certFile,
      GRPC_SERVER_TLS_KEY: server.keyFile,
    });
    const channel = credentials.createSsl(readFileSync(authority.caFile));
    const client = new QuotaClient(limiter.ports.grpc, {}, channel);
    onTestFinished(() => client.close());
    client.report('edge', { 'name=x': { denied: 1 } });
    await answerFor(client, 'name=x', tokens);
  });
});
