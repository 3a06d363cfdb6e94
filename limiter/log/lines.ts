/** Every line that the limiter logs, one function each; three parts of it stand beside it. Wording that people search for is the Go service's. */
import type { OperatorChange } from '../../process/http/api-route.ts';
import { errorText } from '../../process/log/error-text.ts';
import type { LogFields, Logger } from '../../process/log/logger.ts';
import { describeRule, limitTexts } from '../../rules/describe.ts';
import type { Rule } from '../../rules/model.ts';
import type { LoadWarning } from '../../rules/review/reviewed-load.ts';
import type { RuleError } from '../../rules/rule-error.ts';

export {
  libraryWarning,
  settingRefused,
  settingWarning,
  shutdownLines,
} from '../../process/log/process-lines.ts';

export * from './connection-lines.ts';
export * from './export-lines.ts';

/** The process ends after this. */
export function startFailed(log: Logger, error: unknown, fields: LogFields): void {
  log.fatal(`Cannot start: ${errorText(error)}`, fields);
}

export function listeningForDebug(log: Logger, address: string): void {
  log.warn(`Listening for debug on '${address}'`);
}

export function listeningForGrpc(log: Logger, address: string): void {
  log.warn(`Listening for gRPC on '${address}'`);
}

export function listeningForHttp(log: Logger, address: string): void {
  log.warn(`Listening for HTTP on '${address}'`);
}

/** After 10 s of a start, then every minute: at a level that everybody sees, since nobody is served. */
export function notServingYet(log: Logger, start: { waitsFor: string; seconds: number }): void {
  log.error('Not serving yet: gRPC and HTTP stay closed until the start is over', start);
}

/** `settings` name its address. */
export function listenerFailed(log: Logger, listener: string, settings: string, error: unknown): void {
  log.error('Cannot listen', { listener, settings, error });
}

/** After a load that failed it is worth a warning: the trouble is over. */
export function configLoaded(
  log: Logger,
  fields: { domains: number; rules: number; loadMs: number },
  lastLoadFailed: boolean,
): void {
  const level = lastLoadFailed ? 'warn' : 'info';
  log[level]('Successfully loaded new configuration', { ...fields, loadMs: Math.round(fields.loadMs) });
}

/** What is logged of the place that rules come from. */
export interface OriginLines {
  /** A good load without any. */
  noRules(): void;
  /** Once an outage; the last good rules, if there are any, stay in force. */
  unreachable(reason: string, areLoaded: boolean): void;
  reachable(): void;
}

export function ruleFileLines(log: Logger, path: string): OriginLines {
  return {
    noRules: () => noRules(log, { path }),
    unreachable: (error) => log.error('Rule files are not watched', { path, error }),
    reachable: () => log.warn('Rule files are watched again', { path }),
  };
}

interface XdsLines extends OriginLines {
  connected(): void;
  /** At every attempt, so not for the usual level. */
  attemptFailed(reason: string, retryMs: number): void;
  noRulesYet(): void;
  notIncremental(): void;
}

export function xdsLines(log: Logger, server: string): XdsLines {
  return {
    noRules: () => noRules(log, { server }),
    connected: () => log.info('Connected to the xDS server', { server }),
    unreachable: (reason, areLoaded) => {
      const meanwhile = areLoaded ? 'what is loaded stays in force' : 'nothing is loaded yet';
      log.error(`No rules come from the xDS server: trying again, ${meanwhile}`, { server, reason });
    },
    attemptFailed: (reason, retryMs) =>
      log.info('An attempt to connect to the xDS server failed', {
        server,
        reason,
        retryMs: Math.round(retryMs),
      }),
    reachable: () => log.warn('Connected to the xDS server again', { server }),
    notIncremental: () =>
      log.warn('The xDS server does not know incremental xDS: it is asked for the state of the world', {
        server,
      }),
    noRulesYet: () => log.warn('The xDS server has not sent any rules yet', { server }),
  };
}

function noRules(log: Logger, from: LogFields): void {
  log.warn('No rules are loaded: no request is limited', from);
}

/** In the Go service's words. */
export function loadingDomain(log: Logger, domain: string): void {
  log.debug(`loading domain: ${domain}`);
}

