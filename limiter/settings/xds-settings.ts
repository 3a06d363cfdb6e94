/** Settings of the xDS client that receives rules: a part of the table in settings.ts. */
import { z } from 'zod';
import { isLoopback } from '../../process/net/bind.ts';
import { formatGoDuration } from '../../process/settings/go-values.ts';
import {
  bool,
  dnsLabel,
  duration,
  float,
  integer,
  type SettingKind,
  text,
  textOf,
} from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  pairCheck,
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import { headerPairs, metadataPairs } from './settings-pairs.ts';

const dayMs = 24 * 3_600_000;
const mebibyte = 1024 * 1024;

const fromXds: SettingNeed = { name: 'CONFIG_TYPE', is: ['GRPC_XDS_SOTW', 'GRPC_XDS_DELTA'] };
const overTls: readonly SettingNeed[] = [
  {
    name: 'CONFIG_GRPC_XDS_SERVER_USE_TLS',
    is: [true],
    otherwise: 'the limiter connects to the xDS server in plain text',
  },
];

export const xdsSettings = needing([fromXds], {
  xdsServerUrl: {
    name: 'CONFIG_GRPC_XDS_SERVER_URL',
    kind: grpcTarget(),
    default: 'localhost:18000',
    summary: 'Address of the xDS server.',
  },
  xdsNodeId: {
    name: 'CONFIG_GRPC_XDS_NODE_ID',
    kind: text(),
    default: 'default',
    summary:
      'ID of the node that the limiter sends. Without `POD_NAME`, an ID other than the default is also the name of the limiter.',
  },
  xdsFleet: {
    name: 'CONFIG_GRPC_XDS_FLEET',
    kind: dnsLabel(),
    default: 'default',
    summary:
      'The fleet whose rules a Weir control plane sends: `spec.fleet` of its RateLimitConfigs. The limiter sends it as the node metadata `fleet`. Not in the Go service.',
  },
  xdsNodeMetadata: {
    name: 'CONFIG_GRPC_XDS_NODE_METADATA',
    kind: metadataPairs(),
    default: [],
    summary: "More node metadata. It takes precedence over the limiter's own `pod`, `fleet` and `instance`.",
  },
  podName: {
    name: 'POD_NAME',
    needs: [{ ...fromXds, quiet: true }],
    kind: text(),
    summary:
      'Name of this limiter in statuses and in the admin API, sent as the node metadata `pod`. Empty: `CONFIG_GRPC_XDS_NODE_ID` if set, otherwise the host name. Not in the Go service.',
  },
  xdsConnectRetryMs: {
    name: 'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 3_000,
    summary:
      'Shortest wait after a failed attempt to connect. Further waits grow as with `XDS_CLIENT_BACKOFF_*`.',
  },
  xdsAdditionalHeaders: {
    name: 'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
    kind: headerPairs(),
    default: [],
    secret: true,
    summary: 'Headers for the xDS server, such as an authorization. Names are sent in lower case.',
  },
  xdsTokenFile: {
    name: 'CONFIG_GRPC_XDS_TOKEN_FILE',
    kind: text(),
    summary:
      'File with the token that authenticates the limiter to the xDS server, sent as `authorization: Bearer` and read again for every stream. Empty: none. Not in the Go service.',
  },
  xdsUseTls: {
    name: 'CONFIG_GRPC_XDS_SERVER_USE_TLS',
    kind: bool(),
    summary: 'Use TLS for the xDS server.',
  },
  xdsTlsCert: {
    name: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT',
    needs: overTls,
    kind: text(),
    summary: "PEM file with the limiter's certificate, read again for every connection; empty: none.",
  },
  xdsTlsKey: {
    name: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY',
    needs: overTls,
    kind: text(),
    summary: "PEM file with the key of the limiter's certificate.",
  },
  xdsTlsCa: {
    name: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT',
    needs: overTls,
    kind: text(),
    summary: 'PEM file with authorities to trust in addition to the default ones.',
  },
  xdsTlsSan: {
    name: 'CONFIG_GRPC_XDS_SERVER_TLS_SAN',
    needs: overTls,
    kind: text(),
    summary: "Name that the server's certificate must contain; empty: the host of the address.",
  },
  xdsKeepaliveMs: {
    name: 'CONFIG_GRPC_XDS_KEEPALIVE_INTERVAL',
    kind: duration({ min: 0, max: dayMs }),
    default: 40_000,
    summary:
      'How often the limiter pings the xDS server. It notices a lost server 15 s after a ping; 0: never. Not in the Go service.',
  },
  xdsBackoffInitialMs: {
    name: 'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 10_000,
    summary: 'Shortest wait after a broken stream, at most `XDS_CLIENT_BACKOFF_MAX_INTERVAL`.',
  },
  xdsBackoffMaxMs: {
    name: 'XDS_CLIENT_BACKOFF_MAX_INTERVAL',
    kind: duration({ min: 1, max: dayMs }),
    default: 60_000,
    summary: 'Longest wait after a broken stream or a failed attempt to connect.',
  },
  xdsBackoffFactor: {
    name: 'XDS_CLIENT_BACKOFF_RANDOM_FACTOR',
    kind: float({ min: 0, max: 1_000 }),
    default: 1.6,
    summary:
      'Each wait is this many times the previous one, and at least the shortest wait. Above 1, waits grow; otherwise all waits are the shortest one.',
  },
  xdsBackoffJitter: {
    name: 'XDS_CLIENT_BACKOFF_JITTER',
    kind: bool(),
    default: true,
    summary:
      'Wait for a random time between the shortest wait and the calculated one. The first wait varies like the second, unless `XDS_CLIENT_BACKOFF_RANDOM_FACTOR` is set.',
  },
  xdsMaxMessageBytes: {
    name: 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES',
    kind: integer({ min: 0, max: 2_147_483_647 }),
    default: 0,
    summary: 'Largest response that the limiter accepts; 0: 256 MiB (100,000 small rules need 4 MiB).',
  },
  xdsMaxBytes: {
    name: 'XDS_CLIENT_MAX_TOTAL_BYTES',
    kind: integer({ min: 1024 * 1024, max: 2_147_483_647 }),
    default: 64 * mebibyte,
    summary:
      'Largest size of all resources by incremental xDS, with 512 bytes for each. Beyond it, the limiter NACKs, ends the stream, and keeps its rules. Not in the Go service.',
  },
} as const satisfies SettingsTable);

