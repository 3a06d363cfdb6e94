import { describe, expect, it } from 'vitest';
import type { Logger } from '../../process/log/logger.ts';
import { processLines, shutdownLines } from '../../process/log/process-lines.ts';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { Unit } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { loggedText } from '../../test/support/logged-text.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { connectionLines } from './connection-lines.ts';
import { lines as limiterLines } from './lines.ts';
import { receiverLines } from './receiver-lines.ts';

const tables = { ...limiterLines, ...connectionLines, ...processLines };

/** The rows that the cases below write. */
const written = new Set<string>();

/** The same rows; those that are read are recorded. */
const lines = new Proxy(tables, {
  get(target, name) {
    written.add(String(name));
    return Reflect.get(target, name);
  },
});

function ruleError(text: string, line: number | undefined): RuleError {
  return { code: 'syntax', source: 'config.basic.yaml', text, path: [], line, column: line && 3 };
}

describe('log lines', () => {
  const cases: [name: string, write: (log: Logger) => void, written: string[]][] = [
    [
      'listeners, in the Go service’s words',
      (log) => {
        lines.listeningForDebug(log, { address: '0.0.0.0:6070' });
        lines.listeningForGrpc(log, { address: '0.0.0.0:8081' });
        lines.listeningForHttp(log, { address: '0.0.0.0:8080' });
        lines.notServingYet(log, { waitsFor: 'store', seconds: 70 });
      },
      [
        `level=warning msg="Listening for debug on '0.0.0.0:6070'"`,
        `level=warning msg="Listening for gRPC on '0.0.0.0:8081'"`,
        `level=warning msg="Listening for HTTP on '0.0.0.0:8080'"`,
        'level=error msg="Not serving yet: the gRPC and HTTP listeners open when the start is complete" waitsFor=store seconds=70',
      ],
    ],
    [
      'certificates of the gRPC listener, handshakes that failed',
      (log) => {
        const expires = '2026-11-21T18:00:00.000Z';
        lines.certificateChanged(log, { listener: 'gRPC', expires }, false);
        lines.certificateRejected(log, { listener: 'HTTP', reason: 'c.pem: no such file or directory' });
        lines.certificateChanged(log, { listener: 'HTTP', expires }, true);
        lines.certificateExpired(log, { listener: 'gRPC', expires: '2026-11-20T18:00:00.000Z' });
        lines.certificateExpiresSoon(log, { listener: 'HTTP', expires: '2026-11-22T12:00:00.000Z' });
        lines.certificateMissing(log, {
          ...{ listener: 'HTTP', peer: '10.0.0.1:4711', counter: 'tls_client_certificate', times: 1 },
          reason: 'the caller has no certificate of a trusted authority',
        });
        lines.hostRejected(log, {
          ...{ listener: 'HTTP', peer: '10.0.0.1:4711', counter: 'foreign_host', times: 2 },
          reason: 'the host "rebound.example" is not one of HTTP_ALLOWED_HOSTS',
        });
        lines.handshakeFailed(log, {
          ...{ peer: '10.0.0.1:4711', counter: 'tls_handshake', times: 3 },
          reason: 'the caller sent no certificate',
        });
      },
      [
        'level=info msg="A new certificate is in use" listener=gRPC expires="2026-11-21T18:00:00.000Z"',
        'level=error msg="A new certificate cannot be used: the previous one stays in use" listener=HTTP reason="c.pem: no such file or directory"',
        'level=warning msg="A new certificate is in use" listener=HTTP expires="2026-11-21T18:00:00.000Z"',
        'level=warning msg="The certificate of the gRPC listener has expired" expires="2026-11-20T18:00:00.000Z"',
        'level=warning msg="The certificate of the HTTP listener expires within a day" expires="2026-11-22T12:00:00.000Z"',
        'level=warning msg="Rejected a request without a valid certificate" listener=HTTP peer="10.0.0.1:4711" counter=tls_client_certificate times=1 reason="the caller has no certificate of a trusted authority"',
        'level=warning msg="Rejected a request because of its Host header" listener=HTTP peer="10.0.0.1:4711" counter=foreign_host times=2 reason="the host \\"rebound.example\\" is not one of HTTP_ALLOWED_HOSTS"',
        'level=warning msg="A TLS handshake failed" peer="10.0.0.1:4711" counter=tls_handshake times=3 reason="the caller sent no certificate"',
      ],
    ],
    [
      'the debug listener',
      (log) => {
        lines.debugIsOpen(log, { address: '0.0.0.0:6070' });
        lines.adminChange(log, {
          ...{
            what: 'counters-reset',
            caller: 'debug token',
            peer: '10.0.0.1:4711',
            unverifiedName: 'ann@desk',
          },
          ...{ domain: 'shop', target: 'ip=10.0.0.2', before: 'used 12 of 10', after: 'used 0' },
        });
        const adminRejection = {
          counter: 'foreign',
          reason: 'the request comes from a page of "null" (Origin)',
        };
        lines.adminRejected(log, { peer: '10.0.0.1:4711', ...adminRejection, times: 2 });
        lines.debugTokenRotated(log);
        lines.debugTokenRejected(log, { reason: 'DEBUG_TOKEN_FILE: /t: the token is empty' });
      },
      [
        'level=info msg="The debug listener does not authenticate callers: they can read rules, statistics and values over limit, and record profiles, but cannot change anything. Set DEBUG_TOKEN_FILE to require a token, or DEBUG_HOST=127.0.0.1" address="0.0.0.0:6070"',
        'level=warning msg="An operator made a change" what=counters-reset caller="debug token" peer="10.0.0.1:4711" unverifiedName=ann@desk domain=shop target="ip=10.0.0.2" before="used 12 of 10" after="used 0"',
        'level=warning msg="Rejected a request to the debug listener" peer="10.0.0.1:4711" counter=foreign reason="the request comes from a page of \\"null\\" (Origin)" times=2',
        'level=info msg="A new token of the debug listener is in use"',
        'level=error msg="The file with the token of the debug listener cannot be used: the previous token stays in use" reason="DEBUG_TOKEN_FILE: /t: the token is empty"',
      ],
    ],
    [
      'connections that were refused or ended',
      (log) => {
        const peer = '10.0.0.1:4711';
        lines.connectionRejected(log, { peer, counter: 'slow_reader', reason: 'it does not read', times: 3 });
        lines.connectionIdle(log, { peer, counter: 'idle_timeout', reason: 'it made no call', times: 1 });
        lines.requestUnfinished(log, { peer, counter: 'unfinished_request', reason: 'it went', times: 2 });
        const room = { counter: 'too_many_bytes', reason: 'its address held most', times: 1 };
        lines.connectionUsedTooMuchMemory(log, { peer, ...room });
        lines.httpConnectionRejected(log, { listener: 'debug', peer, ...room });
      },
      [
        'level=warning msg="Rejected or ended a connection because of its peer" peer="10.0.0.1:4711" counter=slow_reader reason="it does not read" times=3',
        'level=info msg="Ended a connection" peer="10.0.0.1:4711" counter=idle_timeout reason="it made no call" times=1',
        'level=warning msg="Reset a request because of its peer" peer="10.0.0.1:4711" counter=unfinished_request reason="it went" times=2',
        'level=warning msg="Ended a request or a connection to make room for others" peer="10.0.0.1:4711" counter=too_many_bytes reason="its address held most" times=1',
        'level=warning msg="Ended an HTTP request or connection to make room for others" listener=debug peer="10.0.0.1:4711" counter=too_many_bytes reason="its address held most" times=1',
      ],
    ],
    [
      'every error of a failed load, and how many there are beyond those listed',
      (log) =>
        lines.configLoadFailed(log, { errors: [ruleError('a "b"', 4), ruleError('c', undefined)], total: 7 }),
      [
        String.raw`level=error msg="Error loading new configuration: config.basic.yaml: a \"b\"" line=4 column=3`,
        'level=error msg="Error loading new configuration: config.basic.yaml: c"',
        'level=error msg="Error loading new configuration: more errors" total=7',
      ],
    ],
    [
      'what it means that no load was good yet',
      (log) => lines.noRulesToDecideBy(log),
      [
        'level=error msg="No rules are loaded yet: the limiter answers every request with an error until rules are loaded"',
      ],
    ],
    [
      'what a load has brought, in the Go service’s words',
      (log) => {
        lines.loadingDomain(log, { domain: 'mongo_cps' });
        lines.loadingDescriptor(log, { key: 'mongo_cps.database', rule: rule({ key: 'database' }) });
        const users = rule({
          key: 'database_users',
          rateLimit: limit({ requestsPerUnit: 5, unit: Unit.SECOND }),
          shadowMode: true,
          lease: 20_000,
          reserve: { ttlSeconds: 60, estimate: 2000, onExpiry: 'release' },
        });
        lines.loadingDescriptor(log, { key: 'mongo_cps.database_users', rule: users });
        const limits = [
          limit({ unitMultiplier: 5, algorithm: Algorithm.TOKEN_BUCKET }),
          limit({ unit: Unit.DAY }),
        ];
        lines.loadingDescriptor(log, { key: 'd.k', rule: rule({ key: 'k', limits }) });
        lines.listingReplaced(log);
      },
      [
        'level=debug msg="loading domain: mongo_cps"',
        'level=debug msg="loading descriptor: key=mongo_cps.database"',
        'level=debug msg="loading descriptor: key=mongo_cps.database_users ratelimit={requests_per_unit=5, unit=SECOND, unlimited=false, shadow_mode=true, quota_mode=false, lease=2%, reserve={ttl=60s, estimate=2000, on_expiry=release}}"',
        'level=debug msg="loading descriptor: key=d.k ratelimit={requests_per_unit=10, window=5m, algorithm=token_bucket, burst=10, unlimited=false, shadow_mode=false, quota_mode=false} ratelimit={requests_per_unit=10, unit=DAY, unlimited=false, shadow_mode=false, quota_mode=false}"',
        'level=debug msg="newer rules were loaded before all rules were listed"',
      ],
    ],
    [
      'a good load',
      (log) => lines.configLoaded(log, { domains: 2, rules: 30, loadMs: 12.6 }, false),
      ['level=info msg="Successfully loaded new configuration" domains=2 rules=30 loadMs=13'],
    ],
    [
      'a worker thread that ended, and the one in its place',
      (log) => {
        lines.workerEnded(log, { worker: 2, reason: 'it broke', waitMs: 90 });
        lines.workerReady(log, { worker: 2 });
      },
      [
        'level=error msg="A worker thread ended: starting another one" worker=2 reason="it broke" waitMs=90',
        'level=warning msg="A new worker thread serves requests" worker=2',
      ],
    ],
    [
      'a good load after one that failed',
      (log) => lines.configLoaded(log, { domains: 2, rules: 30, loadMs: 12.6 }, true),
      ['level=warning msg="Successfully loaded new configuration" domains=2 rules=30 loadMs=13'],
    ],
    [
      'rule files that cannot be watched, and no rules in them',
      (log) => {
        const path = '/rules';
        lines.noRules(log, { path });
        lines.ruleFilesUnreachable(log, { path, error: 'gone' });
        lines.ruleFilesReachable(log, { path });
      },
      [
        'level=warning msg="No rules are loaded: no request is limited" path=/rules',
        'level=error msg="Cannot watch rule files" path=/rules error=gone',
        'level=warning msg="Watching rule files again" path=/rules',
      ],
    ],
    [
      'an xDS server that comes and goes',
      (log) => {
        const server = 'cp:18000';
        lines.xdsConnected(log, { server });
        lines.xdsNotIncremental(log, { server });
        lines.xdsNoRulesYet(log, { server });
        lines.clientTlsRejected(log, { client: 'xDS', reason: 'CERT: /c.pem: gone' });
        lines.noRules(log, { server });
        lines.xdsUnreachable(log, { server, reason: 'it broke', areLoaded: true });
        lines.xdsUnreachable(log, { server, reason: 'it never was there', areLoaded: false });
        lines.xdsAttemptFailed(log, { server, reason: 'not there', retryMs: 2999.9 });
        lines.xdsReachable(log, { server });
      },
      [
        'level=info msg="Connected to the xDS server" server="cp:18000"',
        'level=warning msg="The xDS server does not support incremental xDS: the limiter asks it for the state of the world" server="cp:18000"',
        'level=warning msg="The xDS server has not sent any rules yet" server="cp:18000"',
        'level=error msg="The TLS files of a client cannot be used: the last valid ones stay in use" client=xDS reason="CERT: /c.pem: gone"',
        'level=warning msg="No rules are loaded: no request is limited" server="cp:18000"',
        'level=error msg="The xDS server sends no rules: trying again, the loaded rules stay in force" server="cp:18000" reason="it broke"',
        'level=error msg="The xDS server sends no rules: trying again, no rules are loaded yet" server="cp:18000" reason="it never was there"',
        'level=info msg="An attempt to connect to the xDS server failed" server="cp:18000" reason="not there" retryMs=3000',
        'level=warning msg="Connected to the xDS server again" server="cp:18000"',
      ],
    ],
    [
      'a retry of the connection to Redis',
      (log) =>
        lines.redisConnectionRetry(log, {
          url: 'redis://*****@cache:6379',
          waitMs: 1480,
          elapsedMs: 3000,
          error: new Error('connect ECONNREFUSED'),
        }),
      [
        'level=warning msg="Retrying Redis connection to redis://*****@cache:6379 in 1.5s (elapsed: 3.0s): connect ECONNREFUSED"',
      ],
    ],
    [
      'settings',
      (log) => {
        lines.settingRejected(log, { message: 'PORT: "x" is not accepted' });
        lines.settingWarning(log, {
          text: 'REDIS_ULR is unknown to this version and ignored; did you mean REDIS_URL?',
        });
        lines.verificationStays(log);
      },
      [
        String.raw`level=fatal msg="PORT: \"x\" is not accepted"`,
        'level=warning msg="REDIS_ULR is unknown to this version and ignored; did you mean REDIS_URL?"',
        'level=warning msg="NODE_TLS_REJECT_UNAUTHORIZED=0 is ignored: the certificates of servers are verified"',
      ],
    ],
    [
      'the end of the process',
      (log) => {
        const shutdown = shutdownLines(log);
        shutdown.signaled('SIGTERM', 5000);
        shutdown.stepFailed('redis', new Error('no'));
        shutdown.stepTookTooLong('grpc', 10);
        shutdown.forced('SIGINT');
        shutdown.finished();
      },
      [
        'level=warning msg="Shutting down after a signal" signal=SIGTERM drainDelayMs=5000',
        'level=error msg="Could not shut down a part" step=redis error=no',
        'level=error msg="A part did not shut down in time" step=grpc timeoutMs=10',
        'level=warning msg="Ending at once after a second signal" signal=SIGINT',
        'level=info msg="Ended"',
      ],
    ],
    ['an end without trouble', (log) => shutdownLines(log).finished(), ['level=info msg="Shut down"']],
    [
      'an end before the start',
      (log) => lines.startFailed(log, { error: new Error('no rules folder'), source: { store: 'redis' } }),
      ['level=fatal msg="Cannot start: no rules folder" store=redis'],
    ],
    [
      'a listener that cannot be opened',
      (log) =>
        lines.listenerFailed(log, {
          ...{ listener: 'debug', settings: 'DEBUG_HOST, DEBUG_PORT' },
          error: new Error('listen EADDRINUSE'),
        }),
      [
        'level=error msg="Cannot listen" listener=debug settings="DEBUG_HOST, DEBUG_PORT" error="listen EADDRINUSE"',
      ],
    ],
    [
      'warnings about rules',
      (log) => {
        const warning = { identity: '', domain: 'd', source: 'a.yaml', text: 'a key has no effect' };
        const place = { rule: 'a.b_c', line: 4, column: 3, hint: 'leave it out' };
        lines.ruleWarning(log, { ...warning, ...place });
        const none = { rule: undefined, line: undefined, column: undefined, hint: undefined };
        lines.ruleWarning(log, { ...warning, ...none });
        lines.moreRuleWarnings(log, { more: 3, total: 103 });
        lines.rulesNotReviewed(log, { reason: 'it took longer than 30000 ms' });
      },
      [
        'level=warning msg="a.yaml: a key has no effect" rule=a.b_c line=4 column=3 hint="leave it out"',
        'level=warning msg="a.yaml: a key has no effect"',
        'level=warning msg="There are more warnings about the rules: run weir check to see all" more=3 total=103',
        'level=warning msg="Could not check the rules for probable mistakes: run weir check" reason="it took longer than 30000 ms"',
      ],
    ],
    [
      'a connection to Redis that is lost and comes back',
      (log) => {
        lines.redisConnectionLost(log, { url: 'cache:6379', reason: 'the connection was closed' });
        lines.redisConnectionFailed(log, { url: 'cache:6379', reason: 'connect ECONNREFUSED' });
        lines.redisConnectionBack(log, { url: 'cache:6379' });
      },
      [
        'level=error msg="Lost the connection to Redis: trying again" url="cache:6379" reason="the connection was closed"',
        'level=info msg="An attempt to connect to Redis failed" url="cache:6379" reason="connect ECONNREFUSED"',
        'level=warning msg="Connected to Redis again" url="cache:6379"',
      ],
    ],
    [
      'a Redis that stays away, and one that refuses',
      (log) => {
        lines.redisAsksForNoPassword(log);
        lines.redisStaysAway(log, { url: 'cache:6379', reason: 'Redis answered: WRONGPASS' });
        lines.redisRejects(log, { url: 'cache:6379', reply: 'OOM full', hint: 'raise it', further: 2 });
        lines.redisRejects(log, { url: 'cache:6379', reply: 'ERR x', hint: undefined, further: 0 });
      },
      [
        'level=warning msg="Redis does not ask for a password, but one is set (REDIS_AUTH or REDIS_URL)"',
        'level=error msg="Redis cannot be reached: trying again" url="cache:6379" reason="Redis answered: WRONGPASS"',
        'level=warning msg="Redis answered with an error" url="cache:6379" reply="OOM full" hint="raise it" further=2',
        'level=warning msg="Redis answered with an error" url="cache:6379" reply="ERR x" further=0',
      ],
    ],
    [
      'health that changes',
      (log) => {
        lines.unhealthy(log, { components: 'redis,config' });
        lines.healthyAgain(log);
      },
      ['level=warning msg="Unhealthy" components="redis,config"', 'level=warning msg="Healthy again"'],
    ],
    [
      'a node of a Redis Cluster that is lost and comes back',
      (log) => {
        lines.redisNodeLost(log, { node: 'node:7000', reason: 'the connection was closed' });
        lines.redisNodeBack(log, { node: 'node:7000' });
      },
      [
        'level=error msg="Lost a node of the Redis Cluster: trying again" node="node:7000" reason="the connection was closed"',
        'level=warning msg="The node of the Redis Cluster answers again" node="node:7000"',
      ],
    ],
    [
      'Redis without scripts, and settings of it that do nothing',
      (log) => {
        const rejected = { url: 'cache:6379', reason: 'Redis answered: NOPERM' };
        lines.redisScriptsRejected(log, rejected);
        lines.redisLeasesRejected(log, rejected);
        lines.redisStoreAdminRejected(log, { command: 'SCAN', message: 'Redis answered: NOPERM' });
        lines.redisPipelineLimitIgnored(log, { url: 'cache:6379' });
      },
      [
        'level=warning msg="Redis rejects scripts: fixed windows still count, and STORE_FAILURE_MODE decides for other limits" url="cache:6379" reason="Redis answered: NOPERM"',
        'level=warning msg="Redis denies the keys of leases: the limiter counts each hit at once" url="cache:6379" hint="allow the keys weir:lease:* in the user\'s ACL: docs/store.md lists the rights of a limiter" reason="Redis answered: NOPERM"',
        'level=warning msg="Redis denies a command for operators: counting continues" command=SCAN reason="Redis answered: NOPERM" hint="allow it in the user\'s ACL: docs/store.md lists the rights of a limiter"',
        'level=warning msg="REDIS_PIPELINE_LIMIT is deprecated and has no effect" url="cache:6379"',
      ],
    ],
    [
      'limits that have reached marks',
      (log) => {
        lines.limitWarned(log, {
          ...{ rule: 'llm.team', policy: 'daily', metric: 'llm.team_a' },
          ...{ mark: '80%' as const, used: 812, of: 1000, unit: 'tokens' },
        });
        lines.moreLimitsWarned(log, { further: 7 });
      },
      [
        'level=warning msg="A limit has reached a threshold of warn_at" rule=llm.team policy=daily metric=llm.team_a mark="80%" used=812 of=1000 unit=tokens',
        'level=warning msg="More limits have reached a threshold of warn_at than the limiter logs in a minute" further=7',
      ],
    ],
    [
      'the outage of a store, and its end',
      (log) => {
        lines.storeNotAsked(log, { store: 'store', reason: 'Redis is not connected', mode: 'local' });
        lines.storeStillNotAsked(log, { store: 'store', seconds: 60, mode: 'local' });
        lines.storeAskedAgain(log, { store: 'store', seconds: 1.5 });
        lines.hitsNotDelivered(log, { counters: 3, reason: 'Redis is not connected' });
      },
      [
        'level=error msg="The store does not answer: the limiter stops asking it until it answers again" store=store reason="Redis is not connected" mode=local',
        'level=error msg="The store still does not answer, so the limiter does not ask it" store=store seconds=60 mode=local',
        'level=warning msg="The store answers again" store=store seconds=1.5',
        'level=error msg="Could not add hits to the store that were counted while it failed" counters=3 reason="Redis is not connected"',
      ],
    ],
    [
      'the endpoint for Prometheus',
      (log) => {
        lines.listeningForPrometheus(log, { address: ':9090' });
        lines.metricNameTaken(log, { stat: 'a.b', metric: 'a_b' });
      },
      [
        'level=warning msg="Listening for Prometheus on \':9090\'"',
        'level=error msg="Prometheus does not get a statistic, because its metric has another type" metric=a_b',
        'level=debug msg="Prometheus does not get a statistic, because its metric has another type" stat=a.b',
      ],
    ],
    [
      'memcache and its troubles',
      (log) => {
        lines.memcacheNodeLost(log, { node: 'mc:11211', reason: 'connect ECONNREFUSED', mode: undefined });
        lines.memcacheNodeLost(log, { node: 'mc:11211', reason: 'connect ECONNREFUSED', mode: 'deny' });
        lines.memcacheNodeBack(log, { node: 'mc:11211' });
        lines.memcacheProblem(log, { text: 'Failed to increment key', key: 'k', error: 'gone', further: 2 });
        lines.countersMayCollide(log, { pairs: '2', first: 'a.yaml:6:14: rule k; b.yaml:3:4: rule x' });
        lines.noCollisionFound(log);
        lines.memcacheSrvFailed(log, { name: '_memcache._tcp.x', reason: 'queryA ENOTFOUND' });
      },
      [
        'level=error msg="No connection to a memcached node: trying again, its limits let requests pass" node="mc:11211" reason="connect ECONNREFUSED"',
        'level=error msg="No connection to a memcached node: trying again, STORE_FAILURE_MODE=deny applies" node="mc:11211" reason="connect ECONNREFUSED"',
        'level=warning msg="Connected to the memcached node again" node="mc:11211"',
        'level=error msg="Failed to increment key" error=gone further=2',
        'level=debug msg="Failed to increment key" key=k',
        'level=warning msg="Counters of these rules could share a key: set COUNTER_KEYS=unambiguous when no limiter of envoyproxy/ratelimit uses the store" pairs=2 first="a.yaml:6:14: rule k; b.yaml:3:4: rule x"',
        'level=info msg="Too many rules to check all of them for counters that share a key: none found in those checked"',
        'level=warning msg="failed to refresh memcache hosts" name=_memcache._tcp.x reason="queryA ENOTFOUND"',
      ],
    ],
    [
      'a statsd receiver that comes and goes',
      (log) => {
        const { up, down } = receiverLines(log, 'statsd', 'statsd:8125');
        up();
        down('connect ECONNREFUSED');
        up();
      },
      [
        'level=info msg="Connected to the statsd receiver" address="statsd:8125"',
        'level=warning msg="No connection to the statsd receiver: trying again every 3 s" address="statsd:8125" reason="connect ECONNREFUSED" hint="alternatives: USE_PROMETHEUS=true, USE_DOG_STATSD=true, USE_STATSD=false (standard output), DISABLE_STATS=true"',
        'level=warning msg="Connected to the statsd receiver again" address="statsd:8125"',
      ],
    ],
    [
      'a dogstatsd receiver that comes and goes',
      (log) => {
        const { up, down } = receiverLines(log, 'dogstatsd', 'agent:8125');
        up();
        down('recvmsg ECONNREFUSED');
        up();
      },
      [
        'level=info msg="Sending statistics to the dogstatsd receiver" address="agent:8125"',
        'level=warning msg="The dogstatsd receiver does not answer: trying again every 3 s" address="agent:8125" reason="recvmsg ECONNREFUSED"',
        'level=warning msg="Sending statistics to the dogstatsd receiver again" address="agent:8125"',
      ],
    ],
    [
      'a fault of the program, and what a library has to say',
      (log) => {
        const origin = { listener: 'gRPC', peer: '192.0.2.7:999' };
        lines.requestTooLarge(log, { ...origin, reason: 'a request may have 256 descriptors', times: 3 });
        lines.callFault(log, { call: 'ShouldRateLimit', error: new Error('the clock broke') });
        lines.libraryWarning(log, { text: 'deprecated' });
      },
      [
        'level=warning msg="A request exceeds a bound" listener=gRPC peer="192.0.2.7:999" reason="a request may have 256 descriptors" times=3',
        'level=error msg="Fault while answering a call" call=ShouldRateLimit error="the clock broke"',
        'level=warning msg="deprecated"',
      ],
    ],
  ];
  for (const [name, write, expected] of cases) {
    it(`report ${name}`, () => expect(loggedText(write)).toEqual(expected));
  }

  it('are all in a row of this test', () => {
    written.clear();
    for (const [, write] of cases) loggedText(write);
    expect([...written].sort()).toEqual(Object.keys(tables).sort());
  });
});