/** In the Go service's words. `key` is the whole path, from the domain on; a rule may have no limit of its own. */
export function loadingDescriptor(log: Logger, key: string, rule: Rule): void {
  log.debug(`loading descriptor: key=${key}${limitsText(rule)}`);
}

function limitsText(rule: Rule): string {
  const ofRule = describeRule(rule).map(({ name, texts }) =>
    texts.length === 1 ? `${name}=${texts[0]}` : `${name}={${texts.join(', ')}}`,
  );
  return limitTexts(rule.limits)
    .map(([window, requests, ...more], index) => {
      const modes = [`unlimited=${rule.limits[index]!.unlimited}`, ...ofRule];
      return ` ratelimit={${[requests, window, ...more, ...modes].join(', ')}}`;
    })
    .join('');
}

/** The rest of a listing is left out: the rules that came meanwhile are listed instead. */
export function listingReplaced(log: Logger): void {
  log.debug('newer rules were loaded before all rules were listed');
}

/** One line an error; `total` counts those beyond the listed ones too. */
export function configLoadFailed(log: Logger, errors: readonly RuleError[], total: number): void {
  for (const { source, text, line, column } of errors) {
    log.error(`Error loading new configuration: ${source}: ${text}`, { line, column });
  }
  if (total > errors.length) log.error('Error loading new configuration: more errors', { total });
}

/** With the errors of each load, until one is good. */
export function noRulesToDecideBy(log: Logger): void {
  log.error('No rules were ever loaded: every request is answered with an error until they are');
}

/**
 * Once for each mark and window in the whole fleet. `metric` has what the rule puts into its statistics: the request's values
 * with `value_to_metric` and `detailed_metric` alone.
 */
export function limitWarned(
  log: Logger,
  warned: {
    rule: string;
    policy: string;
    metric: string;
    mark: number;
    used: number;
    of: number;
    unit: string;
  },
): void {
  log.warn('A limit has reached a mark of warn_at', { ...warned, mark: `${warned.mark}%` });
}

/** With the first one after a minute that had more of them than are logged. */
export function moreLimitsWarned(log: Logger, further: number): void {
  log.warn('More limits have reached a mark of warn_at than are logged in a minute', { further });
}

/** Once for as long as it stays. */
export function ruleWarning(log: Logger, { source, text, ...fields }: LoadWarning): void {
  const { rule, line, column, hint } = fields;
  log.warn(`${source}: ${text}`, { rule, line, column, hint });
}

export function moreRuleWarnings(log: Logger, { more, total }: { more: number; total: number }): void {
  log.warn('There are more warnings about the rules: weir check shows all', { more, total });
}

/** They are in force all the same. */
export function rulesNotReviewed(log: Logger, reason: string): void {
  log.warn(
    'The rules could not be reviewed, nothing is said of what may be odd about them: weir check does',
    {
      reason,
    },
  );
}

/** `url` without credentials. */
export function redisConnectionRetry(
  log: Logger,
  retry: { url: string; waitMs: number; elapsedMs: number; error: unknown },
): void {
  const wait = `${(retry.waitMs / 1000).toFixed(1)}s`;
  const elapsed = `${(retry.elapsedMs / 1000).toFixed(1)}s`;
  log.warn(
    `Retrying Redis connection to ${retry.url} in ${wait} (elapsed: ${elapsed}): ${errorText(retry.error)}`,
  );
}

/** Once an outage; requests fail until it is over. */
export function redisConnectionLost(log: Logger, url: string, reason: string): void {
  log.error('Lost the connection to Redis: trying again', { url, reason });
}

/** At every attempt, so not for the usual level. */
export function redisConnectionFailed(log: Logger, url: string, reason: string): void {
  log.info('An attempt to connect to Redis failed', { url, reason });
}

/** The password may be meant for another server; the client goes on. */
export function redisAsksForNoPassword(log: Logger): void {
  log.warn('Redis does not ask for a password, but one is set (REDIS_AUTH or REDIS_URL)');
}

