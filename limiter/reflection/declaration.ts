/** GRPC_REFLECTION: callers may list the services. */
import { bool } from '../../process/settings/settings-kinds.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';
import type { Capability } from '../capabilities/capability.ts';

const rows = {
  grpcReflection: {
    name: 'GRPC_REFLECTION',
    kind: bool(),
    summary:
      'List the services to callers (server reflection), so that tools such as `grpcurl` need no proto files. Not in the Go service.',
  },
} as const;

export const reflection = {
  name: 'reflection',
  settings: { title: 'gRPC connections', before: 'grpcServerUseTls', rows },
  isWanted: ({ grpcReflection }) => grpcReflection,
  load: () => import('./reflection.ts'),
} as const satisfies Capability<SettingsOf<typeof rows>>;
