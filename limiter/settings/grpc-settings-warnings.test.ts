/** Warnings at the start about settings of the gRPC listener that contradict each other. */
import { describe, expect, it } from 'vitest';
import { parseLimiterSettings } from './settings.ts';

const warnings = (env: Record<string, string>) => parseLimiterSettings(env).warnings;
const plain = 'has no effect without GRPC_SERVER_USE_TLS=true: the limiter answers gRPC in plain text';
const tls = { GRPC_SERVER_TLS_CERT: '/c.pem', GRPC_SERVER_TLS_KEY: '/k.pem' };

describe('settings of the gRPC listener', () => {
  it.each([
    ['a certificate', tls, [`GRPC_SERVER_TLS_CERT ${plain}`, `GRPC_SERVER_TLS_KEY ${plain}`]],
    ['TLS that is switched off', { ...tls, GRPC_SERVER_USE_TLS: 'false' }, 2],
    ['TLS', { ...tls, GRPC_SERVER_USE_TLS: 'true' }, []],
    [
      'permissions without a socket',
      { GRPC_UDS_MODE: '0660' },
      ['GRPC_UDS_MODE has no effect without GRPC_UDS: the limiter answers gRPC on a port'],
    ],
    [
      'a socket and a port',
      { GRPC_UDS: '/s', GRPC_PORT: '8081', GRPC_HOST: '0.0.0.0' },
      ['GRPC_HOST', 'GRPC_PORT'].map(
        (name) => `${name} has no effect with GRPC_UDS: the limiter answers gRPC only on that socket`,
      ),
    ],
    ['a socket', { GRPC_UDS: '/s', GRPC_UDS_MODE: '0600' }, []],
    ['a port', { GRPC_PORT: '8082', GRPC_HOST: '127.0.0.1' }, []],
  ] as [string, Record<string, string>, string[] | number][])(
    'warn of what has no effect: %s',
    (_, env, wanted) => {
      const reported = warnings(env);
      if (typeof wanted === 'number') expect(reported).toHaveLength(wanted);
      else expect(reported).toEqual(wanted);
    },
  );

  it.each([
    ['GRPC_TLS_CERT', 'GRPC_SERVER_TLS_CERT'],
    ['GRPC_TLS_KEY', 'GRPC_SERVER_TLS_KEY'],
    ['GRPC_SERVER_TLS', 'GRPC_SERVER_USE_TLS'],
    ['GRPC_USE_TLS', 'GRPC_SERVER_USE_TLS'],
    ['GRPC_CLIENT_TLS_CA', 'GRPC_CLIENT_TLS_CACERT'],
    ['GRPC_SERVER_TLS_SAN', 'GRPC_CLIENT_TLS_SAN'],
    ['GRPC_SOCKET', 'GRPC_UDS'],
    ['GRPC_CLIENT_TLS_CA_CERT', 'GRPC_CLIENT_TLS_CACERT'],
  ])('are guessed from %s', (name, meant) => {
    expect(warnings({ [name]: '1' })).toEqual([
      `${name} is unknown to this version and ignored; did you mean ${meant}?`,
    ]);
  });

  it('are not guessed from what gRPC libraries read', () => {
    const theirs = [
      'GRPC_VERBOSITY',
      'GRPC_TRACE',
      'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
      'GRPC_SSL_CIPHER_SUITES',
    ];
    for (const name of theirs) expect(warnings({ [name]: '1' })).toEqual([]);
  });

  it('reject a path that is too long for a Unix socket, in bytes', () => {
    const errors = (path: string) =>
      parseLimiterSettings({ GRPC_UDS: path }).errors?.map(({ message }) => message);
    expect(errors('/'.padEnd(107, 'a'))).toBeUndefined();
    expect(errors('/'.padEnd(54, 'ä'))).toBeUndefined();
    expect(errors('/'.padEnd(55, 'ä'))).toEqual([
      'GRPC_UDS: the path has 109 bytes, but the path of a Unix socket has at most 107',
    ]);
    expect(errors('/'.padEnd(108, 'a'))).toHaveLength(1);
  });
});
