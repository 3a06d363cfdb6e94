/** Every environment variable of the control plane, once, by subject. */
import { z } from 'zod';
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
  type SettingKind,
  text,
} from '../../process/settings/settings-kinds.ts';
import { needing, type SettingNeed } from '../../process/settings/settings-needs.ts';
import type { SettingsOf, SettingsTable } from '../../process/settings/settings-reader.ts';
import { defaultClass } from '../../rules/language/kinds.ts';
import { defaultOverridesMaxSeconds } from '../../rules/override.ts';
import { domainOwnerships } from '../reconcile/claims.ts';
import { parseLabelSelector } from '../source/label-selector.ts';
import { isClientName } from '../xds/fleet-permissions.ts';

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
    summary: 'Where RateLimitConfigs come from: a cluster, or a directory of manifests and rule files.',
  },
  manifestsDirectory: {
    name: 'MANIFESTS_DIRECTORY',
    needs: [{ name: 'SOURCE', is: ['DIRECTORY'] }],
    kind: text(),
    summary:
      'The directory of manifests and rule files, `*.yaml`, `*.yml` and `*.json`; needed with `SOURCE=DIRECTORY`, and for nothing else.',
  },
  className: {
    name: 'CLASS_NAME',
    kind: dnsLabel(),
    default: defaultClass,
    summary:
      'Only RateLimitConfigs and RateLimitOverrides with this `spec.className` are served and written to; two control planes of a cluster have one each.',
  },
  watchNamespaces: {
    name: 'WATCH_NAMESPACES',
    needs: [fromCluster],
    kind: list(dnsLabel(), { max: 1000 }),
    default: [] as readonly string[],
    summary: 'Namespaces whose RateLimitConfigs and RateLimitOverrides are served; empty: all.',
  },
  labelSelector: {
    name: 'LABEL_SELECTOR',
    needs: [fromCluster],
    kind: labelSelector(),
    default: '',
    summary: 'Only RateLimitConfigs and RateLimitOverrides with such labels are served; empty: all.',
  },
  fleetServices: {
    name: 'FLEET_SERVICES',
    needs: [fromCluster],
    kind: pairs({ name: { ...dnsLabel(), brief: 'fleet' }, value: serviceName(), max: 1000 }),
    default: new Map() as ReadonlyMap<string, readonly string[]>,
    summary:
      'The Service in front of the limiters of a fleet: a RateLimitFleet is created of each fleet that has none, and never changed.',
  },
  kubeconfig: {
    name: 'KUBECONFIG',
    needs: [{ ...fromCluster, quiet: true }],
    kind: text(),
    summary:
      'Files with the way to the cluster, `:` between them; empty: the service account of the pod, else `~/.kube/config`.',
  },
} as const satisfies SettingsTable;

const decisions = {
  mergeDomainConfig: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: bool(),
    summary: 'Several RateLimitConfigs of a fleet may hold rules for one domain; limiters get them as one.',
  },
  domainOwners: {
    name: 'DOMAIN_OWNERS',
    kind: text(),
    summary: 'Which namespaces may use which domains, see below; empty: none is named.',
  },
  domainOwnership: {
    name: 'DOMAIN_OWNERSHIP',
    kind: choice({ values: domainOwnerships }),
    default: 'open',
    summary:
      'Whose a domain is that neither `DOMAIN_OWNERS` nor `domains` of the RateLimitFleet has an entry for: `open` lets every namespace use it, `claimed` none.',
  },
  domainReleaseDelayMs: {
    name: 'DOMAIN_RELEASE_DELAY',
    needs: [fromCluster],
    kind: duration({ min: 0, max: 24 * hourMs }),
    default: minuteMs,
    summary:
      'How long a domain that came free is held for the namespace that had it last, before another one gets it; 0 gives it at once.',
  },
  overridesMaxSeconds: {
    name: 'OVERRIDES_MAX_SECONDS',
    kind: integer({ min: 1, max: tenYearsSeconds }),
    default: defaultOverridesMaxSeconds,
    summary:
      'How long a RateLimitOverride with `for` or `expiresAt` may last from its creation on, in seconds (30 days); what is to last longer is `permanent`.',
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
    summary: 'Port of the listener for limiters; 0 takes any free one.',
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
      'File with the authorities (PEM) that sign certificates of limiters, which then must show one, or a token where there are such.',
  },
  xdsTokensFile: {
    name: 'XDS_TOKENS_FILE',
    kind: text(),
    summary:
      'File with the tokens by which limiters may prove who they are, a name and its token on each line; read again when it changes.',
  },
  xdsTokenAudience: {
    name: 'XDS_TOKEN_AUDIENCE',
    needs: [{ name: 'XDS_CLIENT_FLEETS', is: 'set' }],
    kind: text(),
    default: 'weir-control-plane',
    summary: 'Audience that tokens of service accounts must be made for, see `XDS_CLIENT_FLEETS`.',
  },
  xdsTokenReviewsPerSecond: {
    name: 'XDS_TOKEN_REVIEWS_PER_SECOND',
    needs: [{ name: 'XDS_CLIENT_FLEETS', is: 'set' }],
    kind: integer({ min: 1, max: 10_000 }),
    default: 100,
    summary: 'Tokens of service accounts that a replica asks the API server about in a second, at most.',
  },
  xdsClientFleets: {
    name: 'XDS_CLIENT_FLEETS',
    kind: pairs({ name: clientName(), value: { ...dnsLabel(), brief: 'fleet' }, max: 10_000 }),
    default: new Map() as ReadonlyMap<string, readonly string[]>,
    summary:
      'Fleets that a limiter may ask for, by a name in its certificate (DNS or URI name, else common name), its service account (`system:serviceaccount:<namespace>:<name>`) or the name of its token (`token:<name>`), see below; empty: every limiter any.',
  },
  xdsAllowAnonymous: {
    name: 'XDS_ALLOW_ANONYMOUS',
    kind: bool(),
    summary:
      'Serve limiters that do not prove who they are, too: every fleet to each. Off loopback there is no start without it, or a way to prove it.',
  },
  xdsMaxStreams: {
    name: 'XDS_MAX_STREAMS',
    kind: integer({ min: 1, max: 1_000_000 }),
    default: 10_000,
    summary:
      'Limiters that one replica serves. Beyond it the address with most streams loses its newest one, or the further one is refused, with RESOURCE_EXHAUSTED.',
  },
  xdsKeepaliveIntervalMs: {
    name: 'XDS_KEEPALIVE_INTERVAL',
    kind: duration({ min: 1000, max: hourMs }),
    default: 10_000,
    summary: 'How often the connection of a limiter is pinged.',
  },
  xdsKeepaliveTimeoutMs: {
    name: 'XDS_KEEPALIVE_TIMEOUT',
    kind: duration({ min: 100, max: hourMs }),
    default: 5_000,
    summary: 'How long a limiter may take to answer a ping before its connection is cut.',
  },
} as const satisfies SettingsTable;

