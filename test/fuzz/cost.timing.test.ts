/** The CPU time of decoding and matching may grow by 2.5 if the input doubles. The bounds of requests are lifted. */
import { describe, expect, it } from 'vitest';
import type { RequestLimits } from '../../limiter/decide/request-bounds.ts';
import {
  DecodeError,
  decodeRateLimitRequest,
  encodeRateLimitRequest,
} from '../../limiter/decide/wire-codec.ts';
import { readCheckBody } from '../../limiter/http/check-body.ts';
import { requestFromJson } from '../../limiter/http/json-codec.ts';
import { RespReader } from '../../limiter/stores/redis/wire/resp.ts';
import { ApiProblem } from '../../process/http/api-route.ts';
import { defaultNames } from '../../rules/match-result.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import { checkFamilies, jsonFamilies, wireFamilies } from './cost-inputs.ts';
import { doubled, growth, maxGrowth } from './cost-measurement.ts';

function readCheck(bytes: Uint8Array): void {
  try {
    const { domain, descriptors, hits } = readCheckBody(bytes, { caller: undefined });
    encodeRateLimitRequest(domain, descriptors, hits);
  } catch (error) {
    if (!(error instanceof ApiProblem)) throw error;
  }
}

const lifted: RequestLimits = {
  maxDescriptors: 1e9,
  maxEntries: 1e9,
  maxTextBytes: 1e9,
  maxBytes: 1e9,
};

function decode(bytes: Uint8Array): void {
  try {
    decodeRateLimitRequest(bytes, lifted);
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
  }
}

describe('the CPU time grows by at most 2.5 if the input doubles', { timeout: 120_000 }, () => {
  it.each(Object.entries(wireFamilies))('in the decoder, for %s', (_, family) => {
    expect(
      growth(
        doubled(2048)
          .map(family)
          .map((bytes) => () => decode(bytes)),
      ),
    ).toBeLessThan(maxGrowth);
  });

  it.each(Object.entries(jsonFamilies))('in /json, for %s', (_, family) => {
    const runs = doubled(1024)
      .map(family)
      .map((bytes) => () => void requestFromJson(bytes, lifted));
    expect(growth(runs)).toBeLessThan(maxGrowth);
  });

  it.each(Object.entries(checkFamilies))('in /v1/check, for %s', (_, family) => {
    const runs = doubled(1024)
      .map(family)
      .map((bytes) => () => readCheck(bytes));
    expect(growth(runs)).toBeLessThan(maxGrowth);
  });

  it.each(['a*', 'a*b', 'a*b*', 'a*aa*ab*aaa*b', '*a*a*a*a*b'])(
    'in the matcher, for values of %s',
    (value) => {
      const patterns = [value, ...Array.from({ length: 50 }, (_, i) => `a*${'ab'.repeat(i)}*c`)];
      const rules = patterns.map((pattern) => rule({ key: 'k', value: pattern, rateLimit: limit() }));
      const table = new RuleTable(compileRules([source('d', rules)]));
      // All keys contain the whole value, or all contain its hash. The first hashed value costs more.
      for (const maxTextBytes of [Number.MAX_SAFE_INTEGER, 1024]) {
        for (const unit of ['a', 'ab', 'aab']) {
          const runs = doubled(4096).map((n) => {
            const entries = [{ key: 'k', value: unit.repeat(n) }];
            return () => void table.match('d', entries, { ...defaultNames, maxTextBytes });
          });
          expect(growth(runs)).toBeLessThan(maxGrowth);
        }
      }
    },
  );

  it.each([
    ['a list', (n: number) => `*${n}\r\n${':12345\r\n'.repeat(n)}`],
    ['bytes', (n: number) => `$${n * 4}\r\n${'abcd'.repeat(n)}\r\n`],
    ['an error', (n: number) => `-${'ERR '.repeat(n / 2)}\r\n`],
  ])('in a reply of Redis that comes a byte at a time: %s', (_, reply) => {
    const runs = doubled(8_000).map((n) => {
      const bytes = Buffer.from(reply(n));
      const pieces = Array.from(bytes, (byte) => Buffer.from([byte]));
      return () => {
        const reader = new RespReader(() => {});
        expect(pieces.every((piece) => reader.push(piece, 1))).toBe(true);
      };
    });
    expect(growth(runs)).toBeLessThan(maxGrowth);
  });
});
