/** Settings of the control plane: their table, read from an environment, and values that exclude each other. */
import { shortestToken, tokenProblem } from '../../process/net/bearer-token.ts';
import { isLoopback } from '../../process/net/bind.ts';
import { formatGoDuration } from '../../process/settings/go-values.ts';
import {
  type Check,
  type Environment,
  pairCheck,
  problems,
  readSettings,
  type SettingsError,
  type SettingsResult,
  type SettingsSchema,
} from '../../process/settings/settings-reader.ts';
import { parseDomainOwners } from '../model/domain-owners.ts';
import { signingSecretProblem } from '../webhooks/signing-keys.ts';
import { webhookUrlProblem } from '../webhooks/target-address.ts';
import { kindOfClient } from '../xds/caller-identity.ts';
import { type ControlPlaneSettings, table } from './table.ts';

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

/** Reports all errors at once, without the values of secrets. */
export function parseControlPlaneSettings(env: Environment): SettingsResult<typeof table> {
  return readSettings(schema, env);
}

/** The settings that were read. Rejected values are missing. */
type ReadSettings = Partial<ControlPlaneSettings>;

export function problemsOf(settings: ReadSettings): SettingsError[] {
  return [
    ...sourceProblems(settings),
    ...ownerProblems(settings),
    ...tlsProblems(settings),
    ...identityProblems(settings),
    ...leaseProblems(settings),
    ...secretProblems(settings),
  ];
}

function sourceProblems(settings: ReadSettings): SettingsError[] {
  const { source: kind, manifestsDirectory, watchNamespaces, labelSelector, admissionTlsCert } = settings;
  const services = [...(settings.fleetServices ?? [])];
  const [twice] = services.find(([, names]) => names.length > 1) ?? [];
  if (kind === undefined) return [];
  const ofClusters: readonly (readonly [isSet: boolean, variable: string])[] = [
    [(watchNamespaces?.length ?? 0) > 0, 'WATCH_NAMESPACES'],
    [isSet(labelSelector), 'LABEL_SELECTOR'],
    [services.length > 0, 'FLEET_SERVICES'],
    [isSet(admissionTlsCert), 'ADMISSION_TLS_CERT'],
  ];
  const isDirectory = kind === 'DIRECTORY';
  return problems([
    [isDirectory && manifestsDirectory === '', 'MANIFESTS_DIRECTORY', 'is needed with SOURCE=DIRECTORY'],
    [
      !isDirectory && isSet(manifestsDirectory),
      'MANIFESTS_DIRECTORY',
      'has an effect only with SOURCE=DIRECTORY: set that as well, or remove it',
    ],
    ...ofClusters.map(([isUsed, variable]): Check => {
      return [isDirectory && isUsed, variable, 'has no effect with SOURCE=DIRECTORY: remove it'];
    }),
    [twice !== undefined, 'FLEET_SERVICES', `names two Services for fleet '${twice}': one is all it takes`],
  ]);
}

function ownerProblems({ domainOwners }: ReadSettings): SettingsError[] {
  const parsed = parseDomainOwners(domainOwners ?? '', 'open');
  return parsed.ok ? [] : problems(parsed.errors.map((error) => [true, 'DOMAIN_OWNERS', error]));
}

