/**
 * Names and texts that stay: schemas/frozen-names.json, beside what envoyproxy/ratelimit answered, printed and counted
 * (go-service/recorded.json), and beside what Weir does with the same rules and requests.
 */
import { globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { constants as http2 } from 'node:http2';
import { join } from 'node:path';
import type { DescMessage } from '@bufbuild/protobuf';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { conditionTypes } from '../../control-plane/model/object-models.ts';
import { file_envoy_config_core_v3_base } from '../../gen/envoy/config/core/v3/base_pb.ts';
import { file_envoy_extensions_common_ratelimit_v3_ratelimit } from '../../gen/envoy/extensions/common/ratelimit/v3/ratelimit_pb.ts';
import { file_envoy_service_discovery_v3_ads } from '../../gen/envoy/service/discovery/v3/ads_pb.ts';
import { file_envoy_service_discovery_v3_discovery } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { file_envoy_service_rate_limit_quota_v3_rlqs } from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { file_envoy_service_ratelimit_v3_rls } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { file_grpc_health_v1_health } from '../../gen/grpc/health/v1/health_pb.ts';
import { file_ratelimit_config_ratelimit_v3_rls_conf } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { ErrorCode } from '../../limiter/http2/constants.ts';
import { limiterSettingGroups } from '../../limiter/settings/settings.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { documentedStatistics } from '../support/documented-statistics.ts';
import { projectRoot } from '../support/documents.ts';
import { redisProgram } from '../support/find-server.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { runWeirHere } from '../support/run-command.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { rules } from './go-service/asked.ts';
import recorded from './go-service/recorded.json' with { type: 'json' };

const frozen = JSON.parse(readFileSync(join(projectRoot, 'schemas/frozen-names.json'), 'utf8')) as Frozen;

const rulePrefix = 'ratelimit.service.rate_limit.';

type ListName =
  | 'settings'
  | 'statistics'
  | 'jsonFields'
  | 'grpcFields'
  | 'grpcMethods'
  | 'http2Errors'
  | 'problemMembers'
  | 'compatibleKeys'
  | 'spans'
  | 'spanAttributes'
  | 'logKeys'
  | 'logLines'
  | 'ruleErrors'
  | 'requestErrors'
  | 'httpTexts'
  | 'clientLines'
  | 'startErrors'
  | 'checkLines'
  | 'rlconfigLines'
  | 'debugIndexLines'
  | 'conditionTypes';

type LeftOutName =
  | 'statistics'
  | 'spans'
  | 'spanAttributes'
  | 'debugIndexLines'
  | 'logLines'
  | 'clientLines'
  | 'checkLines'
  | 'startErrors';

type Frozen = Record<ListName, string[]> & {
  /** The authority of each list. */
  sources: Record<string, string>;
  flags: Record<'client' | 'check', string[]>;
  /** By list: entries that the recording lacks. */
  unrecorded: Partial<Record<string, string[]>>;
  leftOut: Record<'about' | LeftOutName, string[]>;
};

/** Those that no entry of the list allows; `<x>` in an entry allows any text. */
function unlisted(found: readonly string[], list: readonly string[]): string[] {
  const patterns = list.map(
    (entry) =>
      new RegExp(
        `^${entry
          .split(/<\w+>/)
          .map((part) => RegExp.escape(part))
          .join('.*')}$`,
        's',
      ),
  );
  return found.filter((one) => !patterns.some((pattern) => pattern.test(one)));
}

/** Those that match nothing that was found. */
function unfound(list: readonly string[], found: readonly string[]): string[] {
  return list.filter((entry) => unlisted(found, [entry]).length === found.length);
}

/** The sources of the programs, as one text. */
function sourcesOfPrograms(): string {
  const pattern = '{limiter,process,rules,cli}/**/*.ts';
  return globSync(pattern, { cwd: projectRoot, exclude: ['**/*.test.ts'] })
    .map((path) => readFileSync(join(projectRoot, path), 'utf8'))
    .join('\n');
}

/** Whether a text is written in a source, with a value for each `<x>`, and with anything for one at the end. */
function isWrittenIn(source: string, text: string): boolean {
  const parts = text
    .replace(/<\w+>$/, '')
    .split(/<\w+>/)
    .map((part) => RegExp.escape(part));
  return new RegExp(`['\`}]${parts.join(String.raw`\$\{[^}]+\}`)}`).test(source);
}

function jsonKeys(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = Array.isArray(value) ? [] : Object.keys(value);
  return [...own, ...Object.values(value).flatMap(jsonKeys)];
}

/** Of what config_check_cmd printed, or with what it panicked. */
function errorOf(printed: string): string {
  return /(?:^panic: |^error loading rate limit configs: )\S+?: (.*)$/m.exec(printed)![1]!;
}

