/**
 * Every line that the limiter logs, one function each. Three parts are in files beside this one. Texts that people search for are those
 * of the Go service.
 */
import type { OperatorChange } from '../../process/http/api-route.ts';
import { errorText } from '../../process/log/error-text.ts';
import type { LogFields, Logger } from '../../process/log/logger.ts';
import { describeRule, limitTexts } from '../../rules/describe.ts';
import type { Rule } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';

export {
  libraryWarning,
  settingRejected,
  settingWarning,
  shutdownLines,
} from '../../process/log/process-lines.ts';

export * from './connection-lines.ts';
export * from './export-lines.ts';

/** The process ends after this line. */
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

/** Logged after 10 s of a start, then every minute. The level is one that everybody sees, because no caller is served. */
export function notServingYet(log: Logger, start: { waitsFor: string; seconds: number }): void {
  log.error('Not serving yet: the gRPC and HTTP listeners open when the start is complete', start);
}

/** `settings` are the names of the settings with its address. */
export function listenerFailed(log: Logger, listener: string, settings: string, error: unknown): void {
  log.error('Cannot listen', { listener, settings, error });
}

/** After a failed load this is a warning, because it ends the problem. */
export function configLoaded(
  log: Logger,
  fields: { domains: number; rules: number; loadMs: number },
  lastLoadFailed: boolean,
): void {
  const level = lastLoadFailed ? 'warn' : 'info';
  log[level]('Successfully loaded new configuration', { ...fields, loadMs: Math.round(fields.loadMs) });
}

/** Log lines about the source of rules. */
export interface OriginLines {
  /** A successful load without rules. */
  noRules(): void;
  /** Logged once an outage. The last good rules, if there are any, stay in force. */
  unreachable(reason: string, areLoaded: boolean): void;
  reachable(): void;
}

export function ruleFileLines(log: Logger, path: string): OriginLines {
  return {
    noRules: () => noRules(log, { path }),
    unreachable: (error) => log.error('Cannot watch rule files', { path, error }),
    reachable: () => log.warn('Watching rule files again', { path }),
  };
}

interface XdsLines extends OriginLines {
  connected(): void;
  /** Logged at every attempt, so the level is below the default. */
  attemptFailed(reason: string, retryMs: number): void;
  noRulesYet(): void;
  notIncremental(): void;
}

export function xdsLines(log: Logger, server: string): XdsLines {
  return {
    noRules: () => noRules(log, { server }),
    connected: () => log.info('Connected to the xDS server', { server }),
    unreachable: (reason, areLoaded) => {
      const meanwhile = areLoaded ? 'the loaded rules stay in force' : 'no rules are loaded yet';
      log.error(`The xDS server sends no rules: trying again, ${meanwhile}`, { server, reason });
    },
    attemptFailed: (reason, retryMs) =>
      log.info('An attempt to connect to the xDS server failed', {
        server,
        reason,
        retryMs: Math.round(retryMs),
      }),
    reachable: () => log.warn('Connected to the xDS server again', { server }),
    notIncremental: () =>
      log.warn(
        'The xDS server does not support incremental xDS: the limiter asks it for the state of the world',
        {
          server,
        },
      ),
    noRulesYet: () => log.warn('The xDS server has not sent any rules yet', { server }),
  };
}

function noRules(log: Logger, from: LogFields): void {
  log.warn('No rules are loaded: no request is limited', from);
}

/** The text is that of the Go service. */
export function loadingDomain(log: Logger, domain: string): void {
  log.debug(`loading domain: ${domain}`);
}

/** The text is that of the Go service. `key` is the whole path, starting with the domain. A rule may have no limit of its own. */
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

/** The rest of a listing is skipped, because newer rules are listed instead. */
export function listingReplaced(log: Logger): void {
  log.debug('newer rules were loaded before all rules were listed');
}

/** One line for each error. `total` also counts errors that are not listed. */
export function configLoadFailed(log: Logger, errors: readonly RuleError[], total: number): void {
  for (const { source, text, line, column } of errors) {
    log.error(`Error loading new configuration: ${source}: ${text}`, { line, column });
  }
  if (total > errors.length) log.error('Error loading new configuration: more errors', { total });
}

/** Logged with the errors of each load until one succeeds. */
export function noRulesToDecideBy(log: Logger): void {
  log.error(
    'No rules are loaded yet: the limiter answers every request with an error until rules are loaded',
  );
}