const replicas = needing([fromCluster], {
  podName: {
    name: 'POD_NAME',
    needs: [{ ...fromCluster, quiet: true }],
    kind: objectName({ maxLength: 200, mayBeEmpty: true }),
    default: '',
    summary: 'Name of this replica, another one for each; empty: made from the name of the machine.',
  },
  podNamespace: {
    name: 'POD_NAMESPACE',
    needs: [{ ...fromCluster, quiet: true }],
    kind: dnsLabel({ mayBeEmpty: true }),
    default: '',
    summary:
      'Namespace of Leases and ConfigMaps; empty: that of the service account of the pod, else `weir-system`.',
  },
  leaseName: {
    name: 'LEASE_NAME',
    kind: objectName({ maxLength: 200, mayBeEmpty: false }),
    default: 'weir-control-plane',
    summary: 'Name of the Lease whose holder leads: it alone writes status and events and posts webhooks.',
  },
  leaseDurationMs: {
    name: 'LEASE_DURATION',
    kind: duration({ min: 1000, max: hourMs }),
    default: 15_000,
    summary: 'How long after the last sign of life of the leader another replica takes its place.',
  },
  leaseRenewDeadlineMs: {
    name: 'LEASE_RENEW_DEADLINE',
    kind: duration({ min: 100, max: hourMs }),
    default: 10_000,
    summary: 'How long a leader that cannot renew its Lease goes on leading; shorter than `LEASE_DURATION`.',
  },
  leaseRetryPeriodMs: {
    name: 'LEASE_RETRY_PERIOD',
    kind: duration({ min: 100, max: hourMs }),
    default: 2_000,
    summary: 'Between two attempts to get or to renew the Lease; shorter than `LEASE_RENEW_DEADLINE`.',
  },
  replicaLeaseDurationMs: {
    name: 'REPLICA_LEASE_DURATION',
    kind: duration({ min: 1000, max: hourMs }),
    default: 5_000,
    summary: 'How long after the last sign of life of a replica its limiters leave the counts.',
  },
  statusWritesPerSecond: {
    name: 'STATUS_WRITES_PER_SECOND',
    kind: integer({ min: 1, max: 10_000 }),
    default: 50,
    summary:
      'Most statuses written in a second: first those that say `Ready=True` and are wrong, then those of new generations, then the rest.',
  },
} as const satisfies SettingsTable);

