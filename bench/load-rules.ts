/**
 * `npm run bench:load-rules`: measures a load of 100,000 rules from one file: its time, the peak memory of a new process, and how long it
 * blocks the thread that answers requests. With `change`, it measures a change of one of 5,000 domains with 20 rules each, for a limiter
 * with incremental xDS. This includes the server, which is in the same process.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, utimesSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ConfigListener } from '../limiter/config-source/config-source.ts';
import { FileConfigSource } from '../limiter/config-source/file/file-source.ts';
import { XdsConfigSource } from '../limiter/config-source/xds/xds-source.ts';
import { systemClock, systemTimers } from '../process/time/clock.ts';
import { AdsServer, type ScriptedDelta } from '../test/support/ads-server.ts';
import { limit, rule, source as ruleSource } from '../test/support/rule-builder.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';

export interface LoadFigures {
  rules: number;
  fileMiB: number;
  loadMs: number;
  /** VmHWM of the process after the first load, in millions of bytes. */
  peakMb: number;
  /** The result of a second load while the rules of the first one are in force. */
  reloadMs: number;
  reloadPeakMb: number;
  /** The longest time between two turns of the event loop, from the start of the load until after the swap. */
  longestHoldMs: number;
  reloadLongestHoldMs: number;
  /** The same while nothing is loaded: the pauses that the machine itself causes. */
  idleLongestHoldMs: number;
}

const self = fileURLToPath(import.meta.url);

const { json, mode, argument } = scriptFlags(
  defineFlags({
    help: `Usage: npm run bench:load-rules -- [rules [times]] [--json]
       npm run bench:load-rules -- change [domains]

Measures a load of so many rules (default 100000) from one file, so many times (default 5). With change, it measures what a change
of one of so many domains of 20 rules (default 5000) costs a limiter with incremental xDS, including the server in the same process.

  --json  prints the figures as JSON
`,
    rows: { json: { type: 'boolean' } },
    takesWords: true,
    read: (values, [mode, argument, ...others]) => {
      const numbers = mode === 'change' ? [argument] : mode === 'measure' ? [] : [mode, argument];
      if (others.length > 0 || numbers.some((word) => word !== undefined && !/^[1-9]\d*$/.test(word)))
        throw new FlagError('give numbers of rules and times, or change and a number of domains');
      return { ...values, mode, argument };
    },
  }),
);
if (mode === 'measure' && argument !== undefined) console.log(JSON.stringify(await measure(argument)));
else if (mode === 'change') await measureChange(Number(argument ?? 5_000));
else run(Number(mode ?? 100_000), Number(argument ?? 5));

