import tls from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { enforceMinimumTls, minimumTlsVersion } from './minimum-tls.ts';

it('holds the oldest version, and takes out what turns verification off', () => {
  const { DEFAULT_MIN_VERSION: before } = tls;
  onTestFinished(() => {
    tls.DEFAULT_MIN_VERSION = before;
  });
  tls.DEFAULT_MIN_VERSION = 'TLSv1';
  const environment = { NODE_TLS_REJECT_UNAUTHORIZED: '0', PATH: '/bin' };
  expect([enforceMinimumTls(environment), enforceMinimumTls(environment)]).toEqual([true, false]);
  expect([environment, tls.DEFAULT_MIN_VERSION]).toEqual([{ PATH: '/bin' }, minimumTlsVersion]);
});