const webhooks = needing(withUrls, {
  webhookUrls: {
    name: 'WEBHOOK_URLS',
    needs: [],
    kind: list({ ...text(), brief: '`https://` or `http://` URL' }, { max: 32 }),
    default: [] as readonly string[],
    secret: true,
    summary: 'Where events are posted; empty: nowhere.',
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
    summary: 'File with the signing secret, read again when it changes; instead of `WEBHOOK_SECRET`.',
  },
  webhookSecretOverlapMs: {
    name: 'WEBHOOK_SECRET_OVERLAP',
    kind: duration({ min: 0, max: 30 * 24 * hourMs }),
    default: 24 * hourMs,
    summary: 'How long events are signed with the secret before the present one, too.',
  },
  webhookQueueSize: {
    name: 'WEBHOOK_QUEUE_SIZE',
    kind: integer({ min: 1, max: 100_000 }),
    default: 1000,
    summary:
      'Events that may wait for each URL, and deleted objects that may wait for limiters; what exceeds it is dropped and counted.',
  },
  webhookTimeoutMs: {
    name: 'WEBHOOK_TIMEOUT',
    kind: duration({ min: 100, max: 10 * minuteMs }),
    default: 10_000,
    summary: 'Bounds one attempt to post an event.',
  },
  webhookAllowLocal: {
    name: 'WEBHOOK_ALLOW_LOCAL',
    kind: bool(),
    summary:
      'Post events to loopback, link-local, unspecified, multicast and cloud metadata addresses, too; otherwise the attempt fails.',
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
    summary: 'Port of the listener for `/v1/webhooks/default/secret`; 0 takes any free one.',
  },
  apiTlsCert: {
    name: 'API_TLS_CERT',
    needs: [withToken],
    kind: text(),
    summary:
      'File with the certificate chain (PEM) of that listener, read again when it changes; empty: no TLS.',
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
    summary: 'Token that callers of that listener show, 16 characters or more; it opens only with one.',
  },
  apiTokenFile: {
    name: 'API_TOKEN_FILE',
    kind: text(),
    summary: 'File with the token, read again when it changes; instead of `API_TOKEN`.',
  },
  apiAllowPlain: {
    name: 'API_ALLOW_PLAIN',
    needs: [withToken, { name: 'API_TLS_CERT', is: 'unset' }],
    kind: bool(),
    summary:
      'Open that listener without TLS off loopback, too, where token and secret can be read on the way.',
  },
} as const satisfies SettingsTable;

const admission = needing(withAdmission, {
  admissionHost: {
    name: 'ADMISSION_HOST',
    kind: bindHost(),
    default: '0.0.0.0',
    summary: 'Address of the listener for admission reviews (`/validate`), which the API server asks.',
  },
  admissionPort: {
    name: 'ADMISSION_PORT',
    kind: port({ min: 0 }),
    default: 19_002,
    summary: 'Port of the listener for admission reviews; 0 takes any free one.',
  },
  admissionTlsCert: {
    name: 'ADMISSION_TLS_CERT',
    needs: [fromCluster],
    kind: text(),
    summary:
      'File with the certificate chain (PEM) of that listener, read again when it changes; it opens only with one.',
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
    summary: 'Port of the listener for operators; 0 takes any free one.',
  },
  debugTokenFile: {
    name: 'DEBUG_TOKEN_FILE',
    kind: text(),
    summary:
      'File with the bearer token that this listener asks for at `/v1` and `/snapshot`; white space around it is dropped, it has at least 16 characters, and is read again when it changes. Empty: nobody is asked.',
  },
  debugAllowedHosts: {
    name: 'DEBUG_ALLOWED_HOSTS',
    kind: list(hostName(), { max: 100 }),
    default: [] as readonly string[],
    summary:
      'Further names by which clients may ask this listener for [`/v1` and `/snapshot`](callers.md#browsers). IP addresses, `localhost`, the name of the machine, names without a dot, and names that end in `.svc`, `.cluster.local` or `.internal` are always allowed. A request for any other name gets 403 (DNS rebinding).',
  },
  logLevel: {
    name: 'LOG_LEVEL',
    kind: choice({ values: logLevels }),
    default: 'info',
    summary: 'Lines below this level are not written. Logs go to standard error.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: choice({ values: logFormats, synonyms: { '': 'text' } }),
    default: 'text',
    summary:
      '`text` writes `time="..." level=... msg="..."`, `json` one object a line with `@message`, `@timestamp` and `level`.',
  },
  shutdownDrainDelayMs: {
    name: 'SHUTDOWN_DRAIN_DELAY',
    kind: duration({ min: 0, max: hourMs }),
    default: 0,
    summary: 'How long the control plane goes on serving, no longer ready, after a signal to end.',
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

function serviceName(): SettingKind<string> {
  const { schema } = dnsLabel();
  return {
    expected: 'a Service as namespace/name',
    brief: 'namespace/name',
    schema: z.string().refine((text) => {
      const parts = text.split('/');
      return parts.length === 2 && parts.every((part) => schema.safeParse(part).success);
    }),
    format: (value) => value,
  };
}

function clientName(): SettingKind<string> {
  return {
    expected:
      'a DNS name, URI or common name of a certificate, system:serviceaccount:<namespace>:<name> or token:<name>',
    brief: 'name of a certificate, `system:serviceaccount:<namespace>:<name>` or `token:<name>`',
    schema: z.string().refine((name) => isClientName(name)),
    format: (value) => value,
  };
}

/** As `kubectl get -l` takes it. */
function labelSelector(): SettingKind<string> {
  const expected = 'a label selector such as team=payments,tier in (edge,core),!legacy';
  return {
    expected,
    brief: 'label selector',
    schema: z.string().superRefine((value, { addIssue }) => {
      const parsed = parseLabelSelector(value);
      if ('problem' in parsed) addIssue({ code: 'custom', message: `${expected}; ${parsed.problem}` });
    }),
    format: (value) => value,
  };
}
