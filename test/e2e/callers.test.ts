/** Who may ask what: CALLERS_FILE, TLS of the HTTP listener and the token of the debug listener, by real callers. */
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import {
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { HealthCheckRequestSchema } from '../../gen/grpc/health/v1/health_pb.ts';
import { ServerReflectionRequestSchema } from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import { type CertificatePair, createAuthority, type TestAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram, redisProgram } from '../support/find-server.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { machineLoad } from '../support/machine-load.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const secret = 'c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLW5vdC1yYW5k';
const sha256 = createHash('sha256').update(secret).digest('hex');
const tokenOf = (name: string): string => `Bearer ${name}.${secret}`;
const spiffe = 'spiffe://prod.example/ns/edge/sa/envoy';

const running: InProcessLimiter[] = [];
afterEach(() => Promise.all(running.splice(0).map((limiter) => limiter.stop())));

interface Fixture {
  limiter: InProcessLimiter;
  /** Puts another file in its place, as anyone who writes it with care does. */
  write(callers: string): void;
}

async function start(callers: string, env: Record<string, string> = {}): Promise<Fixture> {
  const folder = temporaryFolder();
  const file = join(folder, 'callers.yaml');
  const write = (text: string): void => {
    writeFileSync(`${file}.new`, text);
    renameSync(`${file}.new`, file);
  };
  write(callers);
  const limiter = await InProcessLimiter.start({
    env: {
      ...{ RUNTIME_ROOT: folder, CALLERS_FILE: file },
      ...env,
    },
  });
  running.push(limiter);
  return { limiter, write };
}

type Question = MessageInitShape<typeof RateLimitRequestSchema>;

const about = (domain: string): Question => ({
  domain,
  descriptors: [{ entries: [{ key: 'k', value: 'v' }] }],
});

/** A caller with one connection. */
class Caller {
  readonly #client: Client;

  constructor(port: number, pair?: CertificatePair, authority?: TestAuthority) {
    const read = (path: string): Buffer => readFileSync(path);
    this.#client = new Client(
      `localhost:${port}`,
      authority === undefined
        ? credentials.createInsecure()
        : credentials.createSsl(
            read(authority.caFile),
            pair ? read(pair.keyFile) : null,
            pair ? read(pair.certFile) : null,
          ),
      { 'grpc.use_local_subchannel_pool': 1 },
    );
    onTestFinished(() => this.#client.close());
  }

  /** `OK`, or the status and its message. */
  ask(question: Question, authorization?: string): Promise<string> {
    const bytes = toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, question));
    return this.call('/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit', bytes, authorization);
  }

  call(path: string, bytes: Uint8Array, authorization?: string): Promise<string> {
    return this.bytes(path, bytes, authorization).then(
      () => 'OK',
      ({ code, details }: ServiceError) => `${code} ${details}`,
    );
  }

  /** The answer; rejects with the status. */
  bytes(path: string, bytes: Uint8Array, authorization?: string): Promise<Uint8Array> {
    const metadata = new Metadata();
    if (authorization !== undefined) metadata.set('authorization', authorization);
    const pass = (buffer: Uint8Array): Buffer => Buffer.from(buffer);
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        path,
        pass,
        pass,
        bytes,
        metadata,
        { deadline: Date.now() + 20_000 * machineLoad() },
        (error: ServiceError | null, answer?: Buffer) => (error ? reject(error) : resolve(answer!)),
      );
    });
  }

  /** The first answer, as text. */
  reflect(question: Uint8Array): Promise<string> {
    const pass = (buffer: Uint8Array): Buffer => Buffer.from(buffer);
    const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
    const stream = this.#client.makeBidiStreamRequest(path, pass, pass, new Metadata(), {
      deadline: Date.now() + 20_000 * machineLoad(),
    });
    return new Promise((resolve, reject) => {
      stream.on('data', (answer: Buffer) => resolve(answer.toString('latin1')));
      stream.on('error', reject);
      stream.write(question);
      stream.end();
    });
  }
}

const unknownToken = '16 the token does not belong to a caller';