/** The time to the end of the window differs, Go puts spaces where it likes, and `quotas` is Weir's own. */
function comparable({ status, type, body }: { status: number; type: string | null; body: string }) {
  const text = type === 'application/json' ? JSON.stringify(JSON.parse(body)) : body;
  const timeless = text
    .replace(/"\d+s"/g, '"Ns"')
    .replace(/("RateLimit-Reset","value":)"\d+"/g, '$1"N"')
    .replace(',"quotas":[]', '')
    .replace(/(requests_per_unit:\d+) +/g, '$1 ');
  return { status, type, body: timeless };
}

describe('schemas/frozen-names.json', () => {
  const decisions = recorded.answers.filter(({ type }) => type === 'application/json');

  it.each<[list: ListName, found: string[]]>([
    ['settings', recorded.settings],
    ['jsonFields', decisions.flatMap(({ body }) => jsonKeys(JSON.parse(body)))],
    ['compatibleKeys', recorded.keys],
    ['logKeys', recorded.logKeys],
    ['logLines', recorded.startLines],
    ['ruleErrors', recorded.errors.map(({ text }) => errorOf(text))],
    ['requestErrors', recorded.grpcErrors.map((line) => line.replace(/^.* desc = /, ''))],
    ['rlconfigLines', recorded.pages['/rlconfig'].split('\n')],
    [
      'checkLines',
      recorded.errors.filter(({ status }) => status === 1).flatMap(({ text }) => text.trimEnd().split('\n')),
    ],
    ['clientLines', recorded.grpcErrors],
  ])('lists all that the Go service has, and nothing else: %s', (list, found) => {
    expect(unlisted(found, frozen[list])).toEqual([]);
    expect(unfound(frozen[list], found)).toEqual(frozen.unrecorded[list] ?? []);
  });

  it('lists texts that the recording lacks as the programs have them, and those that they left out', () => {
    const sources = sourcesOfPrograms();
    const { logLines, ruleErrors, requestErrors, checkLines } = frozen.unrecorded;
    const unrecorded = [logLines!, ruleErrors!, requestErrors!, checkLines!].flat();
    const all = [...unrecorded, ...frozen.httpTexts, ...frozen.clientLines, ...frozen.startErrors];
    expect(all.filter((text) => !isWrittenIn(sources, text))).toEqual([]);
    const { leftOut } = frozen;
    const gone = [leftOut.logLines, leftOut.checkLines, leftOut.clientLines, leftOut.startErrors].flat();
    expect(gone.filter((text) => isWrittenIn(sources, text))).toEqual([]);
    const source = ['Error(`a $', '{b.c}: d`)'].join('');
    expect(['a <x>: d', 'a <x>', 'a <x>, d', 'b'].filter((text) => isWrittenIn(source, text))).toEqual([
      'a <x>: d',
      'a <x>',
    ]);
  });

  it('lists flags, statistics, spans and pages of the Go service, or says that they are left out', () => {
    expect(frozen.flags).toEqual(recorded.flags);
    const all = { ...recorded, debugIndexLines: recorded.pages['/'].trimEnd().split('\n') };
    for (const list of ['statistics', 'spans', 'spanAttributes', 'debugIndexLines'] as const)
      expect(unlisted(all[list], [...frozen[list], ...frozen.leftOut[list]])).toEqual([]);
    for (const list of ['spans', 'spanAttributes', 'debugIndexLines', 'statistics'] as const)
      expect([list, unfound([...frozen[list], ...frozen.leftOut[list]], all[list])]).toEqual([
        list,
        frozen.unrecorded[list] ?? [],
      ]);
  });

  it('lists what Weir has', () => {
    const settings = limiterSettingGroups.flatMap(({ settings }) =>
      Object.values(settings).map(({ name }) => name),
    );
    expect(unlisted(frozen.settings, settings)).toEqual([]);
    // The document says of the pool for seconds that it has the same. A running limiter has those of rules.
    const plain = (name: string) => name.replace('per_second_pool', 'pool').replace(/\.__code=.*/, '');
    const ofRules = (name: string) => name.startsWith(`${rulePrefix}<`);
    const whole = frozen.statistics.filter((name) => !ofRules(name)).map(plain);
    expect(unlisted(whole, documentedStatistics().map(plain))).toEqual([]);
    expect(frozen.conditionTypes).toEqual([...conditionTypes]);
  });

  it('lists fields as the definitions have them', () => {
    const fields = [
      file_envoy_config_core_v3_base,
      file_envoy_extensions_common_ratelimit_v3_ratelimit,
      file_envoy_service_discovery_v3_discovery,
      file_envoy_service_rate_limit_quota_v3_rlqs,
      file_envoy_service_ratelimit_v3_rls,
      file_grpc_health_v1_health,
      file_ratelimit_config_ratelimit_v3_rls_conf,
    ].flatMap(({ messages }) => messages.flatMap(fieldsOf));
    expect(unlisted(frozen.grpcFields, fields)).toEqual([]);
  });

  it('lists methods as the definitions have them', () => {
    const methods = [
      file_envoy_service_discovery_v3_ads,
      file_envoy_service_rate_limit_quota_v3_rlqs,
      file_envoy_service_ratelimit_v3_rls,
      file_grpc_health_v1_health,
    ].flatMap(({ services }) =>
      services.flatMap((service) => service.methods.map(({ name }) => `${service.typeName}/${name}`)),
    );
    expect(unlisted(frozen.grpcMethods, methods)).toEqual([]);
  });

  it('lists the errors of HTTP/2 as Node has them, and Weir names them alike', () => {
    const ofNode = (name: string) => (http2 as Record<string, unknown>)[`NGHTTP2_${name}`];
    const names = frozen.http2Errors.map((line) => line.replace(/ = .*/, ''));
    expect(frozen.http2Errors).toEqual(names.map((name) => `${name} = ${ofNode(name)}`));
    expect(Object.entries(ErrorCode).map(([name, code]) => `${name} = ${code}`)).toEqual(frozen.http2Errors);
  });

  it('names the source of each list', () => {
    const lists = Object.keys(frozen).filter(
      (name) => !['about', 'sources', 'unrecorded', 'leftOut'].includes(name),
    );
    expect(Object.keys(frozen.sources)).toEqual(lists);
  });
});

