import { describe, expect, it } from 'vitest';
import { Unit } from '../../rules/model.ts';
import { limitedPlan, type MatchedTraits, matchedRule } from '../../test/support/matched-rule.ts';
import { bareResponse } from '../../test/support/plain-service.ts';
import type { Plan } from './limit-plan.ts';
import { Code, type RateLimitRequest } from './messages.ts';
import { noLimit } from './plan.ts';
import { assembleResponse, okStatus, type ResponseOptions, unlimitedStatus } from './response.ts';
import type { DescriptorStatus, RateLimitResponse } from './response-message.ts';

interface Part {
  plan: Plan;
  status: DescriptorStatus;
}

function limited(code: Code, remaining: number, fields: MatchedTraits = {}): Part {
  const plan = limitedPlan(fields);
  const currentLimit = plan.rule.limits[0]!;
  return {
    plan,
    status: { code, currentLimit, limitRemaining: remaining, durationUntilResetSeconds: 37 },
  };
}

const ok = (remaining: number, fields?: MatchedTraits): Part => limited(Code.OK, remaining, fields);
const over = (fields?: MatchedTraits): Part => limited(Code.OVER_LIMIT, 0, fields);
const quotaOver = over({ quotaMode: true });
const unmatched: Part = { plan: noLimit, status: okStatus };
const unlimited: Part = {
  plan: { kind: 'unlimited', rule: matchedRule({ unlimited: true }) },
  status: unlimitedStatus,
};

const names = { limit: 'L', remaining: 'R', reset: 'T' };

function assemble(parts: Part[], options: Partial<ResponseOptions> = {}, request?: RateLimitRequest) {
  let shadowed = 0;
  const response: RateLimitResponse = assembleResponse(
    {
      request: request ?? { domain: 'd', descriptors: [], hitsAddend: 0 },
      plans: parts.map(({ plan }) => plan),
      statuses: parts.map(({ status }) => status),
    },
    { ...bareResponse, ...options },
    { onGlobalShadow: () => shadowed++ },
  );
  return { response, shadowed };
}

const headerTexts = (headers: RateLimitResponse['responseHeadersToAdd']): string[] =>
  headers.map(({ key, value }) => `${key}: ${value}`);

describe('overall code', () => {
  it.each<[string, Part[], boolean, keyof typeof Code]>([
    ['one OK', [ok(1)], false, 'OK'],
    ['one over', [over()], false, 'OVER_LIMIT'],
    ['one of two over', [ok(1), over()], false, 'OVER_LIMIT'],
    ['no limits', [unmatched, unlimited], false, 'OK'],
    ['all quotas over', [quotaOver, quotaOver], false, 'OVER_LIMIT'],
    ['all quotas over, an OK limit beside', [quotaOver, ok(1)], false, 'OVER_LIMIT'],
    ['all quotas over, an unmatched descriptor beside', [quotaOver, unmatched], false, 'OVER_LIMIT'],
    ['one of two quotas over', [quotaOver, ok(1, { quotaMode: true })], false, 'OK'],
    ['a limit over, a quota OK', [over(), ok(1, { quotaMode: true })], false, 'OVER_LIMIT'],
    ['QUOTA_MODE, one of two over', [over(), ok(1)], true, 'OK'],
    ['QUOTA_MODE, all over', [over(), over()], true, 'OVER_LIMIT'],
    ['QUOTA_MODE, all over but an unmatched descriptor', [over(), unmatched], true, 'OK'],
    ['QUOTA_MODE, all over but an unlimited descriptor', [over(), unlimited], true, 'OVER_LIMIT'],
  ])('%s (QUOTA_MODE %s)', (_, parts, quotaMode, code) => {
    expect(assemble(parts, { quotaMode }).response.overallCode).toBe(Code[code]);
  });

  it('is OK in SHADOW_MODE, counted once, with the statuses left as they are', () => {
    const { response, shadowed } = assemble([over(), over()], { shadowMode: true });
    expect(response.overallCode).toBe(Code.OK);
    expect(response.statuses.map(({ code }) => code)).toEqual([Code.OVER_LIMIT, Code.OVER_LIMIT]);
    expect(shadowed).toBe(1);
  });

  it('is not counted as shadowed when it was OK anyway', () => {
    expect(assemble([ok(1)], { shadowMode: true }).shadowed).toBe(0);
  });
});