const byToken = `callers:
  - name: shop
    token_sha256: ${sha256}
    domains: [shop, pay-*]
  - name: ops
    token_sha256: [${'0'.repeat(64)}, ${sha256}]
    domains: ['*']
    rights: [ask, refund, override]
`;

describe('a token', () => {
  it('identifies callers over gRPC', async () => {
    const { limiter } = await start(byToken);
    const caller = new Caller(limiter.ports.grpc);
    expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe('OK');
    expect(await caller.ask(about('pay-eu'), tokenOf('shop'))).toBe('OK');
    expect(await caller.ask(about('bank'), tokenOf('shop'))).toBe(
      '7 caller shop may not use the domain "bank"',
    );
    expect(await caller.ask(about('bank'), tokenOf('ops'))).toBe('OK');
    for (const authorization of [
      tokenOf('nobody'),
      'Bearer shop.wrong',
      `Bearer ${secret}`,
      `Basic ${secret}`,
      `Bearer shop.${'x'.repeat(4_000)}`,
    ]) {
      expect(await caller.ask(about('shop'), authorization)).toBe(unknownToken);
    }
    expect(await caller.ask(about('shop'))).toBe(
      '16 the request has neither a token nor a client certificate of a caller',
    );
    expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe('OK');
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.callers.refused.__caller=unknown.__reason=unauthenticated')).toBe(6);
    expect(stats.get('ratelimit.callers.unknown_tokens')).toBe(5);
    expect(stats.get('ratelimit.callers.refused.__caller=shop.__reason=permission_denied')).toBe(1);
    expect(stats.get('ratelimit.callers.refused.__caller=ops.__reason=permission_denied')).toBe(0);
    expect(limiter.lines.filter((line) => line.includes('because of its caller'))).toEqual([
      expect.stringMatching(
        /^level=warning msg="Rejected a request because of its caller" caller=shop peer="\S+" counter=permission_denied reason=.* times=1$/,
      ),
      expect.stringMatching(/caller=unknown peer="\S+" counter=unauthenticated .* times=1$/),
    ]);
    expect(limiter.lines.join()).not.toContain(secret);
  });

  it('gives its rights and no others, before anything is counted', async () => {
    const { limiter } = await start(byToken);
    const caller = new Caller(limiter.ports.grpc);
    const refund: Question = {
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'k', value: 'v' }], isNegativeHits: true }],
    };
    const override: Question = {
      domain: 'shop',
      descriptors: [{ entries: [{ key: 'k', value: 'v' }], limit: { requestsPerUnit: 1, unit: 1 } }],
    };
    expect([await caller.ask(refund, tokenOf('shop')), await caller.ask(refund, tokenOf('ops'))]).toEqual([
      '7 caller shop does not have the right refund',
      'OK',
    ]);
    expect([await caller.ask(override, tokenOf('shop')), await caller.ask(override, tokenOf('ops'))]).toEqual(
      ['7 caller shop does not have the right override', 'OK'],
    );
    const counted = (await limiter.stats()).get('ratelimit.service.rate_limit.shop.domain_not_found');
    expect(counted).toBe(2);
  });

  it('identifies callers over /json, and answers health to every caller', async () => {
    const { limiter } = await start(byToken);
    const ask = (domain: string, authorization?: string): Promise<HttpAnswer> =>
      httpAsk(limiter.ports.http, `/json`, {
        method: 'POST',
        headers: authorization === undefined ? {} : { authorization },
        body: JSON.stringify({ domain, descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] }),
      });
    const good = await ask('shop', tokenOf('shop'));
    expect(good.status).toBe(200);
    const denied = await ask('bank', tokenOf('shop'));
    expect([denied.status, denied.headers['weir-error']]).toEqual([
      403,
      'caller shop may not use the domain "bank"',
    ]);
    const unknown = await ask('shop', 'Bearer shop.no');
    expect([unknown.status, unknown.headers['www-authenticate']]).toEqual([
      401,
      'Bearer error="invalid_token"',
    ]);
    expect((await ask('shop')).headers['www-authenticate']).toBe('Bearer');
    expect((await httpAsk(limiter.ports.http, '/livez')).status).toBe(200);
    expect(await limiter.healthStatus()).toBe(200);
    const health = toBinary(HealthCheckRequestSchema, create(HealthCheckRequestSchema, {}));
    const caller = new Caller(limiter.ports.grpc);
    expect(await caller.call('/grpc.health.v1.Health/Check', health)).toBe('OK');
    expect(await caller.call('/grpc.health.v1.Health/List', health)).toBe('OK');
  });

  it('is not required by reflection, which is for every caller if it is enabled', async () => {
    const { limiter } = await start(byToken, { GRPC_REFLECTION: 'true' });
    const caller = new Caller(limiter.ports.grpc);
    const question = create(ServerReflectionRequestSchema, {
      messageRequest: { case: 'listServices', value: '' },
    });
    const services = await caller.reflect(toBinary(ServerReflectionRequestSchema, question));
    expect(services).toContain('envoy.service.ratelimit.v3.RateLimitService');
    expect(await caller.ask(about('shop'))).toBe(
      '16 the request has neither a token nor a client certificate of a caller',
    );
  });

  it('ends with its line in the file, on connections that are open', async () => {
    const { limiter, write } = await start(byToken);
    const caller = new Caller(limiter.ports.grpc);
    expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe('OK');
    write(byToken.replace(/ {2}- name: shop(.|\n)*(?= {2}- name: ops)/, ''));
    await eventually(async () => {
      expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe(unknownToken);
    });
    expect(await caller.ask(about('shop'), tokenOf('ops'))).toBe('OK');

    write('callers: [{ name: x }]');
    await eventually(async () => {
      expect((await limiter.stats()).get('ratelimit.callers.load_failed')).toBe(1);
    });
    expect(limiter.lines.at(-1)).toContain(
      'level=error msg="The callers file cannot be used: the last valid one stays in force"',
    );
    expect(await caller.ask(about('shop'), tokenOf('ops'))).toBe('OK');
    write(byToken);
    await eventually(async () => {
      expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe('OK');
    });
    const stats = await limiter.stats();
    expect([stats.get('ratelimit.callers.load_failed'), stats.get('ratelimit.callers.entries')]).toEqual([
      0, 2,
    ]);
  });
});