function fieldsOf({ typeName, fields, nestedMessages }: DescMessage): string[] {
  const own = fields.map(({ name, number }) => `${typeName}.${name} = ${number}`);
  return [...own, ...nestedMessages.flatMap(fieldsOf)];
}

describe('weir check', () => {
  const folder = suiteFolder();

  it.each(recorded.errors)(
    'finds in $rules what the Go program finds',
    async ({ rules: text, text: printed }) => {
      writeFileSync(join(folder, 'a.yaml'), text);
      const { status, stdout } = await runWeirHere(['check', '-config_dir', folder]);
      expect(status).toBe(1);
      // Weir adds line, column and the kind of the error.
      expect(stdout.replaceAll(/a\.yaml:\d+:\d+: /g, 'a.yaml: ')).toContain(`/a.yaml: ${errorOf(printed)}`);
    },
  );
});

describeWithServer('a limiter', redisProgram, (path) => {
  const folder = suiteFolder();
  let redis: RedisServer;
  let limiter: InProcessLimiter;

  beforeAll(async () => {
    redis = await startRedis({ path });
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/a.yaml'), rules);
    limiter = await startLimiterHere({
      env: {
        RUNTIME_ROOT: folder,
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
        RESPONSE_DYNAMIC_METADATA: 'true',
        LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
      },
    });
  });
  afterAll(async () => {
    await limiter?.stop();
    await redis?.stop();
  });

  it('rejects with problems that have the members of RFC 9457', async () => {
    const url = `http://127.0.0.1:${limiter.ports.http}/v1/check`;
    const headers = { 'Content-Type': 'application/json' };
    const response = await fetch(url, { method: 'POST', headers, body: '{}' });
    expect(response.headers.get('content-type')).toBe('application/problem+json');
    expect(Object.keys((await response.json()) as object)).toEqual(
      expect.arrayContaining(frozen.problemMembers),
    );
  });

  it('answers, counts and shows what the Go service does', async () => {
    for (const { request: body, ...wanted } of recorded.answers) {
      const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body });
      const answer = {
        status: response.status,
        type: response.headers.get('content-type'),
        body: await response.text(),
      };
      expect(comparable(answer), body).toEqual(comparable(wanted));
    }
    expect((await limiter.rlconfig()).sort()).toEqual(recorded.pages['/rlconfig'].split('\n').sort());
    const index = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/`)).text();
    // Weir's may go on, with the parameters of a page.
    const indexLines = index.split('\n');
    expect(frozen.debugIndexLines.filter((line) => !indexLines.some((own) => own.startsWith(line)))).toEqual(
      [],
    );
    const direct = new Redis(redis.port, '127.0.0.1');
    const keys = (await direct.keys('*')).filter((key) => !key.startsWith('weir:'));
    direct.disconnect();
    expect(keys.map((key) => key.replace(/\d{10}$/, 'WINDOW')).sort()).toEqual(recorded.keys);
    const shown = [...(await limiter.stats()).keys()].filter((name) => name.startsWith(rulePrefix));
    expect(shown).toEqual(
      expect.arrayContaining(recorded.statistics.filter((name) => name.startsWith(rulePrefix))),
    );
    const frozenOfRules = frozen.statistics.filter((name) => name.startsWith(rulePrefix));
    expect(frozenOfRules.filter((name) => unlisted(shown, [name]).length === shown.length)).toEqual([]);
    const lines = limiter.lines.map((line) => /msg="([^"]*)"/.exec(line)?.[1] ?? '');
    expect(
      unlisted(
        lines.filter((line) => line.startsWith('Listening')),
        frozen.logLines,
      ),
    ).toEqual([]);
    expect(lines.filter((line) => unlisted([line], frozen.logLines).length === 0)).toHaveLength(3);
  });
});
