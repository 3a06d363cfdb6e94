import { describe, expect, it } from 'vitest';
import { parseLimiterSettings } from './settings.ts';
import { workersWanted } from './worker-settings.ts';

const parse = (env: Record<string, string>) => parseLimiterSettings({ BACKEND_TYPE: 'redis', ...env });
const messages = (env: Record<string, string>) => parse(env).errors?.map(({ message }) => message);

describe('LIMITER_WORKERS', () => {
  it.each([
    ['1', 1],
    ['2', 2],
    ['256', 256],
    ['auto', 'auto'],
  ])('takes %s', (text, value) => {
    expect(parse({ LIMITER_WORKERS: text }).settings?.limiterWorkers).toBe(value);
  });

  it.each(['0', '257', '-1', '1.5', 'many', ''])("does not take '%s'", (text) => {
    expect(messages({ LIMITER_WORKERS: text })).toEqual([
      `LIMITER_WORKERS: "${text}" is not accepted, expected auto or a whole number from 1 to 256`,
    ]);
  });

  it.each(['2', 'auto'])('is rejected as %s if counters are in memory', (workers) => {
    expect(messages({ LIMITER_WORKERS: workers, BACKEND_TYPE: 'memory' })).toEqual([
      'LIMITER_WORKERS: BACKEND_TYPE=memory cannot be shared by several threads, because each would count for itself; set LIMITER_WORKERS=1 or BACKEND_TYPE=redis',
    ]);
  });

  it.each(['2', 'auto'])('is rejected as %s if gRPC has a Unix socket', (workers) => {
    expect(messages({ LIMITER_WORKERS: workers, GRPC_UDS: '/run/weir.sock' })).toEqual([
      'LIMITER_WORKERS: a Unix socket (GRPC_UDS) cannot be shared by several threads; set LIMITER_WORKERS=1',
    ]);
  });

  it('is 1 beside anything', () => {
    const env = { LIMITER_WORKERS: '1', BACKEND_TYPE: 'memory', GRPC_UDS: '/run/weir.sock' };
    expect(messages(env)).toBeUndefined();
  });

  it.each([
    ['auto', 8, 8],
    ['auto', 1, 1],
    ['auto', 1000, 256],
    [3, 8, 3],
    [3, 1, 3],
  ] as const)('as %s on %i cores is %i', (count, cores, wanted) => {
    expect(workersWanted(count, cores)).toBe(wanted);
  });
});
