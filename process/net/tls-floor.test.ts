import tls from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { holdTlsFloor, oldestTls } from './tls-floor.ts';

it('holds the oldest version, and takes out what turns verification off', () => {
  const { DEFAULT_MIN_VERSION: before } = tls;
  onTestFinished(() => {
    tls.DEFAULT_MIN_VERSION = before;
  });
  tls.DEFAULT_MIN_VERSION = 'TLSv1';
  const environment = { NODE_TLS_REJECT_UNAUTHORIZED: '0', PATH: '/bin' };
  expect([holdTlsFloor(environment), holdTlsFloor(environment)]).toEqual([true, false]);
  expect([environment, tls.DEFAULT_MIN_VERSION]).toEqual([{ PATH: '/bin' }, oldestTls]);
});