/**
 * Logged once for each mark and window in the whole fleet. `metric` has the same values as the rule's statistics: values of requests
 * only with `value_to_metric` and `detailed_metric`.
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
  log.warn('A limit has reached a threshold of warn_at', { ...warned, mark: `${warned.mark}%` });
}

/** Logged with the first mark after a minute in which not all were logged. */
export function moreLimitsWarned(log: Logger, further: number): void {
  log.warn('More limits have reached a threshold of warn_at than the limiter logs in a minute', { further });
}

/** What is odd about rules, with its place. */
type PlacedFinding = Omit<RuleError, 'code' | 'path'> & Record<'rule' | 'hint', string | undefined>;

/** Logged once while the warning lasts. */
export function ruleWarning(log: Logger, { source, text, ...more }: PlacedFinding): void {
  const { rule, line, column, hint } = more;
  log.warn(`${source}: ${text}`, { rule, line, column, hint });
}

export function moreRuleWarnings(log: Logger, { more, total }: { more: number; total: number }): void {
  log.warn('There are more warnings about the rules: run weir check to see all', { more, total });
}

/** The rules are in force nevertheless. */
export function rulesNotReviewed(log: Logger, reason: string): void {
  log.warn('Could not check the rules for probable mistakes: run weir check', {
    reason,
  });
}

/** `url` has no credentials. */
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

/** Logged once an outage. Requests fail until it is over. */
export function redisConnectionLost(log: Logger, url: string, reason: string): void {
  log.error('Lost the connection to Redis: trying again', { url, reason });
}

/** Logged at every attempt, so the level is below the default. */
export function redisConnectionFailed(log: Logger, url: string, reason: string): void {
  log.info('An attempt to connect to Redis failed', { url, reason });
}

/** The password may belong to another server. The client continues. */
export function redisAsksForNoPassword(log: Logger): void {
  log.warn('Redis does not ask for a password, but one is set (REDIS_AUTH or REDIS_URL)');
}

/** Logged once for each reason in an outage. */
export function redisStaysAway(log: Logger, url: string, reason: string): void {
  log.error('Redis cannot be reached: trying again', { url, reason });
}

/** Logged at most once a minute for each kind of error. `further` errors of the same kind were not logged. */
export function redisRejects(
  log: Logger,
  rejection: { url: string; reply: string; hint: string | undefined; further: number },
): void {
  log.warn('Redis answered with an error', rejection);
}

export function redisConnectionBack(log: Logger, url: string): void {
  log.warn('Connected to Redis again', { url });
}

/** Keys of that node fail until the node or its replacement is reached. */
export function redisNodeLost(log: Logger, node: string, reason: string): void {
  log.error('Lost a node of the Redis Cluster: trying again', { node, reason });
}

export function redisNodeBack(log: Logger, node: string): void {
  log.warn('The node of the Redis Cluster answers again', { node });
}

/** Logged once in a process. */
export function redisScriptsRejected(log: Logger, url: string, reason: string): void {
  log.warn(
    'Redis rejects scripts: fixed windows still count, and STORE_FAILURE_MODE decides for other limits',
    {
      url,
      reason,
    },
  );
}

/** Logs the first denied command, and the next one after a success. */
export function redisStoreAdminRejected(log: Logger, missing: { command: string; message: string }): void {
  log.warn('Redis denies a command for operators: counting continues', {
    command: missing.command,
    reason: missing.message,
    hint: "allow it in the user's ACL: docs/store.md lists the rights of a limiter",
  });
}

/** Logged once in a process. */
export function redisLeasesRejected(log: Logger, url: string, reason: string): void {
  log.warn('Redis denies the keys of leases: the limiter counts each hit at once', {
    url,
    hint: "allow the keys weir:lease:* in the user's ACL: docs/store.md lists the rights of a limiter",
    reason,
  });
}

/** Logged once an outage, and `storeAskedAgain` once at its end. */
export function storeNotAsked(log: Logger, outage: { store: string; reason: string; mode: string }): void {
  log.error('The store does not answer: the limiter stops asking it until it answers again', outage);
}

/** Logged every minute in between. */
export function storeStillNotAsked(
  log: Logger,
  outage: { store: string; seconds: number; mode: string },
): void {
  log.error('The store still does not answer, so the limiter does not ask it', outage);
}

export function storeAskedAgain(log: Logger, outage: { store: string; seconds: number }): void {
  log.warn('The store answers again', outage);
}