/** Once for each reason in an outage. */
export function redisStaysAway(log: Logger, url: string, reason: string): void {
  log.error('Redis cannot be reached: trying again', { url, reason });
}

/** At most once a minute for each kind of error; `further` of the same kind were not logged. */
export function redisRefuses(
  log: Logger,
  refusal: { url: string; reply: string; hint: string | undefined; further: number },
): void {
  log.warn('Redis answers with an error', refusal);
}

export function redisConnectionBack(log: Logger, url: string): void {
  log.warn('Connected to Redis again', { url });
}

/** Keys of that node fail until it, or the one that takes its place, is reached. */
export function redisNodeLost(log: Logger, node: string, reason: string): void {
  log.error('Lost a node of the Redis Cluster: trying again', { node, reason });
}

export function redisNodeBack(log: Logger, node: string): void {
  log.warn('The node of the Redis Cluster answers again', { node });
}

/** Once a process. */
export function redisScriptsRefused(log: Logger, url: string, reason: string): void {
  log.warn('Redis refuses scripts: fixed windows go on, STORE_FAILURE_MODE answers for others', {
    url,
    reason,
  });
}

/** The first time, and again once it was not refused. */
export function redisStoreAdminRefused(log: Logger, missing: { command: string; message: string }): void {
  log.warn('Redis refuses a command of operators: counting goes on', {
    command: missing.command,
    reason: missing.message,
    hint: "the user's ACL has to allow it: see docs/store.md for what a limiter needs",
  });
}

/** Once a process. */
export function redisLeasesRefused(log: Logger, url: string, reason: string): void {
  log.warn('Redis refuses the ledgers of leases: the limiter counts each hit at once', {
    url,
    hint: "the user's ACL has to allow the keys weir:lease:*: see docs/store.md for what a limiter needs",
    reason,
  });
}

/** Once an outage, and `storeAskedAgain` once at its end. */
export function storeNotAsked(log: Logger, outage: { store: string; reason: string; mode: string }): void {
  log.error('The store does not answer: it is not asked until it does', outage);
}

/** Every minute in between. */
export function storeStillNotAsked(
  log: Logger,
  outage: { store: string; seconds: number; mode: string },
): void {
  log.error('The store is still not asked, as it does not answer', outage);
}

export function storeAskedAgain(log: Logger, outage: { store: string; seconds: number }): void {
  log.warn('The store answers again', outage);
}

/** Counted by STORE_FAILURE_MODE=local and lost, rather than perhaps counted twice. */
export function hitsNotDelivered(log: Logger, undelivered: { counters: number; reason: string }): void {
  log.error('Hits counted while the store was away could not be added to it', undelivered);
}

/** Until it is back its counters are 0, or with a STORE_FAILURE_MODE that was set, fail. */
export function memcacheNodeLost(
  log: Logger,
  { node, reason, mode }: { node: string; reason: string; mode: string | undefined },
): void {
  const effect = mode === undefined ? 'its limits let requests pass' : `STORE_FAILURE_MODE=${mode} holds`;
  log.error(`No connection to a memcached node: trying again, ${effect}`, { node, reason });
}

export function memcacheNodeBack(log: Logger, node: string): void {
  log.warn('Connected to the memcached node again', { node });
}

/** `further` of the same kind were not logged. The key holds what callers sent: it has a line of its own, at debug. */
export function memcacheProblem(
  log: Logger,
  { text, key, ...fields }: { text: string; key?: string; error?: string; further: number },
): void {
  log.error(text, fields);
  if (key !== undefined) log.debug(text, { key });
}

/** `first`: what `weir check` says of the first five pairs; empty where none was found among as many as could be compared. */
export function countersMayMeet(log: Logger, { count, first }: { count: string; first: string }): void {
  if (first === '') {
    log.info('Too many rules to compare all for counters that could meet in one key: none of those compared');
    return;
  }
  log.warn(
    'Counters of these rules could meet in one key: COUNTER_KEYS=unambiguous keeps all apart, once no limiter of envoyproxy/ratelimit counts in the store',
    { pairs: count, first },
  );
}

export function memcacheSrvFailed(log: Logger, name: string, reason: string): void {
  log.warn('failed to refresh memcache hosts', { name, reason });
}

