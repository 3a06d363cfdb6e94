/**
 * Measures the cost of answers that report their limit, and of recording requests over limit: nanoseconds of CPU time for a decision of
 * one descriptor, counted in memory and encoded, compared with a decision with these settings off. The variants alternate, and the
 * minimum of each counts.
 *
 *   npx node bench/reported-limits.ts
 */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { create, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { createDecisionService } from '../limiter/assembly/decision-service.ts';
import type { RateLimitResponse } from '../limiter/decide/response-message.ts';
import { decodeRateLimitRequest, encodeRateLimitResponse } from '../limiter/decide/wire-codec.ts';
import { OverLimitMemory } from '../limiter/over-limit/over-limit-memory.ts';
import { parseLimiterSettings } from '../limiter/settings/settings.ts';
import { StatsRegistry } from '../limiter/stats/registry/stats-registry.ts';
import { systemClock } from '../process/time/clock.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { openMemoryStore } from '../test/support/open-memory-store.ts';
import { limit, rule, source } from '../test/support/rule-builder.ts';

const requests = 100_000;
const rounds = 7;
const turns = 5;

const variants: Record<string, Record<string, string>> = {
  off: {},
  'RESPONSE_RULE_IDENTITY=metadata': { RESPONSE_RULE_IDENTITY: 'metadata' },
  'RESPONSE_RULE_IDENTITY=header': { RESPONSE_RULE_IDENTITY: 'header' },
  'legacy headers': { LIMIT_RESPONSE_HEADERS_ENABLED: 'true' },
  'ietf headers': { LIMIT_RESPONSE_HEADERS_ENABLED: 'true', LIMIT_RESPONSE_HEADERS_STYLE: 'ietf' },
  'REFUSALS_KEPT=10000': { REFUSALS_KEPT: '10000' },
  'Retry-After': { LIMIT_RETRY_AFTER_HEADER_ENABLED: 'true' },
  'metadata, ietf headers, Retry-After': {
    RESPONSE_RULE_IDENTITY: 'metadata',
    LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
    LIMIT_RESPONSE_HEADERS_STYLE: 'ietf',
    LIMIT_RETRY_AFTER_HEADER_ENABLED: 'true',
  },
};

const asker = {
  abandoned: false,
  fields: [
    ':method',
    'POST',
    ':path',
    '/x',
    'te',
    'trailers',
    'x-request-id',
    '3f1c9a52-6f0e-9f0c-8c43-0d0b1c6d3a11',
  ],
};

function service(env: Record<string, string>): (request: Uint8Array) => void {
  const { settings } = parseLimiterSettings({ BACKEND_TYPE: 'memory', REFUSALS_KEPT: '0', ...env });
  if (settings === undefined) throw new Error('the settings are wrong');
  const capacity = settings.refusalsKept;
  const memory = capacity === 0 ? undefined : new OverLimitMemory(capacity, systemClock);
  const decisions = createDecisionService(
    { settings, clock: systemClock, random: Math.random, registry: new StatsRegistry() },
    {
      store: openMemoryStore(),
      observer: memory && {
        onRequestOverLimit: (hit, entries, used, by) => memory.note(hit, entries, used, by),
      },
    },
  );
  const blocked = rule({ key: 'blocked', rateLimit: limit({ unit: 'day', requestsPerUnit: 0 }) });
  const free = rule({ key: 'free', rateLimit: limit({ unit: 'day', requestsPerUnit: 1e9 }) });
  decisions.useRules(new RuleTable(compileRules([source('api', [blocked, free])])));
  const decided = {
    answer: (response: RateLimitResponse) => void encodeRateLimitResponse(response),
    reject: (error: unknown) => {
      throw error;
    },
  };
  return (bytes) => decisions.decide(decodeRateLimitRequest(bytes), asker, decided);
}

/** 1,000 callers, one after the other. */
function requestsFor(key: string): Uint8Array[] {
  return Array.from({ length: 1_000 }, (_, user) =>
    toBinary(
      RateLimitRequestSchema,
      create(RateLimitRequestSchema, {
        domain: 'api',
        descriptors: [{ entries: [{ key, value: `user-${user}@example.org` }] }],
      }),
    ),
  );
}

function nanoseconds(decide: (request: Uint8Array) => void, asked: readonly Uint8Array[]): number {
  const started = process.cpuUsage();
  for (let index = 0; index < requests; index++) decide(asked[index % asked.length]!);
  const { user, system } = process.cpuUsage(started);
  return ((user + system) * 1e3) / requests;
}

const kinds = { 'within the limit': 'free', 'over limit': 'blocked' };

/** Each variant runs in a separate process, as in production, because code that has run all variants is slower. */
function measured(variant: string): number[] {
  const child = spawnSync(process.execPath, [fileURLToPath(import.meta.url), variant], { encoding: 'utf8' });
  if (child.status !== 0) throw new Error(child.stderr);
  return JSON.parse(child.stdout) as number[];
}

const asked = process.argv[2];
if (asked !== undefined) {
  const found = Object.values(kinds).map((key) => {
    const decide = service(variants[asked]!);
    const messages = requestsFor(key);
    return Math.min(...Array.from({ length: rounds }, () => nanoseconds(decide, messages)));
  });
  console.log(JSON.stringify(found));
} else {
  const min = new Map<string, number[]>();
  for (let turn = 0; turn < turns; turn++) {
    for (const variant of Object.keys(variants)) {
      const before = min.get(variant) ?? [];
      min.set(
        variant,
        measured(variant).map((value, index) => Math.min(value, before[index] ?? value)),
      );
    }
  }
  const off = min.get('off')!;
  for (const [index, kind] of Object.keys(kinds).entries()) {
    for (const [variant, values] of min) {
      const more = Math.round(values[index]! - off[index]!);
      console.log(`${kind}, ${variant}: ${Math.round(values[index]!)} ns (${more} more)`);
    }
  }
}
