/** All environment variables of the control plane, by subject. */
import { logFormats, logLevels } from '../../process/log/logger.ts';
import {
  bindHost,
  bool,
  choice,
  dnsLabel,
  duration,
  hostName,
  integer,
  list,
  objectName,
  pairs,
  port,
  text,
} from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { defaultClass } from '../../rules/language/kinds.ts';
import { defaultOverridesMaxSeconds } from '../../rules/override.ts';
import { domainOwnerships } from '../model/domain-owners.ts';
import { clientName, labelSelector, serviceName } from './settings-kinds.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const tenYearsSeconds = 10 * 366 * 86_400;

const fromCluster: SettingNeed = { name: 'SOURCE', is: ['KUBERNETES'] };
const withToken: SettingNeed = { name: 'API_TOKEN', is: 'set', or: { name: 'API_TOKEN_FILE', is: 'set' } };
const withAdmission: readonly SettingNeed[] = [fromCluster, { name: 'ADMISSION_TLS_CERT', is: 'set' }];
const withUrls: readonly SettingNeed[] = [{ name: 'WEBHOOK_URLS', is: 'set' }];

const source = {
  source: {
    name: 'SOURCE',
    kind: choice({ values: ['KUBERNETES', 'DIRECTORY'] }),
    default: 'KUBERNETES',
    summary: 'Source of RateLimitConfigs: a cluster, or a directory of manifests and rule files.',
  },
  manifestsDirectory: {
    name: 'MANIFESTS_DIRECTORY',
    needs: [{ name: 'SOURCE', is: ['DIRECTORY'] }],
    kind: text(),
    summary:
      'Directory of manifests and rule files, `*.yaml`, `*.yml` and `*.json`. Necessary with `SOURCE=DIRECTORY`, and not allowed otherwise.',
  },
  className: {
    name: 'CLASS_NAME',
    kind: dnsLabel(),
    default: defaultClass,
    summary:
      'The control plane serves, and writes to, only objects with this `spec.className`. Two control planes in a cluster have one each.',
  },
  watchNamespaces: {
    name: 'WATCH_NAMESPACES',
    needs: [fromCluster],
    kind: list(dnsLabel(), { max: 1000 }),
    default: [] as readonly string[],
    summary: 'Namespaces whose RateLimitConfigs and RateLimitOverrides the control plane serves; empty: all.',
  },
  labelSelector: {
    name: 'LABEL_SELECTOR',
    needs: [fromCluster],
    kind: labelSelector(),
    default: '',
    summary:
      'The control plane serves only RateLimitConfigs and RateLimitOverrides with these labels; empty: all.',
  },
  fleetServices: {
    name: 'FLEET_SERVICES',
    needs: [fromCluster],
    kind: pairs({ name: { ...dnsLabel(), brief: 'fleet' }, value: serviceName(), max: 1000 }),
    default: new Map() as ReadonlyMap<string, readonly string[]>,
    summary:
      'The Service of the limiters of a fleet. The control plane creates a RateLimitFleet for each such fleet without one, and never changes it.',
  },
  kubeconfig: {
    name: 'KUBECONFIG',
    needs: [{ ...fromCluster, quiet: true }],
    kind: text(),
    summary:
      'Kubeconfig files, separated by `:`. Empty: the service account of the pod, otherwise `~/.kube/config`.',
  },
} as const satisfies SettingsTable;

const decisions = {
  mergeDomainConfig: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: bool(),
    summary: 'Several RateLimitConfigs of a fleet may have rules for one domain. Limiters get them as one.',
  },
  domainOwners: {
    name: 'DOMAIN_OWNERS',
    kind: text(),
    summary: '[Which namespaces may use which domains](#who-may-use-a-domain); empty: no entries.',
  },
  domainOwnership: {
    name: 'DOMAIN_OWNERSHIP',
    kind: choice({ values: domainOwnerships }),
    default: 'open',
    summary:
      'Who may use a domain without an entry in `DOMAIN_OWNERS` or in `domains` of the RateLimitFleet: `open`: every namespace, `claimed`: none.',
  },
  domainReleaseDelayMs: {
    name: 'DOMAIN_RELEASE_DELAY',
    needs: [fromCluster],
    kind: duration({ min: 0, max: 24 * hourMs }),
    default: minuteMs,
    summary: 'How long the control plane reserves a released domain for its last namespace; 0: not reserved.',
  },
  overridesMaxSeconds: {
    name: 'OVERRIDES_MAX_SECONDS',
    kind: integer({ min: 1, max: tenYearsSeconds }),
    default: defaultOverridesMaxSeconds,
    summary:
      'Longest duration of a RateLimitOverride with `for` or `expiresAt`, in seconds from its creation (30 days). Use `permanent` for longer ones.',
  },
} as const satisfies SettingsTable;

