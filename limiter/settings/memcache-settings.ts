/** Settings of memcache: a part of the table in settings.ts. */
import { errorText } from '../../process/log/error-text.ts';
import { bool, duration, integer, text } from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import {
  pairCheck,
  problems,
  type SettingsError,
  type SettingsOf,
  type SettingsTable,
} from '../../process/settings/settings-reader.ts';
import { isSrvName, parseMemcacheAddresses } from '../stores/memcache/memcache-nodes.ts';

const dayMs = 24 * 3_600_000;

const overTls: readonly SettingNeed[] = [
  { name: 'MEMCACHE_TLS', is: [true], otherwise: 'the limiter connects to memcached in plain text' },
];

export const memcacheSettings = needing([{ name: 'BACKEND_TYPE', is: ['memcache'] }], {
  memcacheHostPort: {
    name: 'MEMCACHE_HOST_PORT',
    kind: text(),
    summary:
      'memcached nodes, separated by commas: each `host:port` or the path of a socket, in the same order for all limiters. Blanks around each are ignored.',
  },
  memcacheSrv: {
    name: 'MEMCACHE_SRV',
    kind: text(),
    summary:
      'DNS name of SRV records with the nodes, `_service._proto.name`, in place of `MEMCACHE_HOST_PORT`.',
  },
  memcacheSrvRefreshMs: {
    name: 'MEMCACHE_SRV_REFRESH',
    needs: [{ name: 'MEMCACHE_SRV', is: 'set' }],
    kind: duration({ min: 0, max: dayMs }),
    default: 0,
    summary: 'How often to look up `MEMCACHE_SRV` again; 0: only at the start.',
  },
  memcacheMaxIdleConns: {
    name: 'MEMCACHE_MAX_IDLE_CONNS',
    kind: integer({ min: -2_147_483_648, max: 64 }),
    default: 2,
    summary: 'Connections to each node; a value below 1 means 2.',
  },
  memcacheTls: {
    name: 'MEMCACHE_TLS',
    kind: bool(),
    summary: 'Use TLS for memcached.',
  },
  memcacheTlsClientCert: {
    name: 'MEMCACHE_TLS_CLIENT_CERT',
    needs: overTls,
    kind: text(),
    summary: "PEM file with the limiter's certificate, read again for every connection; empty: none.",
  },
  memcacheTlsClientKey: {
    name: 'MEMCACHE_TLS_CLIENT_KEY',
    needs: overTls,
    kind: text(),
    summary: "PEM file with the key of the limiter's certificate.",
  },
  memcacheTlsCaCert: {
    name: 'MEMCACHE_TLS_CACERT',
    needs: overTls,
    kind: text(),
    summary: 'PEM file with authorities to trust in addition to the default ones.',
  },
  memcacheTlsSkipHostnameVerification: {
    name: 'MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION',
    needs: overTls,
    kind: bool(),
    summary: "Accept a node's certificate with any name. The limiter still verifies its signature.",
  },
} as const satisfies SettingsTable);

type MemcacheSettings = SettingsOf<typeof memcacheSettings>;

/**
 * Returns the errors of values that do not fit together with `BACKEND_TYPE=memcache`. Values that are invalid by themselves are missing.
 */
export function memcacheProblems(settings: Partial<MemcacheSettings>): SettingsError[] {
  const { memcacheHostPort: nodes, memcacheSrv: srv, memcacheTls = false } = settings;
  if (nodes === undefined || srv === undefined) return [];
  const { memcacheTlsClientCert: cert = '', memcacheTlsClientKey: key = '' } = settings;
  const isBoth = nodes !== '' && srv !== '';
  const badNodes = srv === '' && nodes !== '' ? nodesProblem(nodes) : undefined;
  return problems([
    [isBoth, 'MEMCACHE_HOST_PORT', 'Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set'],
    [
      !isBoth && srv !== '' && !isSrvName(srv),
      'MEMCACHE_SRV',
      `"${srv}" is not of the form _service._proto.name`,
    ],
    [
      nodes === '' && srv === '',
      'MEMCACHE_HOST_PORT',
      'must not be empty with BACKEND_TYPE=memcache, unless MEMCACHE_SRV is set',
    ],
    [badNodes !== undefined, 'MEMCACHE_HOST_PORT', badNodes ?? ''],
    pairCheck(memcacheTls, ['MEMCACHE_TLS_CLIENT_CERT', cert], ['MEMCACHE_TLS_CLIENT_KEY', key]),
  ]);
}

function nodesProblem(nodes: string): string | undefined {
  try {
    parseMemcacheAddresses(nodes);
    return undefined;
  } catch (error) {
    return errorText(error);
  }
}
