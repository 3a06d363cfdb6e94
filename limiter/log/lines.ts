/**
 * The log lines of the limiter, a row each. `connection-lines.ts`, `receiver-lines.ts` and the folders of capabilities have others. Texts
 * that people search for are those of the Go service.
 */
import type { OperatorChange } from '../../process/http/api-route.ts';
import { errorText } from '../../process/log/error-text.ts';
import { debug, error, fatal, info, noFields, warn } from '../../process/log/log-line.ts';
import type { LogFields, Logger } from '../../process/log/logger.ts';
import { describeRule, limitTexts } from '../../rules/describe.ts';
import type { Rule } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';

/** A warning about rules, with its location. */
type PlacedFinding = Omit<RuleError, 'code' | 'path'> & Record<'rule' | 'hint', string | undefined>;

export const lines = {
  /** The process ends after this line. */
  startFailed: fatal<{ error: unknown; source: LogFields }>(
    (failure) => `Cannot start: ${errorText(failure.error)}`,
    ({ source }) => source,
  ),
  listeningForDebug: warn<{ address: string }>(
    ({ address }) => `Listening for debug on '${address}'`,
    noFields,
  ),
  listeningForGrpc: warn<{ address: string }>(
    ({ address }) => `Listening for gRPC on '${address}'`,
    noFields,
  ),
  listeningForHttp: warn<{ address: string }>(
    ({ address }) => `Listening for HTTP on '${address}'`,
    noFields,
  ),
  listeningForPrometheus: warn<{ address: string }>(
    ({ address }) => `Listening for Prometheus on '${address}'`,
    noFields,
  ),
  /** Logged after 10 s of a start, then every minute. The level is one that everybody sees, because no caller is served. */
  notServingYet: error<{ waitsFor: string; seconds: number }>(
    'Not serving yet: the gRPC and HTTP listeners open when the start is complete',
  ),
  /** `settings` are the names of the settings with its address. */
  listenerFailed: error<{ listener: string; settings: string; error: unknown }>('Cannot listen'),
  /** The health that callers see has changed. `components` are the unhealthy ones. */
  unhealthy: warn<{ components: string }>('Unhealthy'),
  healthyAgain: warn('Healthy again'),
  /** Another thread starts after the wait. The other threads continue. */
  workerEnded: error<{ worker: number; reason: string; waitMs: number }>(
    'A worker thread ended: starting another one',
  ),
  /** The thread replaces one that ended. */
  workerReady: warn<{ worker: number }>('A new worker thread serves requests'),

  /** After a failed load this is a warning, because it ends the problem. */
  configLoaded: (
    log: Logger,
    fields: { domains: number; rules: number; loadMs: number },
    lastLoadFailed: boolean,
  ): void =>
    log[lastLoadFailed ? 'warn' : 'info']('Successfully loaded new configuration', {
      ...fields,
      loadMs: Math.round(fields.loadMs),
    }),
  /** One line for each error. `total` also counts errors that are not listed. */
  configLoadFailed: (
    log: Logger,
    { errors, total }: { errors: readonly RuleError[]; total: number },
  ): void => {
    for (const { source, text, line, column } of errors) {
      log.error(`Error loading new configuration: ${source}: ${text}`, { line, column });
    }
    if (total > errors.length) log.error('Error loading new configuration: more errors', { total });
  },
  /** Logged with the errors of each load until one succeeds. */
  noRulesToDecideBy: error(
    'No rules are loaded yet: the limiter answers every request with an error until rules are loaded',
  ),
  /** A successful load without rules. */
  noRules: warn<{ path: string } | { server: string }>('No rules are loaded: no request is limited'),
  /** The text is that of the Go service. */
  loadingDomain: debug<{ domain: string }>(({ domain }) => `loading domain: ${domain}`, noFields),
  /** The text is that of the Go service. `key` is the whole path, starting with the domain. A rule may have no limit of its own. */
  loadingDescriptor: debug<{ key: string; rule: Rule }>(
    ({ key, rule }) => `loading descriptor: key=${key}${limitsText(rule)}`,
    noFields,
  ),
  /** The rest of a listing is skipped, because newer rules are listed instead. */
  listingReplaced: debug('newer rules were loaded before all rules were listed'),
  /** Logged once an outage. The last good rules, if there are any, stay in force. */
  ruleFilesUnreachable: error<{ path: string; error: string }>('Cannot watch rule files'),
  ruleFilesReachable: warn<{ path: string }>('Watching rule files again'),
  xdsConnected: info<{ server: string }>('Connected to the xDS server'),
  /** Logged at every attempt, so the level is below the default. */
  xdsAttemptFailed: info<{ server: string; reason: string; retryMs: number }>(
    'An attempt to connect to the xDS server failed',
    (fields) => ({ ...fields, retryMs: Math.round(fields.retryMs) }),
  ),
  /** Logged once an outage. The last good rules, if there are any, stay in force. */
  xdsUnreachable: error<{ server: string; reason: string; areLoaded: boolean }>(
    ({ areLoaded }) => {
      const meanwhile = areLoaded ? 'the loaded rules stay in force' : 'no rules are loaded yet';
      return `The xDS server sends no rules: trying again, ${meanwhile}`;
    },
    ({ server, reason }) => ({ server, reason }),
  ),
  xdsReachable: warn<{ server: string }>('Connected to the xDS server again'),
  xdsNotIncremental: warn<{ server: string }>(
    'The xDS server does not support incremental xDS: the limiter asks it for the state of the world',
  ),
  xdsNoRulesYet: warn<{ server: string }>('The xDS server has not sent any rules yet'),

  /** Logged once while the warning lasts. */
  ruleWarning: warn<PlacedFinding>(
    ({ source, text }) => `${source}: ${text}`,
    ({ rule, line, column, hint }) => ({ rule, line, column, hint }),
  ),
  moreRuleWarnings: warn<{ more: number; total: number }>(
    'There are more warnings about the rules: run weir check to see all',
  ),
  /** The rules are in force nevertheless. */
  rulesNotReviewed: warn<{ reason: string }>(
    'Could not check the rules for probable mistakes: run weir check',
  ),
  /** `first`: the text of `weir check` for the first five pairs. */
  countersMayCollide: warn<{ pairs: string; first: string }>(
    'Counters of these rules could share a key: set COUNTER_KEYS=unambiguous when no limiter of envoyproxy/ratelimit uses the store',
  ),
  /** No pair was found among those that could be compared. */
  noCollisionFound: info(
    'Too many rules to check all of them for counters that share a key: none found in those checked',
  ),
  /**
   * Logged once for each mark and window in the whole fleet. `metric` has the same values as the rule's statistics: values of requests
   * only with `value_to_metric` and `detailed_metric`.
   */
  limitWarned: warn<{
    rule: string;
    policy: string;
    metric: string;
    mark: `${number}%`;
    used: number;
    of: number;
    unit: string;
  }>('A limit has reached a threshold of warn_at'),
  /** Logged with the first mark after a minute in which not all were logged. */
  moreLimitsWarned: warn<{ further: number }>(
    'More limits have reached a threshold of warn_at than the limiter logs in a minute',
  ),
  /**
   * Logged at most once a minute for each bound and listener. `times` counts requests of all callers since the previous line. The line
   * does not contain data of the caller.
   */
  requestTooLarge: warn<{ listener?: string; peer?: string; reason: string; times: number }>(
    'A request exceeds a bound',
  ),
  /** A defect of this program. The call was answered with an error. */
  callFault: error<{ call: string; error: unknown }>('Fault while answering a call'),

  /** `url` has no credentials. */
  redisConnectionRetry: warn<{ url: string; waitMs: number; elapsedMs: number; error: unknown }>((retry) => {
    const wait = `${(retry.waitMs / 1000).toFixed(1)}s`;
    const elapsed = `${(retry.elapsedMs / 1000).toFixed(1)}s`;
    return `Retrying Redis connection to ${retry.url} in ${wait} (elapsed: ${elapsed}): ${errorText(retry.error)}`;
  }, noFields),
  /** Logged once an outage. Requests fail until it is over. */
  redisConnectionLost: error<{ url: string; reason: string }>('Lost the connection to Redis: trying again'),
  /** Logged at every attempt, so the level is below the default. */
  redisConnectionFailed: info<{ url: string; reason: string }>('An attempt to connect to Redis failed'),
  redisConnectionBack: warn<{ url: string }>('Connected to Redis again'),
  /** The password may belong to another server. The client continues. */
  redisAsksForNoPassword: warn('Redis does not ask for a password, but one is set (REDIS_AUTH or REDIS_URL)'),
  /** Logged once for each reason in an outage. */
  redisStaysAway: error<{ url: string; reason: string }>('Redis cannot be reached: trying again'),
  /** Logged at most once a minute for each kind of error. `further` errors of the same kind were not logged. */
  redisRejects: warn<{ url: string; reply: string; hint: string | undefined; further: number }>(
    'Redis answered with an error',
  ),
  /** Keys of that node fail until the node or its replacement is reached. */
  redisNodeLost: error<{ node: string; reason: string }>('Lost a node of the Redis Cluster: trying again'),
  redisNodeBack: warn<{ node: string }>('The node of the Redis Cluster answers again'),
  /** Logged once in a process. */
  redisScriptsRejected: warn<{ url: string; reason: string }>(
    'Redis rejects scripts: fixed windows still count, and STORE_FAILURE_MODE decides for other limits',
  ),
  /** Logs the first denied command, and the next one after a success. */
  redisStoreAdminRejected: warn<{ command: string; message: string }>(
    'Redis denies a command for operators: counting continues',
    ({ command, message: reason }) => ({
      command,
      reason,
      hint: "allow it in the user's ACL: docs/store.md lists the rights of a limiter",
    }),
  ),
  /** Logged once in a process. */
  redisLeasesRejected: warn<{ url: string; reason: string }>(
    'Redis denies the keys of leases: the limiter counts each hit at once',
    ({ url, reason }) => ({
      url,
      hint: "allow the keys weir:lease:* in the user's ACL: docs/store.md lists the rights of a limiter",
      reason,
    }),
  ),
  /** Logged at the start, as in the Go service. */
  redisPipelineLimitIgnored: warn<{ url: string }>('REDIS_PIPELINE_LIMIT is deprecated and has no effect'),
  /** Logged once an outage, and `storeAskedAgain` once at its end. */
  storeNotAsked: error<{ store: string; reason: string; mode: string }>(
    'The store does not answer: the limiter stops asking it until it answers again',
  ),
  /** Logged every minute in between. */
  storeStillNotAsked: error<{ store: string; seconds: number; mode: string }>(
    'The store still does not answer, so the limiter does not ask it',
  ),
  storeAskedAgain: warn<{ store: string; seconds: number }>('The store answers again'),
  /** Hits that STORE_FAILURE_MODE=local counted are lost, because otherwise they might be counted twice. */
  hitsNotDelivered: error<{ counters: number; reason: string }>(
    'Could not add hits to the store that were counted while it failed',
  ),
  /** Until the node is back, its counters are 0, or fail if STORE_FAILURE_MODE is set. */
  memcacheNodeLost: error<{ node: string; reason: string; mode: string | undefined }>(
    ({ mode }) => {
      const effect =
        mode === undefined ? 'its limits let requests pass' : `STORE_FAILURE_MODE=${mode} applies`;
      return `No connection to a memcached node: trying again, ${effect}`;
    },
    ({ node, reason }) => ({ node, reason }),
  ),
  memcacheNodeBack: warn<{ node: string }>('Connected to the memcached node again'),
  /** `further` problems of the same kind were not logged. The key contains data of callers, so it is in a separate line, at debug. */
  memcacheProblem: (
    log: Logger,
    { text, key, ...fields }: { text: string; key?: string; error?: string; further: number },
  ): void => {
    log.error(text, fields);
    if (key !== undefined) log.debug(text, { key });
  },
  memcacheSrvFailed: warn<{ name: string; reason: string }>('failed to refresh memcache hosts'),

  /** Logged once for a metric. A statistic's name may contain data of callers, so it is in a separate line, at debug. */
  metricNameTaken: (log: Logger, { stat, metric }: { stat: string; metric: string }): void => {
    const text = 'Prometheus does not get a statistic, because its metric has another type';
    log.error(text, { metric });
    log.debug(text, { stat });
  },
  /** The listener is not on loopback, and DEBUG_TOKEN_FILE is not set. */
  debugIsOpen: info<{ address: string }>(
    'The debug listener does not authenticate callers: they can read rules, statistics and values over limit, and record profiles, but cannot change anything. Set DEBUG_TOKEN_FILE to require a token, or DEBUG_HOST=127.0.0.1',
  ),
  /** A change made with the admin API. `unverifiedName`: the user that the client claims to act for. */
  adminChange: warn<{
    what: OperatorChange['what'];
    caller: string;
    peer: string;
    unverifiedName?: string;
    domain: string;
    target: string;
    before: string;
    after: string;
  }>('An operator made a change'),
  /** Logged at most once a minute for each kind of rejection. `times` counts those since the last line, including this one. */
  adminRejected: warn<{ peer: string; counter: string; reason: string; times: number }>(
    'Rejected a request to the debug listener',
  ),
  debugTokenRotated: info('A new token of the debug listener is in use'),
  debugTokenRejected: error<{ reason: string }>(
    'The file with the token of the debug listener cannot be used: the previous token stays in use',
  ),
};

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