const xds = {
  xdsHost: {
    name: 'XDS_HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the listener for limiters (gRPC: aggregated discovery, health).',
  },
  xdsPort: {
    name: 'XDS_PORT',
    kind: port({ min: 0 }),
    default: 18_000,
    summary: 'Port of the listener for limiters; 0 chooses any free port.',
  },
  xdsTlsCert: {
    name: 'XDS_TLS_CERT',
    kind: text(),
    summary: 'File with the certificate chain (PEM) for limiters, read again when it changes; empty: no TLS.',
  },
  xdsTlsKey: {
    name: 'XDS_TLS_KEY',
    needs: [{ name: 'XDS_TLS_CERT', is: 'set' }],
    kind: text(),
    summary: 'File with the key (PEM) of `XDS_TLS_CERT`.',
  },
  xdsTlsClientCacert: {
    name: 'XDS_TLS_CLIENT_CACERT',
    needs: [{ name: 'XDS_TLS_CERT', is: 'set' }],
    kind: text(),
    summary:
      "File with the authorities (PEM) of limiters' certificates. Limiters must then present a certificate, or a token if tokens are configured.",
  },
  xdsTokensFile: {
    name: 'XDS_TOKENS_FILE',
    kind: text(),
    summary:
      'File with the tokens that authenticate limiters: a name and its token on each line. Read again when it changes.',
  },
  xdsTokenAudience: {
    name: 'XDS_TOKEN_AUDIENCE',
    needs: [{ name: 'XDS_CLIENT_FLEETS', is: 'set' }],
    kind: text(),
    default: 'weir-control-plane',
    summary: 'Audience of service account tokens, see `XDS_CLIENT_FLEETS`.',
  },
  xdsTokenReviewsPerSecond: {
    name: 'XDS_TOKEN_REVIEWS_PER_SECOND',
    needs: [{ name: 'XDS_CLIENT_FLEETS', is: 'set' }],
    kind: integer({ min: 1, max: 10_000 }),
    default: 100,
    summary: 'Maximum number of service account tokens that a replica asks the API server about in a second.',
  },
  xdsClientFleets: {
    name: 'XDS_CLIENT_FLEETS',
    kind: pairs({ name: clientName(), value: { ...dnsLabel(), brief: 'fleet' }, max: 10_000 }),
    default: new Map() as ReadonlyMap<string, readonly string[]>,
    summary:
      'Fleets that a limiter may ask for, by a [name](#which-limiter-may-ask-for-which-fleet) in its certificate, its service account, or the name of its token. Empty: every limiter may ask for any fleet.',
  },
  xdsAllowAnonymous: {
    name: 'XDS_ALLOW_ANONYMOUS',
    kind: bool(),
    summary:
      'Also serve limiters without authentication. They can get the rules of every fleet. Off loopback, the control plane needs this or a way to authenticate limiters.',
  },
  xdsMaxStreams: {
    name: 'XDS_MAX_STREAMS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Limiters of one replica. Beyond it, the address with most streams loses its newest one, or the replica rejects the new stream with RESOURCE_EXHAUSTED.',
  },
  xdsKeepaliveIntervalMs: {
    name: 'XDS_KEEPALIVE_INTERVAL',
    kind: duration({ min: 1000, max: hourMs }),
    default: 10_000,
    summary: 'How often the control plane pings the connection of a limiter.',
  },
  xdsKeepaliveTimeoutMs: {
    name: 'XDS_KEEPALIVE_TIMEOUT',
    kind: duration({ min: 100, max: hourMs }),
    default: 5_000,
    summary: 'How long a limiter may take to answer a ping before the control plane closes its connection.',
  },
} as const satisfies SettingsTable;

