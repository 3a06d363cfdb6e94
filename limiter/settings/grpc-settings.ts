/** Settings of the gRPC listener beyond its address: a part of the table in settings.ts. */
import { maxPathBytes } from '../../process/net/bind.ts';
import { bool, duration, integer, text, unixMode } from '../../process/settings/settings-kinds.ts';
import type { SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import { serverTlsProblems } from './access-settings.ts';

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;

const overTls: readonly SettingNeed[] = [
  { name: 'GRPC_SERVER_USE_TLS', is: [true], otherwise: 'the limiter answers gRPC in plain text' },
];

export const grpcSettings = {
  grpcUds: {
    name: 'GRPC_UDS',
    kind: text(),
    summary: 'Path of a Unix socket for gRPC, in place of `GRPC_HOST` and `GRPC_PORT`; empty: none.',
  },
  grpcUdsMode: {
    name: 'GRPC_UDS_MODE',
    needs: [{ name: 'GRPC_UDS', is: 'set', otherwise: 'the limiter answers gRPC on a port' }],
    kind: unixMode(),
    default: 0o660,
    summary: 'Permissions of that socket. Callers need the right to write to it. Not in the Go service.',
  },
  grpcMaxConnections: {
    name: 'GRPC_MAX_CONNECTIONS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 10_000,
    summary: 'Connections at a time. The limiter closes further ones at once. Not in the Go service.',
  },
  grpcMaxConnectionAgeMs: {
    name: 'GRPC_MAX_CONNECTION_AGE',
    kind: duration({ min: 0, max: yearMs }),
    default: 24 * hourMs,
    summary:
      'After this time, up to a tenth more or less at random, the limiter ends a connection (GOAWAY); 0: never.',
  },
  grpcMaxConnectionAgeGraceMs: {
    name: 'GRPC_MAX_CONNECTION_AGE_GRACE',
    needs: [
      { name: 'GRPC_MAX_CONNECTION_AGE', is: 'set', or: { name: 'GRPC_MAX_CONNECTION_IDLE', is: 'set' } },
    ],
    kind: duration({ min: 0, max: yearMs }),
    default: hourMs,
    summary:
      'How long the calls of such a connection may continue before the limiter closes it; 0: without a bound.',
  },
  grpcMaxConnectionIdleMs: {
    name: 'GRPC_MAX_CONNECTION_IDLE',
    kind: duration({ min: 0, max: yearMs }),
    default: 0,
    summary:
      'The limiter ends a connection without a call for this time (GOAWAY); 0: never. Not in the Go service.',
  },
  grpcKeepaliveTimeMs: {
    name: 'GRPC_KEEPALIVE_TIME',
    kind: duration({ min: 0, max: yearMs }),
    default: 2 * hourMs,
    summary:
      'The limiter pings a caller that is silent for this time; 0: never. Not a setting of the Go service, whose library has this default.',
  },
  grpcKeepaliveTimeoutMs: {
    name: 'GRPC_KEEPALIVE_TIMEOUT',
    needs: [{ name: 'GRPC_KEEPALIVE_TIME', is: 'set' }],
    kind: duration({ min: 1, max: yearMs }),
    default: 20_000,
    summary:
      'How long the answer to that ping may take before the limiter closes the connection. Not a setting of the Go service, whose library has this default.',
  },
  grpcServerUseTls: {
    name: 'GRPC_SERVER_USE_TLS',
    kind: bool(),
    summary: 'Accept gRPC only over TLS (1.2 or 1.3).',
  },
  grpcServerTlsCert: {
    name: 'GRPC_SERVER_TLS_CERT',
    needs: overTls,
    kind: text(),
    summary: "PEM file with the limiter's certificate and its intermediate certificates.",
  },
  grpcServerTlsKey: {
    name: 'GRPC_SERVER_TLS_KEY',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with the private key of GRPC_SERVER_TLS_CERT. The limiter reads certificate, key and authorities again when they change.',
  },
  grpcClientTlsCaCert: {
    name: 'GRPC_CLIENT_TLS_CACERT',
    needs: overTls,
    kind: text(),
    summary:
      'PEM file with authorities. Callers must present a certificate of one of them; empty: callers need none. Without `GRPC_SERVER_USE_TLS=true` the limiter does not start.',
  },
  grpcClientTlsSan: {
    name: 'GRPC_CLIENT_TLS_SAN',
    needs: [{ name: 'GRPC_CLIENT_TLS_CACERT', is: 'set' }],
    kind: text(),
    summary:
      'DNS name or IP address that the certificate of a caller must contain; empty: any. Without `GRPC_CLIENT_TLS_CACERT` the limiter does not start.',
  },
} as const satisfies SettingsTable;

/** Returns the errors of values that do not fit together. */
export function grpcProblems(settings: Partial<SettingsOf<typeof grpcSettings>>): SettingsError[] {
  const bytes = Buffer.byteLength(settings.grpcUds ?? '');
  return [
    ...serverTlsProblems(settings, 'grpc'),
    ...problems([
      [
        bytes > maxPathBytes,
        'GRPC_UDS',
        `the path has ${bytes} bytes, but the path of a Unix socket has at most ${maxPathBytes}`,
      ],
    ]),
  ];
}

/** Names that people use by mistake for these settings, with the right name of each. */
export const mistakenGrpcNames: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    GRPC_SERVER_USE_TLS: [
      'GRPC_TLS',
      'GRPC_TLS_ENABLED',
      'GRPC_USE_TLS',
      'GRPC_SERVER_TLS',
      'GRPC_SERVER_TLS_ENABLED',
    ],
    GRPC_SERVER_TLS_CERT: [
      'GRPC_CERT',
      'GRPC_CERT_FILE',
      'GRPC_TLS_CERT',
      'GRPC_TLS_CERT_FILE',
      'GRPC_SERVER_CERT',
      'GRPC_SERVER_CERT_FILE',
      'GRPC_SERVER_TLS_CERT_FILE',
      'GRPC_SERVER_TLS_CERTIFICATE',
    ],
    GRPC_SERVER_TLS_KEY: [
      'GRPC_KEY',
      'GRPC_KEY_FILE',
      'GRPC_TLS_KEY',
      'GRPC_TLS_KEY_FILE',
      'GRPC_SERVER_KEY',
      'GRPC_SERVER_KEY_FILE',
      'GRPC_SERVER_TLS_KEY_FILE',
    ],
    GRPC_CLIENT_TLS_CACERT: [
      'GRPC_CA',
      'GRPC_CACERT',
      'GRPC_TLS_CA',
      'GRPC_TLS_CACERT',
      'GRPC_CLIENT_CA',
      'GRPC_CLIENT_CACERT',
      'GRPC_CLIENT_TLS_CA',
      'GRPC_SERVER_TLS_CA',
      'GRPC_SERVER_TLS_CACERT',
      'GRPC_SERVER_TLS_CLIENT_CA',
    ],
    GRPC_CLIENT_TLS_SAN: ['GRPC_TLS_SAN', 'GRPC_CLIENT_SAN', 'GRPC_SERVER_TLS_SAN'],
    GRPC_UDS: ['GRPC_SOCKET', 'GRPC_UNIX_SOCKET', 'GRPC_SERVER_UDS'],
  }).flatMap(([meant, names]) => names.map((name) => [name, meant])),
);