type XdsSettings = SettingsOf<typeof xdsSettings>;

/** Returns the effective value of XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES. Chosen, as a default: the maximum size of rule files. */
export function xdsMaxMessageBytes({
  xdsMaxMessageBytes: set,
}: Pick<XdsSettings, 'xdsMaxMessageBytes'>): number {
  return set === 0 ? 256 * mebibyte : set;
}

/** Returns the errors of values that do not fit together, if rules come from an xDS server. */
export function xdsProblems(settings: Partial<XdsSettings>): SettingsError[] {
  const { xdsBackoffInitialMs: initialMs = 0, xdsBackoffMaxMs: maxMs = Number.POSITIVE_INFINITY } = settings;
  const { xdsTokenFile = '', xdsAdditionalHeaders = [], xdsUseTls = false } = settings;
  const { xdsTlsCert = '', xdsTlsKey = '' } = settings;
  return problems([
    [
      initialMs > maxMs,
      'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL',
      `${formatGoDuration(initialMs)} must not be above XDS_CLIENT_BACKOFF_MAX_INTERVAL, ${formatGoDuration(maxMs)}`,
    ],
    [
      xdsTokenFile !== '' && xdsAdditionalHeaders.some(([name]) => name === 'authorization'),
      'CONFIG_GRPC_XDS_TOKEN_FILE',
      'is set together with an authorization in CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: keep one of them',
    ],
    pairCheck(
      xdsUseTls,
      ['CONFIG_GRPC_XDS_CLIENT_TLS_CERT', xdsTlsCert],
      ['CONFIG_GRPC_XDS_CLIENT_TLS_KEY', xdsTlsKey],
    ),
  ]);
}

/** Returns warnings about settings that work but are unsafe. */
export function xdsWarnings({ xdsTokenFile, xdsUseTls, xdsServerUrl }: XdsSettings): string[] {
  if (xdsTokenFile === '' || xdsUseTls || staysHere(xdsServerUrl)) return [];
  return [
    'CONFIG_GRPC_XDS_TOKEN_FILE: others on the network can read the token: set CONFIG_GRPC_XDS_SERVER_USE_TLS',
  ];
}

/** Whether traffic to a gRPC target never leaves this machine. */
function staysHere(target: string): boolean {
  if (target.startsWith('unix:')) return true;
  const address = target.replace(/^(dns:(\/\/[^/]*\/)?|ipv[46]:)/, '');
  const host = /^\[(.*)\](:\d+)?$/.exec(address)?.[1] ?? address.replace(/:\d+$/, '');
  return isLoopback(host);
}

/** `passthrough:` tells Go to use an address unchanged. The same address without scheme has this meaning here. */
function grpcTarget(): SettingKind<string> {
  return textOf(
    'the address of a gRPC server: host:port, dns:///host:port, ipv4:address:port, ipv6:[address]:port or unix:path',
    'gRPC target',
    z
      .string()
      .transform((value) => value.replace(/^passthrough:(?:\/\/\/)?/, ''))
      .pipe(z.string().regex(/^(?:dns:\S+|unix:\S+|unix-abstract:\S+|ipv[46]:\S+|(?!.*:\/\/)[^\s/]+)$/)),
  );
}