function tlsProblems(settings: ReadSettings): SettingsError[] {
  const { xdsTlsCert = '', xdsTlsKey = '', xdsTlsClientCacert, apiHost } = settings;
  const { apiTlsCert = '', apiTlsKey = '', admissionTlsCert = '', admissionTlsKey = '' } = settings;
  const hasToken = isSet(settings.apiToken) || isSet(settings.apiTokenFile);
  return problems([
    pairCheck(true, ['XDS_TLS_CERT', xdsTlsCert], ['XDS_TLS_KEY', xdsTlsKey]),
    [isSet(xdsTlsClientCacert) && xdsTlsCert === '', 'XDS_TLS_CERT', 'is needed with XDS_TLS_CLIENT_CACERT'],
    pairCheck(true, ['API_TLS_CERT', apiTlsCert], ['API_TLS_KEY', apiTlsKey]),
    pairCheck(true, ['ADMISSION_TLS_CERT', admissionTlsCert], ['ADMISSION_TLS_KEY', admissionTlsKey]),
    [
      isSet(apiTlsCert) && settings.apiToken === '' && settings.apiTokenFile === '',
      'API_TOKEN_FILE',
      'is needed with API_TLS_CERT, or API_TOKEN is: the listener for the secret lookup does not open without a token',
    ],
    [
      hasToken && apiTlsCert === '' && settings.apiAllowPlain === false && isOffLoopback(apiHost),
      'API_TLS_CERT',
      `is needed with API_HOST=${apiHost}: others on the network could read token and secret; or set API_HOST=127.0.0.1, or API_ALLOW_PLAIN=true if you trust the network`,
    ],
  ]);
}

/** The kinds of names by which limiters are assigned to fleets. */
function clientKinds({ xdsClientFleets = new Map() }: ReadSettings): Set<ReturnType<typeof kindOfClient>> {
  return new Set([...xdsClientFleets.keys()].map(kindOfClient));
}

function canProveIdentity(settings: ReadSettings): boolean {
  const { xdsTlsClientCacert, xdsTokensFile } = settings;
  return isSet(xdsTlsClientCacert) || isSet(xdsTokensFile) || clientKinds(settings).has('service account');
}

function identityProblems(settings: ReadSettings): SettingsError[] {
  const { source: kind, xdsHost, xdsTlsClientCacert, xdsTokensFile, xdsTokenAudience } = settings;
  const bound = clientKinds(settings);
  return problems([
    [
      bound.has('certificate') && xdsTlsClientCacert === '',
      'XDS_TLS_CLIENT_CACERT',
      'is needed with a name of a certificate in XDS_CLIENT_FLEETS: without it the control plane asks for no certificates',
    ],
    [
      bound.has('token') && xdsTokensFile === '',
      'XDS_TOKENS_FILE',
      'is needed with token:<name> in XDS_CLIENT_FLEETS: without it there are no such tokens',
    ],
    [
      bound.has('service account') && kind === 'DIRECTORY',
      'XDS_CLIENT_FLEETS',
      'names a service account, but with SOURCE=DIRECTORY there is no API server that could verify its token',
    ],
    [xdsTokenAudience === '', 'XDS_TOKEN_AUDIENCE', 'must not be empty'],
    [
      isOffLoopback(xdsHost) && settings.xdsAllowAnonymous === false && !canProveIdentity(settings),
      'XDS_ALLOW_ANONYMOUS',
      `with XDS_HOST=${xdsHost} anyone who reaches that port would get all rules and count as a limiter: ` +
        'set XDS_TLS_CLIENT_CACERT, XDS_TOKENS_FILE, or XDS_CLIENT_FLEETS with a service account, so that ' +
        'limiters prove who they are; or set XDS_HOST=127.0.0.1; or XDS_ALLOW_ANONYMOUS=true to allow every client',
    ],
  ]);
}

/** A host that was rejected is neither of them. */
function isOffLoopback(host: string | undefined): boolean {
  return host !== undefined && !isLoopback(host);
}