function run(rules: number, repeats: number): void {
  const root = mkdtempSync(join(tmpdir(), 'weir-load-'));
  try {
    mkdirSync(join(root, 'config'));
    writeRules(join(root, 'config/rules.yaml'), rules);
    preferOwnChildren();
    const figures: LoadFigures[] = [];
    for (let repeat = 0; repeat < repeats; repeat += 1) {
      const output = execFileSync(process.execPath, [self, 'measure', root], { encoding: 'utf8' });
      figures.push(JSON.parse(output) as LoadFigures);
    }
    if (json) console.log(JSON.stringify(figures));
    else for (const figure of figures) print(figure);
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/**
 * Raises the priority. The measured processes and all their threads inherit it. This requires root; without it, other work on the machine
 * affects the figures.
 */
function preferOwnChildren(): void {
  try {
    setPriority(-15);
  } catch {}
}

/** Creates flat rules, of which every tenth has a child. It returns chunks, so that no large text stays in memory. */
function writeRules(path: string, rules: number): void {
  let text = 'domain: bench\ndescriptors:\n';
  for (let made = 0; made < rules; ) {
    text += `  - key: user_id\n    value: customer-${made}\n`;
    text += `    rate_limit:\n      unit: minute\n      requests_per_unit: ${(made % 500) + 1}\n`;
    made += 1;
    if (made % 10 === 0 && made < rules) {
      text += '    descriptors:\n      - key: path\n        value: /api/v1/orders\n';
      text += '        rate_limit:\n          unit: hour\n          requests_per_unit: 100\n';
      made += 1;
    }
    if (text.length > 1 << 20) {
      appendFileSync(path, text);
      text = '';
    }
  }
  appendFileSync(path, text);
}

async function measure(root: string): Promise<LoadFigures> {
  const path = join(root, 'config/rules.yaml');
  const idle = startHoldMeter();
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const idleLongestHoldMs = idle();

  const loads = listenForLoads();
  const source = new FileConfigSource({
    paths: { root, subdirectory: '', appDirectory: 'config', ignoreDotFiles: false, watchRoot: false },
    checks: { mergeDomains: false },
    review: { counterKeys: 'unambiguous', sanitizeDescriptorMetricDots: false },
    clock: systemClock,
    timers: systemTimers,
  });
  const firstMeter = startHoldMeter();
  await source.start(loads.listener);
  const first = await loads.next();
  const longestHoldMs = firstMeter();
  const peakMb = peakMemoryMb();

  const secondMeter = startHoldMeter();
  utimesSync(path, new Date(), new Date());
  const second = await loads.next();
  const reloadLongestHoldMs = secondMeter();
  await source.close();
  return {
    rules: first.rules,
    fileMiB: statSync(path).size / 1024 / 1024,
    loadMs: first.loadMs,
    peakMb,
    reloadMs: second.loadMs,
    reloadPeakMb: peakMemoryMb(),
    longestHoldMs,
    reloadLongestHoldMs,
    idleLongestHoldMs,
  };
}

async function measureChange(domains: number): Promise<void> {
  const server = await AdsServer.start({ incremental: true });
  const events = { loaded: (): void => {}, reviewed: (): void => {} };
  const review = { counterKeys: 'compatible', sanitizeDescriptorMetricDots: false } as const;
  const backoff = {
    initialMs: 100,
    maxMs: 100,
    factor: 1,
    jitter: false,
    exactFirst: false,
    random: () => 0,
  };
  const source = new XdsConfigSource({
    ...{ target: `127.0.0.1:${server.port}`, headers: [], tls: undefined, tokenFile: undefined },
    ...{ maxMessageBytes: -1, keepaliveMs: 0, connectRetryMs: 100, backoff, incremental: true },
    maxBytes: { bytes: Number.POSITIVE_INFINITY, setting: '' },
    ...{ node: { id: 'bench', metadata: {}, version: '1' }, checks: { mergeDomains: false }, review },
    ...{ clock: systemClock, timers: systemTimers },
    listener: {
      connected() {},
      attemptFailed() {},
      noRulesYet() {},
      tlsFilesRejected() {},
      notIncremental() {},
    },
  });
  const { listener } = listenForLoads();
  await source.start({ ...listener, loaded: () => events.loaded(), reviewed: () => events.reviewed() });
  const stream = await server.deltaStream();
  /** Measures milliseconds and CPU time until the event and a short time after it. */
  const cost = async (event: keyof typeof events, resources: ScriptedDelta['resources'] = {}) => {
    const cpu = process.cpuUsage();
    const startMs = performance.now();
    const happened = new Promise<void>((resolve) => {
      events[event] = resolve;
    });
    stream.respond({ version: `${startMs}`, resources });
    await happened;
    const ms = performance.now() - startMs;
    await new Promise((resolve) => setTimeout(resolve, 50));
    const { user, system } = process.cpuUsage(cpu);
    return { ms, cpuMs: (user + system) / 1000 };
  };
  const resource = (domain: number, version: number) => {
    const rules = Array.from({ length: 20 }, (_, n) =>
      rule({
        key: 'path',
        value: `/service-${domain}/${n}`,
        rateLimit: limit({ requestsPerUnit: version + n }),
      }),
    );
    return [`team/${domain}`, [`${version}`, ruleSource(`domain-${domain}`, rules)]] as const;
  };
  const show = (name: string, costs: { ms: number; cpuMs: number }[]): void => {
    const middle = (of: 'ms' | 'cpuMs') =>
      costs.map((one) => one[of]).sort((a, b) => a - b)[costs.length >> 1]!;
    console.log(`${name}: ${middle('ms').toFixed(1)} ms, ${middle('cpuMs').toFixed(1)} ms of CPU`);
  };
  const all = Object.fromEntries(Array.from({ length: domains }, (_, domain) => resource(domain, 1)));
  show(`${domains} domains of 20 rules, loaded and reviewed`, [await cost('reviewed', all)]);
  const changes: { ms: number; cpuMs: number }[] = [];
  for (let i = 0; i < 100; i++) {
    const domain = (i * 7) % domains;
    changes.push(await cost('loaded', Object.fromEntries([resource(domain, i + 2)])));
  }
  show('a change of one of them, until it is in force', changes);
  show('a change that is reviewed', [await cost('reviewed', Object.fromEntries([resource(0, 1_000)]))]);
  await source.close();
  await server.stop();
}

type Load = Parameters<ConfigListener['loaded']>[0];

/** Stores the table of the last load, as the service does. */
function listenForLoads(): { listener: ConfigListener; next(): Promise<Load> } {
  let settle: (load: Load) => void;
  let next = new Promise<Load>((resolve) => {
    settle = resolve;
  });
  let table: Load['table'] | undefined;
  const listener: ConfigListener = {
    unchanged: () => undefined,
    loaded: (load) => {
      table = load.table;
      if (!table.hasDomain('bench')) throw new Error('the rules are not those written');
      // One turn later, so that the measurement includes the whole turn of the swap.
      setTimeout(() => settle(load), 50);
    },
    failed: (errors) => {
      throw new Error(`load failed: ${errors[0]?.text}`);
    },
    unreachable: (reason) => {
      throw new Error(reason);
    },
    reachable: () => undefined,
    reviewed: () => undefined,
  };
  const take = async () => {
    const load = await next;
    next = new Promise((resolve) => {
      settle = resolve;
    });
    return load;
  };
  return { listener, next: take };
}

/** Keeps the event loop busy. Returns a function that stops it and returns the longest time between two turns. */
function startHoldMeter(): () => number {
  let longestMs = 0;
  let lastMs = performance.now();
  let isRunning = true;
  const turn = () => {
    const nowMs = performance.now();
    if (nowMs - lastMs > longestMs) longestMs = nowMs - lastMs;
    lastMs = nowMs;
    if (isRunning) setImmediate(turn);
  };
  setImmediate(turn);
  return () => {
    isRunning = false;
    return longestMs;
  };
}

function peakMemoryMb(): number {
  const line = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'));
  if (line === null) throw new Error('/proc/self/status does not report VmHWM');
  return (Number(line[1]) * 1024) / 1e6;
}

function print(figures: LoadFigures): void {
  const { rules, fileMiB, idleLongestHoldMs } = figures;
  console.log(`${rules} rules in one file of ${fileMiB.toFixed(1)} MiB`);
  for (const [name, ms, peak, hold] of [
    ['load', figures.loadMs, figures.peakMb, figures.longestHoldMs],
    ['reload', figures.reloadMs, figures.reloadPeakMb, figures.reloadLongestHoldMs],
  ] as const) {
    const cells = [`${ms.toFixed(0)} ms`, `peak ${peak.toFixed(0)} MB`, `longest hold ${hold.toFixed(1)} ms`];
    console.log(`  ${name.padEnd(7)} ${cells.join(', ')} (idle ${idleLongestHoldMs.toFixed(1)} ms)`);
  }
}
