/** Settings of the control plane: its table, read from an environment. */
import {
  type Environment,
  readSettings,
  type SettingsResult,
  type SettingsSchema,
} from '../../process/settings/settings-reader.ts';
import { problemsOf, warningsOf } from './checks.ts';
import { table } from './table.ts';

const schema: SettingsSchema<typeof table> = {
  table,
  aliases: { prefixes: [], names: {} },
  ownPrefixes: [
    'ADMISSION_',
    'API_ALLOW_',
    'API_TLS_',
    'API_TOKEN_',
    'CLASS_',
    'DOMAIN_OWNERS_',
    'DOMAIN_OWNERSHIP_',
    'DOMAIN_RELEASE_',
    'FLEET_SERVICES_',
    'LABEL_SELECTOR_',
    'LEASE_',
    'MANIFESTS_',
    'MERGE_DOMAIN_',
    'REPLICA_LEASE_',
    'STATUS_WRITES_',
    'WATCH_NAMESPACES_',
    'WEBHOOK_',
    'XDS_',
  ],
  warn: warningsOf,
  unsafeToIgnore: [
    'XDS_TLS_CACERT',
    'XDS_TLS_CLIENT_CA',
    'API_TLS_CLIENT_CACERT',
    'ADMISSION_TLS_CLIENT_CACERT',
  ],
  check: problemsOf,
};

/** All errors at once, without the value of any secret. */
export function parseControlPlaneSettings(env: Environment): SettingsResult<typeof table> {
  return readSettings(schema, env);
}