describe('standard headers', () => {
  it('are absent unless asked for', () => {
    const { response } = assemble([over()]);
    expect(response.responseHeadersToAdd).toEqual([]);
    expect(response.requestHeadersToAdd).toEqual([]);
  });

  it.each<[string, Part[], boolean, string[]]>([
    ['the least remaining', [ok(5), ok(3, { requestsPerUnit: 4 }), ok(9)], false, ['L: 4', 'R: 3', 'T: 37']],
    ['the first of equals', [ok(3, { requestsPerUnit: 4 }), ok(3)], false, ['L: 4', 'R: 3', 'T: 37']],
    [
      'the last over its limit',
      [over({ requestsPerUnit: 1 }), ok(0), over({ requestsPerUnit: 2 }), ok(0)],
      false,
      ['L: 2', 'R: 0', 'T: 37'],
    ],
    [
      'an over-limit before a rule in shadow mode',
      [ok(0, { requestsPerUnit: 5 }), over()],
      false,
      ['L: 10', 'R: 0', 'T: 37'],
    ],
    [
      'a quota only as one with little left',
      [quotaOver, over({ requestsPerUnit: 3 })],
      false,
      ['L: 3', 'R: 0', 'T: 37'],
    ],
    [
      'the first of several quotas over',
      [over({ requestsPerUnit: 1 }), over({ requestsPerUnit: 2 })],
      true,
      ['L: 1', 'R: 0', 'T: 37'],
    ],
    ['no status without limit', [unmatched, unlimited, ok(7)], false, ['L: 10', 'R: 7', 'T: 37']],
    [
      'a limit of which all remains',
      [ok(0xffff_ffff, { requestsPerUnit: 0xffff_ffff })],
      false,
      ['L: 4294967295', 'R: 4294967295', 'T: 37'],
    ],
    ['nothing when there is no limit', [unmatched, unlimited], false, []],
  ])('describe %s', (_, parts, quotaMode, headers) => {
    const { response } = assemble(parts, { quotaMode, responseHeaders: names });
    expect(headerTexts(response.responseHeadersToAdd)).toEqual(headers);
    expect(response.requestHeadersToAdd).toEqual([]);
  });

  it('go to the request by a switch and names of their own', () => {
    const { response } = assemble([ok(5)], { requestHeaders: { limit: 'X', remaining: 'Y', reset: 'Z' } });
    expect(headerTexts(response.requestHeadersToAdd)).toEqual(['X: 10', 'Y: 5', 'Z: 37']);
    expect(response.responseHeadersToAdd).toEqual([]);
  });

  it('stay as they were in SHADOW_MODE', () => {
    const { response } = assemble([over()], { shadowMode: true, responseHeaders: names });
    expect(headerTexts(response.responseHeadersToAdd)).toEqual(['L: 10', 'R: 0', 'T: 37']);
  });
});