export function warningsOf(settings: ControlPlaneSettings): string[] {
  const { xdsAllowAnonymous, xdsHost, xdsTlsCert, xdsTokensFile } = settings;
  const hasAccounts = clientKinds(settings).has('service account');
  const lookup = isSet(settings.apiToken)
    ? 'API_TOKEN'
    : isSet(settings.apiTokenFile)
      ? 'API_TOKEN_FILE'
      : undefined;
  const warnings: [is: boolean, text: string][] = [
    [
      settings.domainOwnership === 'claimed' && settings.domainOwners.trim() === '',
      settings.source === 'DIRECTORY'
        ? 'DOMAIN_OWNERSHIP=claimed without DOMAIN_OWNERS: no namespace may use any domain, so no RateLimitConfig is accepted'
        : 'DOMAIN_OWNERSHIP=claimed without DOMAIN_OWNERS: only domains that a RateLimitFleet names may be used',
    ],
    [
      xdsAllowAnonymous && isOffLoopback(xdsHost),
      'XDS_ALLOW_ANONYMOUS=true: anyone who reaches the xDS port gets the rules of every fleet and counts as a limiter',
    ],
    [
      (isSet(xdsTokensFile) || hasAccounts) && xdsTlsCert === '' && isOffLoopback(xdsHost),
      'Limiters send tokens without TLS, so others on the network can read them: set XDS_TLS_CERT and XDS_TLS_KEY',
    ],
    [
      lookup !== undefined && settings.webhookUrls.length === 0,
      `${lookup} opens a listener that has no signing secret to serve: set WEBHOOK_URLS, or remove it`,
    ],
  ];
  return warnings.flatMap(([is, text]) => (is ? [text] : []));
}

function leaseProblems(settings: ReadSettings): SettingsError[] {
  const { leaseDurationMs, leaseRenewDeadlineMs, leaseRetryPeriodMs } = settings;
  return problems([
    [
      isAtLeast(leaseRenewDeadlineMs, leaseDurationMs),
      'LEASE_RENEW_DEADLINE',
      `${goDuration(leaseRenewDeadlineMs)} must be less than LEASE_DURATION, ${goDuration(leaseDurationMs)}: otherwise two replicas could lead`,
    ],
    [
      isAtLeast(leaseRetryPeriodMs, leaseRenewDeadlineMs),
      'LEASE_RETRY_PERIOD',
      `${goDuration(leaseRetryPeriodMs)} must be less than LEASE_RENEW_DEADLINE, ${goDuration(leaseRenewDeadlineMs)}: otherwise one failed attempt ends the leadership`,
    ],
  ]);
}

function secretProblems(settings: ReadSettings): SettingsError[] {
  const { webhookUrls = [], webhookSecret, webhookSecretFile, apiToken, apiTokenFile } = settings;
  const secretProblem = isSet(webhookSecret) ? signingSecretProblem(webhookSecret) : undefined;
  const badToken = isSet(apiToken) ? tokenProblem(apiToken.trim(), shortestToken) : undefined;
  const badUrls = webhookUrls.flatMap((url, index): Check[] => {
    const problem = webhookUrlProblem(url);
    return problem === undefined ? [] : [[true, 'WEBHOOK_URLS', `item ${index + 1} ${problem}`]];
  });
  return problems([
    ...badUrls,
    [secretProblem !== undefined, 'WEBHOOK_SECRET', secretProblem ?? ''],
    [
      isSet(webhookSecret) && isSet(webhookSecretFile),
      'WEBHOOK_SECRET_FILE',
      'is set together with WEBHOOK_SECRET: keep one of them',
    ],
    [
      webhookUrls.length > 0 && webhookSecret === '' && webhookSecretFile === '',
      'WEBHOOK_SECRET_FILE',
      'is needed with WEBHOOK_URLS, or WEBHOOK_SECRET is: events are never posted unsigned',
    ],
    [badToken !== undefined, 'API_TOKEN', badToken ?? ''],
    [
      isSet(apiToken) && isSet(apiTokenFile),
      'API_TOKEN_FILE',
      'is set together with API_TOKEN: keep one of them',
    ],
  ]);
}

function isSet(value: string | undefined): value is string {
  return value !== undefined && value !== '';
}

function isAtLeast(value: number | undefined, bound: number | undefined): boolean {
  return value !== undefined && bound !== undefined && value >= bound;
}

function goDuration(ms: number | undefined): string {
  return formatGoDuration(ms ?? 0);
}