/** As the Go service, at the start. */
export function redisPipelineLimitIgnored(log: Logger, url: string): void {
  log.warn('REDIS_PIPELINE_LIMIT is deprecated and has no effect', { url });
}

export function listeningForPrometheus(log: Logger, address: string): void {
  log.warn(`Listening for Prometheus on '${address}'`);
}

/** The health that callers are reported changed; `components` are those that are not well. */
export function healthChanged(log: Logger, components: readonly string[]): void {
  if (components.length === 0) log.warn('Healthy again');
  else log.warn('Unhealthy', { components: components.join(',') });
}

/** Another one is started after the wait; the others go on. */
export function workerEnded(log: Logger, end: { worker: number; reason: string; waitMs: number }): void {
  log.error('A worker thread ended: another one takes its place', end);
}

/** It took the place of one that ended. */
export function workerReady(log: Logger, worker: number): void {
  log.warn('A new worker thread answers', { worker });
}

/**
 * At most once a minute for each bound and listener; `times`: since the line before, of anyone who. What the caller wrote is
 * not in it.
 */
export function requestTooLarge(
  log: Logger,
  refusal: { listener?: string; peer?: string; reason: string; times: number },
): void {
  log.warn('A request is beyond a bound', refusal);
}

/** A fault of this program; the call was answered with an error. */
export function callFault(log: Logger, call: string, error: unknown): void {
  log.error('Fault while answering a call', { call, error });
}

/** After a file that could not be used it is a warning: the trouble is over. */
export function profilesLoaded(
  log: Logger,
  file: { path: string; profiles: number },
  lastWasRefused: boolean,
): void {
  log[lastWasRefused ? 'warn' : 'info']('Profiles are in force', file);
}

/** `reason` has every mistake with its place. */
export function profilesRefused(log: Logger, reason: string): void {
  log.error('The profiles file cannot be used: the last good one stays in force, if there was one', {
    reason,
  });
}

/** At most once a minute for each profile and header: what is made of it is not limited by that. */
export function headerMissing(
  log: Logger,
  missingHeader: { profile: string; header: string; peer: string; times: number },
): void {
  log.warn('A proxy does not send a header that its profile needs', missingHeader);
}

/** At most once a minute: most proxies let pass what they ask about so. */
export function profileUnknown(log: Logger, unknown: { peer: string; reason: string; times: number }): void {
  log.warn('A proxy asks by a profile that it cannot use: nothing is limited by it', unknown);
}

/** At most once a minute for each profile: the store failed, or the domain has no rules. `answer`: what onError says. */
export function forwardedUndecided(
  log: Logger,
  undecided: { profile: string; answer: 'allow' | 'deny'; reason: string; times: number },
): void {
  log.warn('A request that a proxy asks about cannot be decided: onError of the profile answers', undecided);
}

/** Off loopback, and without DEBUG_TOKEN_FILE. */
export function debugIsOpen(log: Logger, address: string): void {
  log.info(
    'The debug listener does not authenticate callers: they see rules, statistics and the values of callers over their limits, and may take profiles, but change nothing. Set DEBUG_TOKEN_FILE to ask for a token, or DEBUG_HOST=127.0.0.1 to keep others out',
    { address },
  );
}

/** What somebody changed by the admin API. `claimsUnverified`: what the client says of its user. */
export function adminChange(
  log: Logger,
  change: {
    what: OperatorChange['what'];
    caller: string;
    peer: string;
    claimsUnverified?: string;
    domain: string;
    target: string;
    before: string;
    after: string;
  },
): void {
  log.warn('An operator changed something', change);
}

/** At most once a minute for each kind of refusal; `times` counts those since the last line, it included. */
export function adminRefused(
  log: Logger,
  refused: { peer: string; counter: string; reason: string; times: number },
): void {
  log.warn('A request to the debug listener was refused', refused);
}

export function debugTokenRotated(log: Logger): void {
  log.info('A new token of the debug listener is in use');
}

export function debugTokenRefused(log: Logger, reason: string): void {
  log.error('The file with the token of the debug listener cannot be used: the token before stays', {
    reason,
  });
}
