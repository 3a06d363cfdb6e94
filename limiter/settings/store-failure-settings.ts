/** What happens when a store of counters fails. Rows of the table in `settings.ts`. */
import { choice, duration, integer } from '../../process/settings/settings-kinds.ts';
import { needing } from '../../process/settings/settings-needs.ts';
import type { SettingsTable } from '../../process/settings/settings-reader.ts';

const mebibyte = 1024 * 1024;

export const storeFailureSettings = needing([{ name: 'BACKEND_TYPE', is: ['redis'] }], {
  storeFailureMode: {
    name: 'STORE_FAILURE_MODE',
    needs: [{ name: 'BACKEND_TYPE', is: ['redis', 'memcache'] }],
    kind: choice({ values: ['error', 'allow', 'deny', 'local'] }),
    default: 'error',
    summary:
      'What requests get whose counters fail: a gRPC error, OK, OVER_LIMIT, or counts of this process alone, which are added to the store when it is back. With memcache they pass unless this is set. Not in the Go service.',
  },
  storeBreakerSilenceMs: {
    name: 'STORE_BREAKER_SILENCE',
    kind: duration({ min: 100, max: 3_600_000 }),
    default: 700,
    summary:
      'When requests wait for so long, or up to an eighth longer, and the store has answered none, it is not asked until it answers a PING; nor is a single node of a Redis Cluster. Not in the Go service.',
  },
  storeBreakerProbeIntervalMs: {
    name: 'STORE_BREAKER_PROBE_INTERVAL',
    kind: duration({ min: 10, max: 3_600_000 }),
    default: 250,
    summary:
      'How often a store that failed is asked for a PING, less up to a quarter. Not in the Go service.',
  },
  storeBreakerMaxWaiting: {
    name: 'STORE_BREAKER_MAX_WAITING',
    kind: integer({ min: 1, max: 16_000_000 }),
    default: 65_536,
    summary: 'Requests that wait for the store at most; more are not asked for. Not in the Go service.',
  },
  storeBreakerMaxWaitingBytes: {
    name: 'STORE_BREAKER_MAX_WAITING_BYTES',
    kind: integer({ min: 1024, max: 64 * 1024 * mebibyte }),
    default: 64 * mebibyte,
    summary: 'What they may occupy, keys included; likewise. Not in the Go service.',
  },
} as const satisfies SettingsTable);