const replicas = needing([fromCluster], {
  podName: {
    name: 'POD_NAME',
    needs: [{ ...fromCluster, quiet: true }],
    kind: objectName({ maxLength: 200, mayBeEmpty: true }),
    default: '',
    summary: 'Name of this replica, different for each one. Empty: derived from the name of the machine.',
  },
  podNamespace: {
    name: 'POD_NAMESPACE',
    needs: [{ ...fromCluster, quiet: true }],
    kind: dnsLabel({ mayBeEmpty: true }),
    default: '',
    summary:
      'Namespace of Lease objects and ConfigMaps. Empty: the namespace of the service account of the pod, otherwise `weir-system`.',
  },
  leaseName: {
    name: 'LEASE_NAME',
    kind: objectName({ maxLength: 200, mayBeEmpty: false }),
    default: 'weir-control-plane',
    summary:
      'Name of the Lease object whose holder leads. Only the leader writes status and events and sends webhooks.',
  },
  leaseDurationMs: {
    name: 'LEASE_DURATION',
    kind: duration({ min: 1000, max: hourMs }),
    default: 15_000,
    summary: 'How long after the last renewal by the leader another replica takes over.',
  },
  leaseRenewDeadlineMs: {
    name: 'LEASE_RENEW_DEADLINE',
    kind: duration({ min: 100, max: hourMs }),
    default: 10_000,
    summary:
      'How long a leader that cannot renew its Lease object continues to lead; shorter than `LEASE_DURATION`.',
  },
  leaseRetryPeriodMs: {
    name: 'LEASE_RETRY_PERIOD',
    kind: duration({ min: 100, max: hourMs }),
    default: 2_000,
    summary:
      'Time between two attempts to get or renew the Lease object; shorter than `LEASE_RENEW_DEADLINE`.',
  },
  replicaLeaseDurationMs: {
    name: 'REPLICA_LEASE_DURATION',
    kind: duration({ min: 1000, max: hourMs }),
    default: 5_000,
    summary: 'How long after the last sign of life of a replica its limiters no longer count.',
  },
  statusWritesPerSecond: {
    name: 'STATUS_WRITES_PER_SECOND',
    kind: integer({ min: 1, max: 10_000 }),
    default: 50,
    summary:
      'Maximum number of statuses written in a second: first those with a wrong `Ready=True`, then those of new generations, then the rest.',
  },
} as const satisfies SettingsTable);

const webhooks = needing(withUrls, {
  webhookUrls: {
    name: 'WEBHOOK_URLS',
    needs: [],
    kind: list({ ...text(), brief: '`https://` or `http://` URL' }, { max: 32 }),
    default: [] as readonly string[],
    secret: true,
    summary: 'URLs that get events; empty: none.',
  },
  webhookSecret: {
    name: 'WEBHOOK_SECRET',
    kind: text(),
    secret: true,
    summary: 'Signs events: `whsec_` and 24 to 64 bytes in base64.',
  },
  webhookSecretFile: {
    name: 'WEBHOOK_SECRET_FILE',
    kind: text(),
    summary: 'File with the signing secret, in place of `WEBHOOK_SECRET`. Read again when it changes.',
  },
  webhookSecretOverlapMs: {
    name: 'WEBHOOK_SECRET_OVERLAP',
    kind: duration({ min: 0, max: 30 * 24 * hourMs }),
    default: 24 * hourMs,
    summary: 'How long events are also signed with the previous secret.',
  },
  webhookQueueSize: {
    name: 'WEBHOOK_QUEUE_SIZE',
    kind: integer({ min: 1, max: 100_000 }),
    default: 1000,
    summary:
      'Events that may wait for each URL, and deleted objects that may wait for limiters. Further ones are dropped and counted.',
  },
  webhookTimeoutMs: {
    name: 'WEBHOOK_TIMEOUT',
    kind: duration({ min: 100, max: 10 * minuteMs }),
    default: 10_000,
    summary: 'Maximum time of one attempt to send an event.',
  },
  webhookAllowLocal: {
    name: 'WEBHOOK_ALLOW_LOCAL',
    kind: bool(),
    summary:
      'Also send events to loopback, link-local, unspecified, multicast and cloud metadata addresses. Otherwise such attempts fail.',
  },
} as const satisfies SettingsTable);