describe('headers of the exceeded limit with the longest wait', () => {
  const until = (seconds: number, part: Part): Part => ({
    plan: part.plan,
    status: { ...part.status, durationUntilResetSeconds: seconds },
  });
  const options = { responseHeaders: names, retryAfter: true, describesLongestWait: true };

  it.each<[string, Part[], string[]]>([
    [
      'of several limits, whatever their order',
      [until(59, over({ requestsPerUnit: 1 })), ok(0), until(7, over({ requestsPerUnit: 2 }))],
      ['L: 1', 'R: 0', 'T: 59', 'Retry-After: 59'],
    ],
    [
      'the first of equals',
      [until(9, over({ requestsPerUnit: 1 })), until(9, over({ requestsPerUnit: 2 }))],
      ['L: 1', 'R: 0', 'T: 9', 'Retry-After: 9'],
    ],
    [
      'of quotas the one that ends first',
      [until(50, over({ quotaMode: true, requestsPerUnit: 1 })), until(20, quotaOver)],
      ['L: 10', 'R: 0', 'T: 20', 'Retry-After: 20'],
    ],
    [
      'a limit that ends after the quotas',
      [until(50, over({ requestsPerUnit: 1 })), until(20, quotaOver)],
      ['L: 1', 'R: 0', 'T: 50', 'Retry-After: 50'],
    ],
    [
      'the least remaining where a quota lets the request pass',
      [until(50, quotaOver), until(20, ok(3, { quotaMode: true, requestsPerUnit: 4 }))],
      ['L: 10', 'R: 0', 'T: 50'],
    ],
    [
      'the least remaining where nothing refuses',
      [ok(5), ok(3, { requestsPerUnit: 4 })],
      ['L: 4', 'R: 3', 'T: 37'],
    ],
    ['a reset of 0 as it is', [until(0, ok(3))], ['L: 10', 'R: 3', 'T: 0']],
  ])('describe %s', (_, parts, headers) => {
    expect(headerTexts(assemble(parts, options).response.responseHeadersToAdd)).toEqual(headers);
  });

  it('have no Retry-After if waiting does not help', () => {
    const never = until(50, over());
    never.status.neverPasses = true;
    const { response } = assemble([until(99, over({ requestsPerUnit: 1 })), never], options);
    expect(headerTexts(response.responseHeadersToAdd)).toEqual(['L: 10', 'R: 0', 'T: 50']);
  });
});

describe('per-unit headers', () => {
  it('come for each unit from short to long, before the standard ones', () => {
    const units = [Unit.YEAR, Unit.MONTH, Unit.WEEK, Unit.DAY, Unit.HOUR, Unit.MINUTE, Unit.SECOND];
    const parts = units.map((unit) => ok(unit, { unit, requestsPerUnit: 10 * unit }));
    const { response } = assemble(parts, { perUnitHeaders: true, responseHeaders: names });
    expect(headerTexts(response.responseHeadersToAdd)).toEqual([
      'RateLimit-Limit-Seconds: 10',
      'RateLimit-Remaining-Seconds: 1',
      'RateLimit-Limit-Minutes: 20',
      'RateLimit-Remaining-Minutes: 2',
      'RateLimit-Limit-Hours: 30',
      'RateLimit-Remaining-Hours: 3',
      'RateLimit-Limit-Days: 40',
      'RateLimit-Remaining-Days: 4',
      'RateLimit-Limit-Weeks: 70',
      'RateLimit-Remaining-Weeks: 7',
      'RateLimit-Limit-Months: 50',
      'RateLimit-Remaining-Months: 5',
      'RateLimit-Limit-Years: 60',
      'RateLimit-Remaining-Years: 6',
      'L: 10',
      'R: 1',
      'T: 37',
    ]);
  });

  it('describe the least remaining of each unit, and work alone', () => {
    const parts = [
      ok(5),
      unmatched,
      ok(3, { requestsPerUnit: 4 }),
      ok(3),
      ok(7),
      unlimited,
      ok(9, { unit: Unit.DAY }),
    ];
    const { response } = assemble(parts, { perUnitHeaders: true });
    expect(headerTexts(response.responseHeadersToAdd)).toEqual([
      'RateLimit-Limit-Minutes: 4',
      'RateLimit-Remaining-Minutes: 3',
      'RateLimit-Limit-Days: 10',
      'RateLimit-Remaining-Days: 9',
    ]);
    expect(response.requestHeadersToAdd).toEqual([]);
  });

  it('are absent when no status has a limit', () => {
    const { response } = assemble([unmatched, unlimited], { perUnitHeaders: true, responseHeaders: names });
    expect(response.responseHeadersToAdd).toEqual([]);
  });
});

describe('dynamic metadata', () => {
  it('is absent unless asked for', () => {
    expect(assemble([ok(1, { metadata: { a: 1 } })]).response.dynamicMetadata).toBeUndefined();
  });

  it('comes when asked for', () => {
    const { response } = assemble([ok(1, { metadata: { a: 1 } })], { dynamicMetadata: true });
    expect(response.dynamicMetadata).toEqual({ domain: 'd', descriptors: [], metadata: { a: 1 } });
  });
});
