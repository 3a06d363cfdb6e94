import { describe, expect, it } from 'vitest';
import { createLogger, type Logger } from '../process/logger.ts';
import type { RuleError } from '../rules/rule-error.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import * as lines from './log-lines.ts';

function logged(write: (log: Logger) => void): string[] {
  const written: string[] = [];
  const destination = { write: (line: string) => written.push(line) };
  write(createLogger({ level: 'debug', format: 'text', clock: new ManualClock(), destination }));
  return written.map((line) => line.replace('time="1970-01-01T00:00:00Z" ', '').trimEnd());
}

function ruleError(text: string, line: number | undefined): RuleError {
  return { code: 'syntax', source: 'config.basic.yaml', text, path: [], line, column: line && 3 };
}

describe('log lines', () => {
  const cases: [name: string, write: (log: Logger) => void, written: string[]][] = [
    [
      'listeners, in the Go service’s words',
      (log) => {
        lines.listeningForDebug(log, '0.0.0.0:6070');
        lines.listeningForGrpc(log, '0.0.0.0:8081');
        lines.listeningForHttp(log, '0.0.0.0:8080');
      },
      [
        `level=warning msg="Listening for debug on '0.0.0.0:6070'"`,
        `level=warning msg="Listening for gRPC on '0.0.0.0:8081'"`,
        `level=warning msg="Listening for HTTP on '0.0.0.0:8080'"`,
      ],
    ],
    [
      'every error of a failed load, and how many there are beyond those listed',
      (log) => lines.configLoadFailed(log, [ruleError('a "b"', 4), ruleError('c', undefined)], 7),
      [
        String.raw`level=error msg="Error loading new configuration: config.basic.yaml: a \"b\"" line=4 column=3`,
        'level=error msg="Error loading new configuration: config.basic.yaml: c"',
        'level=error msg="Error loading new configuration: more errors" total=7',
      ],
    ],
    [
      'a good load',
      (log) => lines.configLoaded(log, { domains: 2, rules: 30, loadMs: 12.6 }, false),
      ['level=info msg="Successfully loaded new configuration" domains=2 rules=30 loadMs=13'],
    ],
    [
      'a good load after one that failed',
      (log) => lines.configLoaded(log, { domains: 2, rules: 30, loadMs: 12.6 }, true),
      ['level=warning msg="Successfully loaded new configuration" domains=2 rules=30 loadMs=13'],
    ],
    [
      'rule files that cannot be watched, and no rules in them',
      (log) => {
        const files = lines.ruleFileLines(log, '/rules');
        files.noRules();
        files.unreachable('gone');
        files.reachable();
      },
      [
        'level=warning msg="No rules are loaded: no request is limited" path=/rules',
        'level=error msg="Rule files are not watched" path=/rules error=gone',
        'level=warning msg="Rule files are watched again" path=/rules',
      ],
    ],
    [
      'an xDS server that comes and goes',
      (log) => {
        const xds = lines.xdsLines(log, 'cp:18000');
        xds.connected();
        xds.noRulesYet();
        xds.noRules();
        xds.unreachable('it broke');
        xds.attemptFailed('not there', 2999.9);
        xds.reachable();
      },
      [
        'level=info msg="Connected to the xDS server" server="cp:18000"',
        'level=warning msg="The xDS server has not sent any rules yet" server="cp:18000"',
        'level=warning msg="No rules are loaded: no request is limited" server="cp:18000"',
        'level=error msg="No rules come from the xDS server: trying again, what is loaded stays in force" server="cp:18000" reason="it broke"',
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
        lines.settingRefused(log, { variable: 'PORT', message: 'PORT: "x" is not accepted' });
        lines.settingWarning(log, 'REDIS_ULR is not known to this version: ignored; did you mean REDIS_URL?');
      },
      [
        String.raw`level=fatal msg="PORT: \"x\" is not accepted"`,
        'level=warning msg="REDIS_ULR is not known to this version: ignored; did you mean REDIS_URL?"',
      ],
    ],
    [
      'the end of the process',
      (log) => {
        const shutdown = lines.shutdownLines(log);
        shutdown.signalled('SIGTERM', 5000);
        shutdown.stepFailed('redis', new Error('no'));
        shutdown.stepTookTooLong('grpc', 10);
        shutdown.forced('SIGINT');
        shutdown.finished();
      },
      [
        'level=warning msg="Ending on a signal" signal=SIGTERM drainDelayMs=5000',
        'level=error msg="Could not end a part in order" step=redis error=no',
        'level=error msg="A part did not end in time" step=grpc timeoutMs=10',
        'level=warning msg="Ending at once on a second signal" signal=SIGINT',
        'level=info msg="Ended"',
      ],
    ],
    [
      'an end without trouble',
      (log) => lines.shutdownLines(log).finished(),
      ['level=info msg="Ended in order"'],
    ],
  ];
  for (const [name, write, written] of cases) {
    it(`tell ${name}`, () => expect(logged(write)).toEqual(written));
  }
});