const api = {
  apiHost: {
    name: 'API_HOST',
    needs: [withToken],
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the listener for `/v1/webhooks/default/secret`.',
  },
  apiPort: {
    name: 'API_PORT',
    needs: [withToken],
    kind: port({ min: 0 }),
    default: 19_001,
    summary: 'Port of the listener for `/v1/webhooks/default/secret`; 0 chooses any free port.',
  },
  apiTlsCert: {
    name: 'API_TLS_CERT',
    needs: [withToken],
    kind: text(),
    summary:
      'File with the certificate chain (PEM) of the listener for the secret lookup, read again when it changes; empty: no TLS.',
  },
  apiTlsKey: {
    name: 'API_TLS_KEY',
    needs: [{ name: 'API_TLS_CERT', is: 'set' }],
    kind: text(),
    summary: 'File with the key (PEM) of `API_TLS_CERT`.',
  },
  apiToken: {
    name: 'API_TOKEN',
    kind: text(),
    secret: true,
    summary: 'Token for the secret lookup, at least 16 characters. The listener opens only with a token.',
  },
  apiTokenFile: {
    name: 'API_TOKEN_FILE',
    kind: text(),
    summary: 'File with the token, in place of `API_TOKEN`. Read again when it changes.',
  },
  apiAllowPlain: {
    name: 'API_ALLOW_PLAIN',
    needs: [withToken, { name: 'API_TLS_CERT', is: 'unset' }],
    kind: bool(),
    summary:
      'Open the secret lookup off loopback without TLS, although others can then read token and secret on the network.',
  },
} as const satisfies SettingsTable;

const admission = needing(withAdmission, {
  admissionHost: {
    name: 'ADMISSION_HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the listener for admission reviews (`/validate`) by the API server.',
  },
  admissionPort: {
    name: 'ADMISSION_PORT',
    kind: port({ min: 0 }),
    default: 19_002,
    summary: 'Port of the listener for admission reviews; 0 chooses any free port.',
  },
  admissionTlsCert: {
    name: 'ADMISSION_TLS_CERT',
    needs: [fromCluster],
    kind: text(),
    summary:
      'File with the certificate chain (PEM) of the listener for admission reviews, read again when it changes. The listener opens only with a certificate.',
  },
  admissionTlsKey: {
    name: 'ADMISSION_TLS_KEY',
    kind: text(),
    summary: 'File with the key (PEM) of `ADMISSION_TLS_CERT`.',
  },
} as const satisfies SettingsTable);

const operations = {
  httpHost: {
    name: 'HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary:
      'Address of the listener for operators (`/healthz`, `/readyz`, `/metrics`, `/snapshot`, `/v1`, `/console`).',
  },
  httpPort: {
    name: 'PORT',
    kind: port({ min: 0 }),
    default: 19_000,
    summary: 'Port of the listener for operators; 0 chooses any free port.',
  },
  debugTokenFile: {
    name: 'DEBUG_TOKEN_FILE',
    kind: text(),
    summary:
      'File with the bearer token for `/v1` and `/snapshot` (16 characters or more), read again when it changes. Empty: no token is necessary.',
  },
  debugAllowedHosts: {
    name: 'DEBUG_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Further host names for [`/v1` and `/snapshot`](browsers.md). Names other than these and the [default ones](browsers.md) get 403, which protects against DNS rebinding.',
  },
  logLevel: {
    name: 'LOG_LEVEL',
    kind: choice({ values: logLevels }),
    default: 'info',
    summary: 'The log omits lines below this level. The log goes to standard error.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: choice({ values: logFormats, synonyms: { '': 'text' } }),
    default: 'text',
    summary:
      '`text` writes `time="..." level=... msg="..."`; `json` writes one object per line with `@message`, `@timestamp` and `level`.',
  },
  shutdownDrainDelayMs: {
    name: 'SHUTDOWN_DRAIN_DELAY',
    kind: duration({ min: 0, max: hourMs }),
    default: 0,
    summary: 'How long the control plane continues to serve, no longer ready, after a signal to stop.',
  },
} as const satisfies SettingsTable;

/** The table in the order of the documentation. */
export const controlPlaneSettingGroups: readonly { title: string; settings: SettingsTable }[] = [
  { title: 'Source', settings: source },
  { title: 'Decisions', settings: decisions },
  { title: 'Limiters', settings: xds },
  { title: 'Replicas and status', settings: replicas },
  { title: 'Webhooks', settings: webhooks },
  { title: 'Secret lookup', settings: api },
  { title: 'Admission', settings: admission },
  { title: 'Operations', settings: operations },
];

export const table = {
  ...source,
  ...decisions,
  ...xds,
  ...replicas,
  ...webhooks,
  ...api,
  ...admission,
  ...operations,
};

export type ControlPlaneSettings = SettingsOf<typeof table>;