describe('tokens on a listener without TLS', () => {
  const warned = ({ lines }: InProcessLimiter): string[] =>
    lines.filter((line) => line.includes('can read tokens of callers'));
  const open = { GRPC_HOST: '0.0.0.0', HOST: '0.0.0.0' };

  it('are warned of once for each listener, from the first file that has some', async () => {
    const { limiter, write } = await start('callers: [{ anonymous: true, domains: [a] }]', open);
    expect(warned(limiter)).toEqual([]);
    const both = ['gRPC', 'HTTP'].map((listener) =>
      expect.stringMatching(
        `^level=warning .* listener=${listener} address="0.0.0.0:\\d+" setting=${listener === 'gRPC' ? 'GRPC' : 'HTTP'}_SERVER_USE_TLS$`,
      ),
    );
    write(byToken);
    await eventually(async () => {
      expect((await limiter.stats()).get('ratelimit.callers.entries')).toBe(2);
    });
    expect(warned(limiter)).toEqual(both);
    write(byToken.replace(/ {2}- name: ops(.|\n)*/, ''));
    await eventually(async () => expect((await limiter.stats()).get('ratelimit.callers.entries')).toBe(1));
    expect(warned(limiter)).toEqual(both);
  });

  it('are not if no other program can read them', async () => {
    expect(warned((await start(byToken)).limiter)).toEqual([]);
    const socket = { GRPC_UDS: join(temporaryFolder(), 'grpc.sock') };
    const { limiter } = await start(byToken, { ...open, ...socket });
    expect(warned(limiter)).toEqual([expect.stringContaining('listener=HTTP')]);
  });
});

