import { describe, expect, it } from 'vitest';
import { rpcAttributes, rpcConvention, rpcStatus } from './call-tracers.ts';

const path = '/package.Service/Method';

describe('rpcConvention', () => {
  it.each([
    ['', 'stable'],
    ['http', 'stable'],
    ['rpc', 'stable'],
    ['rpc/old', 'old'],
    ['http, rpc/old', 'old'],
    ['rpc/dup', 'dup'],
    ['rpc/old,rpc/dup', 'dup'],
  ] as const)('reads "%s" as %s', (optIn, want) => {
    expect(rpcConvention(optIn)).toBe(want);
  });
});

describe('rpcAttributes', () => {
  it('have three forms', () => {
    expect(rpcAttributes(path, 'stable')).toEqual({
      'rpc.system.name': 'grpc',
      'rpc.method': 'package.Service/Method',
    });
    expect(rpcAttributes(path, 'old')).toEqual({
      'rpc.system': 'grpc',
      'rpc.service': 'package.Service',
      'rpc.method': 'Method',
    });
    expect(rpcAttributes(path, 'dup')).toEqual({
      'rpc.system.name': 'grpc',
      'rpc.system': 'grpc',
      'rpc.service': 'package.Service',
      'rpc.method': 'package.Service/Method',
    });
  });
});

describe('rpcStatus', () => {
  it.each([
    [0, 'OK', false],
    [1, 'CANCELLED', false],
    [2, 'UNKNOWN', true],
    [3, 'INVALID_ARGUMENT', false],
    [4, 'DEADLINE_EXCEEDED', true],
    [8, 'RESOURCE_EXHAUSTED', false],
    [12, 'UNIMPLEMENTED', true],
    [13, 'INTERNAL', true],
    [14, 'UNAVAILABLE', true],
    [16, 'UNAUTHENTICATED', false],
    [99, '99', false],
  ])('%i is %s', (code, name, isFault) => {
    expect(rpcStatus(code)).toEqual({ name, isFault });
  });
});
