/** Runs the commands in docs/replay.md, and records with a real Envoy by the access log that it shows. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun, projectRoot, readDocument } from '../support/documents.ts';
import { startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const commands = commandsToRun('docs/replay.md');
const blocks = fencedBlocks(readDocument('docs/replay.md'));

/** A command as it is written. */
function run(command: string) {
  const [program, ...args] = command.split(' ');
  expect(program).toBe('weir');
  return runWeir(args);
}

describe('docs/replay.md', () => {
  it('shows the output of its commands, if it shows any', () => {
    const shown = commands.flatMap((command) => {
      const index = blocks.findIndex(({ language, text }) => language === 'sh' && text.trim() === command);
      const next = blocks[index + 1];
      return next?.language === '' ? [{ command, text: next.text }] : [];
    });
    expect(shown).toHaveLength(2);
    for (const { command, text } of shown) {
      const { status, stdout } = run(command);
      expect([status, stdout]).toEqual([0, `${text}\n`]);
    }
  });

  it('has commands that run', () => {
    expect(commands.length).toBeGreaterThanOrEqual(2);
    for (const command of commands) expect(run(command).status, command).toBe(0);
  });

  it('shows lines that are requests', () => {
    const lines = blocks.find(({ language }) => language === 'json')?.text ?? '';
    const { status, stdout } = runWeir(['replay', 'examples/rules', '--from', '-', '--output', 'json'], {
      input: lines,
    });
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ requests: 2, badLines: { count: 0 } });
  });
});

interface Filter {
  typed_config: { access_log?: unknown[] };
}
interface EnvoyExample {
  static_resources: {
    listeners: {
      address: { socket_address: { port_value: number } };
      filter_chains: { filters: Filter[] }[];
    }[];
    clusters: {
      name: string;
      load_assignment: {
        endpoints: {
          lb_endpoints: { endpoint: { address: { socket_address: { port_value: number } } } }[];
        }[];
      };
    }[];
  };
}

/** The example's Envoy with the document's access log, on ports that are free. */
async function recordingEnvoy(limiterPort: number, log: string): Promise<{ config: object; port: number }> {
  const config = parse(readFileSync(join(projectRoot, 'examples/envoy/envoy.yaml'), 'utf8')) as EnvoyExample;
  const shown = blocks.find(({ language, text }) => language === 'yaml' && text.startsWith('access_log:'));
  const { access_log: accessLog } = parse(shown?.text ?? '') as {
    access_log: { typed_config: { path: string } }[];
  };
  accessLog[0]!.typed_config.path = log;
  const [http, service] = config.static_resources.listeners;
  http!.filter_chains[0]!.filters[0]!.typed_config.access_log = accessLog;
  const [port, servicePort] = [await freePort(), await freePort()];
  http!.address.socket_address.port_value = port;
  service!.address.socket_address.port_value = servicePort;
  for (const { name, load_assignment } of config.static_resources.clusters) {
    const { address } = load_assignment.endpoints[0]!.lb_endpoints[0]!.endpoint;
    address.socket_address.port_value = name === 'service' ? servicePort : limiterPort;
  }
  return { config, port };
}

describeWithServer('a recording made by Envoy', envoyProgram, (envoyPath) => {
  it('is answered as the limiter answered Envoy', async () => {
    const log = join(temporaryFolder(), 'requests.ndjson');
    // The whole test is in one window of a minute, so that no answer depends on when it runs.
    const clock = new ManualClock(Date.UTC(2026, 2, 4, 12));
    const limiter = await InProcessLimiter.start({
      clock,
      env: {
        RUNTIME_ROOT: join(projectRoot, 'examples'),
        RUNTIME_APPDIRECTORY: 'rules',
        RUNTIME_WATCH_ROOT: 'false',
      },
    });
    try {
      const { config, port } = await recordingEnvoy(limiter.ports.grpc, log);
      const envoy = await startEnvoy(envoyPath, config);
      const codes: number[] = [];
      try {
        const plans: (string | undefined)[] = [
          undefined,
          'basic',
          undefined,
          'gold',
          undefined,
          undefined,
          'basic',
        ];
        for (const plan of plans) {
          const headers: Record<string, string> = plan === undefined ? {} : { 'x-plan': plan };
          const response = await fetch(`http://127.0.0.1:${port}/search?q=1`, { headers });
          await response.text();
          codes.push(response.status);
          await sleep(1);
        }
        await eventually(() => expect(readFileSync(log, 'utf8').split('\n')).toHaveLength(codes.length + 1));
      } finally {
        await envoy.stop();
      }
      expect(codes).toEqual([200, 200, 200, 200, 200, 429, 429]);
      // Envoy's clock is not the limiter's: all of it is moved into the limiter's minute, in its order.
      const recorded = readFileSync(log, 'utf8')
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { time: string });
      for (const { time } of recorded) expect(time).toMatch(/^\d{4}-.*\.\d{3}Z$/);
      const moved = recorded.map((line) => `${JSON.stringify({ ...line, time: clock.ms })}\n`).join('');
      const { status, stdout } = runWeir(['replay', 'examples/rules', '--from', '-', '--output', 'json'], {
        input: moved,
      });
      expect(status).toBe(0);
      const report = JSON.parse(stdout);
      expect(report.badLines.count).toBe(0);
      expect(report.rules.limited.requests).toBe(2);
      const decided = new Map(
        report.rules.rules.map((one: { rule: string; decisions: number }) => [one.rule, one.decisions]),
      );
      expect(decided.get('shop.remote_address')).toBe(7);
      // A request without the header has no descriptor that names the plan.
      expect(decided.get('shop.path_/search*.plan')).toBe(2);
      expect(decided.get('shop.path_/search*.plan_gold')).toBe(1);
    } finally {
      await limiter.stop();
    }
  });
});