describe('the order', () => {
  it('is identity, rights, bounds', async () => {
    const { limiter } = await start(byToken, { REQUEST_MAX_DESCRIPTORS: '2' });
    const caller = new Caller(limiter.ports.grpc);
    const crowded = (domain: string): Question => ({
      domain,
      descriptors: Array.from({ length: 3 }, () => ({ entries: [{ key: 'k', value: 'v' }] })),
    });
    expect(await caller.ask(crowded('shop'))).toBe(
      '16 the request has neither a token nor a client certificate of a caller',
    );
    expect(await caller.ask(crowded('shop'), tokenOf('shop'))).toBe('OK');
    expect(await caller.ask(crowded('bank'), tokenOf('shop'))).toMatch(/^7 /);
    const stats = await limiter.stats();
    const tooLarge = 'ratelimit.service.call.should_rate_limit.too_large.__bound=REQUEST_MAX_DESCRIPTORS';
    expect(stats.get(tooLarge)).toBe(1);
    expect(stats.get('ratelimit.callers.refused.__caller=shop.__reason=permission_denied')).toBe(1);
  });
});

describe('without a file', () => {
  it('no caller is identified, whatever it shows', async () => {
    const { limiter } = await start(byToken, { CALLERS_FILE: '' });
    const caller = new Caller(limiter.ports.grpc);
    expect(await caller.ask(about('shop'))).toBe('OK');
    expect(await caller.ask(about('shop'), 'Bearer what.ever')).toBe('OK');
    const headers = { authorization: 'Basic no' };
    const body = '{"domain":"shop","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}';
    expect((await httpAsk(limiter.ports.http, '/json', { method: 'POST', headers, body })).status).toBe(200);
    const names = [...(await limiter.stats()).keys()];
    expect(names.filter((name) => name.startsWith('ratelimit.callers.'))).toEqual([]);
  });
});

