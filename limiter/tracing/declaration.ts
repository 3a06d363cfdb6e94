/** TRACING_*: spans of calls and of the store, exported over OTLP. */
import type { Capability } from '../capabilities/capability.ts';
import {
  type OwnSettings,
  type TracingSettings,
  tracingSettings,
  tracingValues,
  tracingWarnings,
} from './settings.ts';

export const tracing = {
  name: 'tracing',
  settings: {
    title: 'Tracing',
    rows: tracingSettings,
    ownPrefixes: ['TRACING_'],
    warnings: tracingWarnings,
    derived: tracingValues,
  },
  isWanted: ({ tracingEnabled }) => tracingEnabled,
  load: () => import('./threads.ts'),
} as const satisfies Capability<TracingSettings, OwnSettings>;