/** Hits that STORE_FAILURE_MODE=local counted are lost, because otherwise they might be counted twice. */
export function hitsNotDelivered(log: Logger, undelivered: { counters: number; reason: string }): void {
  log.error('Could not add hits to the store that were counted while it failed', undelivered);
}

/** Until the node is back, its counters are 0, or fail if STORE_FAILURE_MODE is set. */
export function memcacheNodeLost(
  log: Logger,
  { node, reason, mode }: { node: string; reason: string; mode: string | undefined },
): void {
  const effect = mode === undefined ? 'its limits let requests pass' : `STORE_FAILURE_MODE=${mode} applies`;
  log.error(`No connection to a memcached node: trying again, ${effect}`, { node, reason });
}

export function memcacheNodeBack(log: Logger, node: string): void {
  log.warn('Connected to the memcached node again', { node });
}

/** `further` problems of the same kind were not logged. The key contains data of callers, so it is in a separate line, at debug. */
export function memcacheProblem(
  log: Logger,
  { text, key, ...fields }: { text: string; key?: string; error?: string; further: number },
): void {
  log.error(text, fields);
  if (key !== undefined) log.debug(text, { key });
}

/** `first`: the text of `weir check` for the first five pairs; empty if none was found among those that could be compared. */
export function countersMayCollide(log: Logger, { count, first }: { count: string; first: string }): void {
  if (first === '') {
    log.info(
      'Too many rules to check all of them for counters that share a key: none found in those checked',
    );
    return;
  }
  log.warn(
    'Counters of these rules could share a key: set COUNTER_KEYS=unambiguous when no limiter of envoyproxy/ratelimit uses the store',
    { pairs: count, first },
  );
}

export function memcacheSrvFailed(log: Logger, name: string, reason: string): void {
  log.warn('failed to refresh memcache hosts', { name, reason });
}

/** Logged at the start, as in the Go service. */
export function redisPipelineLimitIgnored(log: Logger, url: string): void {
  log.warn('REDIS_PIPELINE_LIMIT is deprecated and has no effect', { url });
}

export function listeningForPrometheus(log: Logger, address: string): void {
  log.warn(`Listening for Prometheus on '${address}'`);
}

/** The health that callers see has changed. `components` are the unhealthy ones. */
export function healthChanged(log: Logger, components: readonly string[]): void {
  if (components.length === 0) log.warn('Healthy again');
  else log.warn('Unhealthy', { components: components.join(',') });
}

/** Another thread starts after the wait. The other threads continue. */
export function workerEnded(log: Logger, end: { worker: number; reason: string; waitMs: number }): void {
  log.error('A worker thread ended: starting another one', end);
}

/** The thread replaces one that ended. */
export function workerReady(log: Logger, worker: number): void {
  log.warn('A new worker thread serves requests', { worker });
}

/**
 * Logged at most once a minute for each bound and listener. `times` counts requests of all callers since the previous line. The line
 * does not contain data of the caller.
 */
export function requestTooLarge(
  log: Logger,
  rejection: { listener?: string; peer?: string; reason: string; times: number },
): void {
  log.warn('A request exceeds a bound', rejection);
}

/** A defect of this program. The call was answered with an error. */
export function callFault(log: Logger, call: string, error: unknown): void {
  log.error('Fault while answering a call', { call, error });
}

/** The listener is not on loopback, and DEBUG_TOKEN_FILE is not set. */
export function debugIsOpen(log: Logger, address: string): void {
  log.info(
    'The debug listener does not authenticate callers: they can read rules, statistics and values over limit, and record profiles, but cannot change anything. Set DEBUG_TOKEN_FILE to require a token, or DEBUG_HOST=127.0.0.1',
    { address },
  );
}

/** A change made with the admin API. `claimsUnverified`: the user that the client claims to act for. */
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
  log.warn('An operator made a change', change);
}

/** Logged at most once a minute for each kind of rejection. `times` counts those since the last line, including this one. */
export function adminRejected(
  log: Logger,
  rejected: { peer: string; counter: string; reason: string; times: number },
): void {
  log.warn('Rejected a request to the debug listener', rejected);
}

export function debugTokenRotated(log: Logger): void {
  log.info('A new token of the debug listener is in use');
}

export function debugTokenRejected(log: Logger, reason: string): void {
  log.error('The file with the token of the debug listener cannot be used: the previous token stays in use', {
    reason,
  });
}