describe('a rate', () => {
  const limited = (rate: number): string => `callers:
  - { name: one, token_sha256: ${sha256}, domains: [a], requests_per_second: ${rate} }
  - { name: two, token_sha256: ${sha256}, domains: [a] }
`;

  it('rejects what is above it, of this caller alone', async () => {
    const { limiter } = await start(limited(2));
    const caller = new Caller(limiter.ports.grpc);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => caller.ask(about('a'), tokenOf('one'))),
    );
    const refused = '8 caller one asks more than 2 times a second (requests_per_second)';
    expect(new Set(answers)).toEqual(new Set(['OK', refused]));
    expect(await caller.ask(about('a'), tokenOf('two'))).toBe('OK');
    let answer: HttpAnswer;
    do {
      answer = await httpAsk(limiter.ports.http, '/json', { headers: { authorization: tokenOf('one') } });
    } while (answer.status !== 503);
    expect(answer.headers['retry-after']).toBe('1');
  });

  describe('with on_excess: over_limit', () => {
    const file = limited(1).replace('second: 1 }', 'second: 1, on_excess: over_limit }');
    const rls = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit';
    const kuadrant = '/kuadrant.service.ratelimit.v1.RateLimitService/';
    const bytes = toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, about('a')));
    const headers = { authorization: tokenOf('one'), 'content-type': 'application/json' };
    const profiles = `profiles:
  shop: { domain: a, refusedStatus: 403, rate_limits: [{ actions: [{ remote_address: {} }] }] }
`;

    /** Each request of it is beyond the rate, because the caller used up a second's before and none is waited for. */
    async function exhausted(env: Record<string, string> = {}): Promise<Fixture & { caller: Caller }> {
      const profilesFile = join(temporaryFolder(), 'profiles.yaml');
      writeFileSync(profilesFile, profiles);
      const fixture = await start(file, { PROFILES_FILE: profilesFile, ...env });
      return { ...fixture, caller: new Caller(fixture.limiter.ports.grpc) };
    }

    /** The first answer that `isExcess` takes for one beyond the rate: each second one other is let in. */
    async function firstExcess<Answer>(
      ask: () => Promise<Answer>,
      isExcess: (answer: Answer) => boolean,
    ): Promise<Answer> {
      for (let tries = 0; tries < 20; tries++) {
        const answer = await ask();
        if (isExcess(answer)) return answer;
      }
      throw new Error('no request was beyond the rate');
    }

    it('is over limit over gRPC', async () => {
      const { limiter, caller } = await exhausted();
      for (const path of [rls, `${kuadrant}CheckRateLimit`]) {
        const ask = async () =>
          fromBinary(RateLimitResponseSchema, await caller.bytes(path, bytes, tokenOf('one')));
        const answer = await firstExcess(ask, ({ overallCode }) => overallCode === 2);
        expect(answer.responseHeadersToAdd.map(({ key, value }) => [key, value])).toEqual([
          ['Retry-After', '1'],
        ]);
        expect(answer.statuses).toEqual([]);
      }
      expect(await caller.ask(about('a'), tokenOf('two'))).toBe('OK');
      const stats = await limiter.stats();
      expect(stats.get('ratelimit.callers.refused.__caller=one.__reason=over_rate')).toBe(2);
      expect(limiter.lines.join()).toContain('counter=over_rate');
      const error = '8 caller one asks more than 1 times a second (requests_per_second)';
      const report = () => caller.call(`${kuadrant}Report`, bytes, tokenOf('one'));
      expect(await firstExcess(report, (answer) => answer.startsWith('8 '))).toBe(error);
    });

    it('is 429 over HTTP, whatever the body, and what the profile says for another proxy', async () => {
      const { limiter } = await exhausted();
      const post = (path: string, body: string) => () =>
        httpAsk(limiter.ports.http, path, { method: 'POST', headers, body });
      const long = JSON.stringify('x'.repeat(200_000));
      for (const body of ['{', long]) {
        const json = await firstExcess(post('/json', body), ({ status }) => status === 429);
        expect([json.headers['retry-after'], JSON.parse(json.body)]).toMatchObject([
          '1',
          { overallCode: 'OVER_LIMIT' },
        ]);
        const check = await firstExcess(post('/v1/check', body), ({ status }) => status === 429);
        const { 'retry-after': after, 'weir-error': reason } = check.headers;
        expect([after, reason, JSON.parse(check.body)]).toEqual([
          '1',
          'caller one asks more than 1 times a second (requests_per_second)',
          { code: 'OVER_LIMIT', descriptors: [] },
        ]);
      }
      const forwarded = await firstExcess(
        () => httpAsk(limiter.ports.http, '/v1/forward-auth/shop', { headers }),
        ({ status }) => status === 403,
      );
      expect([forwarded.headers['x-weir-refused'], forwarded.headers['retry-after']]).toEqual([
        'requests_per_second',
        '1',
      ]);
      const settled = await firstExcess(post('/v1/commit', '{}'), ({ status }) => status === 503);
      expect(settled.headers['retry-after']).toBe('1');
      const stats = await limiter.stats();
      expect(stats.get('ratelimit.forward_auth.requests.__answer=refused')).toBe(1);
    });

    it('passes with SHADOW_MODE, and counts as such', async () => {
      const { limiter, caller } = await exhausted({ SHADOW_MODE: 'true' });
      for (let asked = 0; asked < 4; asked++) expect(await caller.ask(about('a'), tokenOf('one'))).toBe('OK');
      for (const path of ['/json', '/v1/forward-auth/shop'])
        expect((await httpAsk(limiter.ports.http, path, { headers, method: 'POST' })).status).toBe(200);
      const stats = await limiter.stats();
      const refused = stats.get('ratelimit.callers.refused.__caller=one.__reason=over_rate');
      expect(refused).toBeGreaterThan(0);
      expect(stats.get('ratelimit.service.global_shadow_mode')).toBe(refused);
    });
  });

  describeWithServer('of two workers (Redis)', redisProgram, (path) => {
    let redis: RedisServer;
    beforeAll(async () => {
      redis = await startRedis({ path });
    });
    afterAll(() => redis?.stop());

    it('is one for both, whichever of them a connection comes to', async () => {
      const { limiter, write } = await start(limited(20), {
        ...{ LIMITER_WORKERS: '2', BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp' },
        REDIS_URL: `127.0.0.1:${redis.port}`,
      });
      const callers = Array.from({ length: 16 }, () => new Caller(limiter.ports.grpc));
      await Promise.all(callers.map((caller) => caller.ask(about('a'), tokenOf('two'))));
      const beganMs = performance.now();
      const answers = await Promise.all(
        callers.flatMap((caller) => Array.from({ length: 10 }, () => caller.ask(about('a'), tokenOf('one')))),
      );
      const admitted = answers.filter((answer) => answer === 'OK').length;
      const seconds = (performance.now() - beganMs) / 1000;
      expect(admitted).toBeGreaterThanOrEqual(15);
      expect(admitted).toBeLessThanOrEqual(20 + Math.ceil(20 * seconds));
      write(limited(20).replace(/.*name: two.*\n/, ''));
      await eventually(async () => {
        const after = await Promise.all(callers.map((caller) => caller.ask(about('a'), tokenOf('two'))));
        expect(new Set(after)).toEqual(new Set([unknownToken]));
      });
    });
  });
});

describe('a caller that matches no other entry', () => {
  it('is let in by an entry that says so', async () => {
    const { limiter } = await start(`${byToken}  - { anonymous: true, domains: [open] }\n`);
    const caller = new Caller(limiter.ports.grpc);
    expect(await caller.ask(about('open'))).toBe('OK');
    expect(await caller.ask(about('open'), 'Bearer what.ever')).toBe('OK');
    const refusal = '7 caller anonymous may not use the domain "shop"';
    expect(await caller.ask(about('shop'))).toBe(refusal);
    expect(await caller.ask(about('shop'), tokenOf('nobody'))).toBe(
      `${refusal} (its token does not belong to a caller)`,
    );
    expect(await caller.ask(about('shop'), tokenOf('shop'))).toBe('OK');
  });
});

describe('a start', () => {
  it('ends with every mistake of the file, or when there is none', async () => {
    const { limiter } = await start('callers:\n  - name: a\n    color: red\n');
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.join()).toMatch(
      /Cannot start: CALLERS_FILE: \S+callers.yaml:2:5: domains: is missing; .*callers.yaml:3:5: unknown key/,
    );
    const without = await start(byToken, { CALLERS_FILE: '/nowhere/callers.yaml' });
    expect(without.limiter.lines.join()).toContain(
      'Cannot start: CALLERS_FILE: /nowhere/callers.yaml: no such file or directory',
    );
  });
});

describe('the debug listener', () => {
  const ask = async (limiter: InProcessLimiter, path: string, token?: string): Promise<HttpAnswer> =>
    httpAsk(limiter.ports.debug, path, {
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    });

  it('shows everything to callers with the token, which may change, and only health to others', async () => {
    const file = join(temporaryFolder(), 'token');
    writeFileSync(file, ` ${secret}\n`);
    const { limiter } = await start(byToken, { DEBUG_TOKEN_FILE: file });
    for (const path of ['/stats', '/rlconfig', '/top', '/debug/pprof/', '/', '/x/../livez']) {
      expect([(await ask(limiter, path)).status, (await ask(limiter, path, 'wrong')).status]).toEqual([
        401, 401,
      ]);
    }
    expect((await ask(limiter, '/stats', secret)).status).toBe(200);
    expect((await ask(limiter, '/livez')).status).toBe(200);
    writeFileSync(file, `${secret}-2`);
    await eventually(async () => expect((await ask(limiter, '/stats', `${secret}-2`)).status).toBe(200));
    expect((await ask(limiter, '/stats', secret)).status).toBe(401);
  });

  it('takes for /v1 the debug token or one of a caller with the right, from pages of its own names alone', async () => {
    const file = join(temporaryFolder(), 'token');
    writeFileSync(file, secret);
    const entry = `callers:
  - { name: reader, token_sha256: ${sha256}, domains: [a], rights: [read] }
  - { name: asker, token_sha256: ${sha256}, domains: [a] }
`;
    const { limiter, write } = await start(entry, {
      ...{ DEBUG_TOKEN_FILE: file, DEBUG_ALLOWED_HOSTS: 'Ops.example,other.example' },
    });
    const status = async (headers: Record<string, string>): Promise<number> =>
      (await httpAsk(limiter.ports.debug, '/v1/nothing', { headers })).status;
    const shown = { authorization: `Bearer ${secret}` };
    expect(await status({})).toBe(401);
    expect(await status(shown)).toBe(404);
    expect(await status({ authorization: tokenOf('reader') })).toBe(404);
    expect(await status({ authorization: tokenOf('asker') })).toBe(403);
    expect(await status({ ...shown, host: 'ops.example:6070' })).toBe(404);
    expect(await status({ ...shown, host: 'others.example' })).toBe(403);
    expect(await status({ ...shown, origin: 'http://others.example' })).toBe(403);
    const stats = await ask(limiter, '/stats', secret);
    expect(stats.body).toContain('ratelimit.admin.refused.__reason=foreign: 2');
    expect((await ask(limiter, '/stats', `reader.${secret}`)).status).toBe(401);
    const foreign = { ...shown, origin: 'http://others.example' };
    expect((await httpAsk(limiter.ports.debug, '/stats', { headers: foreign })).status).toBe(403);
    expect((await httpAsk(limiter.ports.debug, '/livez', { headers: foreign })).status).toBe(200);
    write(entry.replace('[read]', '[ask]'));
    await eventually(async () => expect(await status({ authorization: tokenOf('reader') })).toBe(403));
    const lines = limiter.lines.filter((line) => line.includes('Rejected a request to the debug listener'));
    expect(lines.join()).toContain('others.example');
    expect(lines.join()).not.toContain(secret);
  });

  it('keeps the limiter from starting with a token that is too short, and shows nothing of it', async () => {
    const file = join(temporaryFolder(), 'token');
    writeFileSync(file, 'hunter2');
    const { limiter } = await start(byToken, { DEBUG_TOKEN_FILE: file });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.join()).toContain(
      `Cannot start: DEBUG_TOKEN_FILE: ${file}: the token must have at least 16 characters, it has 7`,
    );
    expect(limiter.lines.join()).not.toContain('hunter2');
  });

  it('says what it shows off loopback, once', async () => {
    const open = await start(byToken, { DEBUG_HOST: '0.0.0.0', LOG_LEVEL: 'info' });
    const shut = await start(byToken, { LOG_LEVEL: 'info' });
    const warnings = ({ limiter }: Fixture): number =>
      limiter.lines.filter((line) => line.includes('The debug listener does not authenticate callers'))
        .length;
    expect([warnings(open), warnings(shut)]).toEqual([1, 0]);
  });
});

describeWithServer('with certificates', opensslProgram, (openssl) => {
  const folder = suiteFolder();
  const authority = createAuthority(openssl, folder, 'authority');
  const foreign = createAuthority(openssl, folder, 'foreign');
  const server = authority.issue({ name: 'server', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
  const edge = authority.issue({ name: 'edge', alternativeNames: `URI:${spiffe}` });
  const other = authority.issue({ name: 'other', alternativeNames: 'DNS:other.example' });
  const byCertificate = `callers:
  - name: edge
    certificate: { uri: 'spiffe://prod.example/ns/edge/sa/*' }
    domains: [edge]
  - name: named
    certificate: [{ cn: edge }, { dns: '*.example' }]
    domains: [named]
  - { name: ops, token_sha256: ${sha256}, domains: ['*'] }
`;

  it('knows the caller over gRPC by the first entry that matches, before any token', async () => {
    const { limiter, write } = await start(byCertificate, {
      ...{ GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: server.certFile },
      ...{ GRPC_SERVER_TLS_KEY: server.keyFile, GRPC_CLIENT_TLS_CACERT: authority.caFile },
    });
    const [first, second] = [edge, other].map((pair) => new Caller(limiter.ports.grpc, pair, authority));
    expect(await first!.ask(about('edge'))).toBe('OK');
    expect(await first!.ask(about('named'), tokenOf('ops'))).toBe(
      '7 caller edge may not use the domain "named"',
    );
    expect(await second!.ask(about('named'))).toBe('OK');
    write(byCertificate.replace('ns/edge/sa/*', 'ns/*').replace("'*.example'", 'x.example'));
    await eventually(async () => {
      expect(await first!.ask(about('named'))).toBe('OK');
    });
    expect(await second!.ask(about('named'))).toBe('16 the client certificate does not belong to a caller');
    expect(await second!.ask(about('named'), tokenOf('ops'))).toBe('OK');
  });

  it('answers HTTP over TLS, /json to those with a good certificate', async () => {
    const { limiter } = await start(byCertificate, {
      ...{ HTTP_SERVER_USE_TLS: 'true', HTTP_SERVER_TLS_CERT: server.certFile },
      ...{ HTTP_SERVER_TLS_KEY: server.keyFile, HTTP_CLIENT_TLS_CACERT: authority.caFile },
    });
    const ask = (path: string, pair?: CertificatePair): Promise<[number, unknown]> =>
      httpsAsk(limiter.ports.http, path, { ca: authority.caFile, pair });
    const noCertificate = 'the caller has no certificate of a trusted authority';
    const stranger = foreign.issue({ name: 'stranger', alternativeNames: `URI:${spiffe}` });
    expect(await ask('/healthcheck')).toEqual([200, undefined]);
    expect(await ask('/livez')).toEqual([200, undefined]);
    expect(await ask('/json')).toEqual([403, noCertificate]);
    expect(await ask('/json', stranger)).toEqual([403, noCertificate]);
    expect(await ask('/json', edge)).toEqual([403, 'caller edge may not use the domain ""']);
    expect(await ask('/v1/check')).toEqual([403, undefined]);
    expect(await ask('/v1/openapi.json', stranger)).toEqual([403, undefined]);
    // It may ask, in JSON.
    expect(await ask('/v1/check', edge)).toEqual([415, undefined]);
    await expect(httpAsk(limiter.ports.http, '/livez')).rejects.toThrow();
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.http.tls_client_certificate')).toBe(4);
    expect(stats.get('ratelimit.http.tls_handshake')).toBe(1);
    expect(stats.get('http_certs.expires_at_seconds')).toBeGreaterThan(Date.now() / 1000);
  });

  it('wants the name of HTTP_CLIENT_TLS_SAN', async () => {
    const { limiter } = await start(byToken, {
      ...{ HTTP_SERVER_USE_TLS: 'true', HTTP_SERVER_TLS_CERT: server.certFile },
      ...{ HTTP_SERVER_TLS_KEY: server.keyFile, HTTP_CLIENT_TLS_CACERT: authority.caFile },
      HTTP_CLIENT_TLS_SAN: 'other.example',
    });
    const ask = (pair: CertificatePair): Promise<[number, unknown]> =>
      httpsAsk(limiter.ports.http, '/json', { pair });
    expect(await ask(edge)).toEqual([403, "the caller's certificate does not contain other.example"]);
    expect(await ask(other)).toEqual([401, 'the client certificate does not belong to a caller']);
  });

  it('takes a new certificate for HTTP without a restart', async () => {
    const mine = authority.issue({ name: 'rotated', alternativeNames: 'IP:127.0.0.1' });
    const { limiter } = await start(byToken, {
      ...{
        HTTP_SERVER_USE_TLS: 'true',
        HTTP_SERVER_TLS_CERT: mine.certFile,
        HTTP_SERVER_TLS_KEY: mine.keyFile,
      },
    });
    const ask = (ca: string): Promise<[number, unknown]> => httpsAsk(limiter.ports.http, '/livez', { ca });
    expect(await ask(authority.caFile)).toEqual([200, undefined]);
    const next = foreign.issue({ name: 'next', alternativeNames: 'IP:127.0.0.1' });
    writeFileSync(mine.certFile, readFileSync(next.certFile));
    writeFileSync(mine.keyFile, readFileSync(next.keyFile));
    await eventually(async () => expect(await ask(foreign.caFile)).toEqual([200, undefined]), {
      timeoutMs: 20_000,
    });
    expect((await limiter.stats()).get('http_certs.load_attempts')).toBe(1);
  });
});

/** Status and the header `weir-error`, over TLS. */
async function httpsAsk(
  port: number,
  path: string,
  { ca, pair }: { ca?: string; pair?: CertificatePair | undefined },
): Promise<[number, unknown]> {
  const own = pair && { cert: readFileSync(pair.certFile), key: readFileSync(pair.keyFile) };
  const tls = { ...(ca === undefined ? {} : { ca: readFileSync(ca) }), ...own };
  const { status, headers } = await httpAsk(port, path, { method: 'POST', body: '{}', tls });
  return [status, headers['weir-error']];
}
