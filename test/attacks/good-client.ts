/**
 * The process of a client that asks as clients do, beside an attacker: 200 calls a second over four connections of gRPC,
 * and each 100 ms `/healthcheck` and `/json`, each on a connection of its own. Of a control plane
 * it asks the rules, over a stream that stays open and, each 50 ms, over a new connection. When its parent says anything it
 * sends the figures since the last time, once all that was asked until then is answered.
 */
import { readFileSync } from 'node:fs';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';

import { callTemplate } from '../../bench/http2-frames.ts';
import {
  RateLimitRequestSchema,
  RateLimitResponse_Code,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { GeneratorStalls } from '../faults/generator-stalls.ts';
import { SoakConnection } from '../soak/soak-connection.ts';
import { httpAsk } from '../support/http-ask.ts';
import type { AttackPorts } from './attack.ts';

export interface GoodClientOrder {
  ports: Omit<AttackPorts, 'played'>;
  /** Of the program that is attacked. */
  pid: number;
  tls: boolean;
}

export interface GoodFigures {
  answered: number;
  /** Asked in vain; the first few in words. */
  failed: number;
  failures: string[];
  /** Of the slowest answer, without the time in which this process or the limiter waited for a core. */
  worstMs: number;
  /** What was asked for it. */
  worstOf: string;
  /** The same answer with that time. */
  worstAsSeenMs: number;
}

const perSecond = 200;
const connectionCount = 4;
const probeEveryMs = 100;
const tickMs = 5;
/** What is not answered so long after the figures were asked for is not answered. */
const patienceMs = 20_000;
/** A good limiter that asks for its rules. */
const limiterEveryMs = 50;
const domain = 'good';
const entries = [{ key: 'client', value: 'good' }];

const { ports, pid, tls } = JSON.parse(process.argv[2] as string) as GoodClientOrder;
const stalls = new GeneratorStalls();
const asked = new Map<symbol, { what: string; askedMs: number }>();
let figures = noFigures();

function noFigures(): GoodFigures {
  return { answered: 0, failed: 0, failures: [], worstMs: 0, worstOf: '', worstAsSeenMs: 0 };
}

/** What was asked; call it with why it failed, or with nothing when it was answered. */
function ask(what: string): (problem?: string) => void {
  const question = Symbol(what);
  const askedMs = performance.now();
  asked.set(question, { what, askedMs });
  return (problem) => {
    if (!asked.delete(question)) return;
    took(what, askedMs);
    if (problem === undefined) figures.answered += 1;
    else fail(`${what}: ${problem}`);
  };
}

function took(what: string, askedMs: number): void {
  const nowMs = performance.now();
  const asSeenMs = nowMs - askedMs;
  if (asSeenMs <= figures.worstMs) return;
  noteLostTime();
  const ms = Math.max(0, asSeenMs - stalls.within(askedMs, nowMs));
  if (ms > figures.worstMs) Object.assign(figures, { worstMs: ms, worstOf: what, worstAsSeenMs: asSeenMs });
}

function fail(why: string): void {
  figures.failed += 1;
  if (figures.failures.length < 3) figures.failures.push(why);
}

/** Milliseconds that the limiter's first thread was ready and had no core: Linux, Documentation/scheduler/sched-stats. */
function limiterWaitedMs(): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'latin1').split(' ')[1]) / 1e6;
  } catch {
    return waitedBeforeMs;
  }
}

let waitedBeforeMs = 0;
waitedBeforeMs = limiterWaitedMs();
let lastTickMs = performance.now();

/** Whichever of both stood still for longer since the last time: neither is the limiter's fault. */
function noteLostTime(): void {
  const nowMs = performance.now();
  const waitedMs = limiterWaitedMs();
  const own = nowMs - lastTickMs - tickMs;
  const lostMs = Math.max(own, waitedMs - waitedBeforeMs);
  stalls.add(nowMs - lostMs, nowMs);
  waitedBeforeMs = waitedMs;
  lastTickMs = nowMs;
}

const request = create(RateLimitRequestSchema, { domain, descriptors: [{ entries }] });
const template = callTemplate(shouldRateLimitPath, toBinary(RateLimitRequestSchema, request));
const jsonBody = JSON.stringify({ domain, descriptors: [{ entries }] });
const connections: SoakConnection[] = [];

function openConnection(place: number): SoakConnection {
  return new SoakConnection({
    port: ports.grpc,
    calls: Number.POSITIVE_INFINITY,
    tls,
    onGone: (_, problem) => {
      fail(`a gRPC connection ended: ${problem}`);
      setTimeout(() => {
        connections[place] = openConnection(place);
      }, 50);
    },
  });
}

let calls = 0;
const startMs = performance.now();
function askGrpc(): void {
  const due = ((performance.now() - startMs) * perSecond) / 1000;
  for (; calls < due; calls += 1) {
    const done = ask('gRPC');
    const connection = connections[calls % connectionCount] as SoakConnection;
    connection.call(template, (message) => {
      const isOk =
        message !== undefined &&
        fromBinary(RateLimitResponseSchema, message).overallCode === RateLimitResponse_Code.OK;
      done(isOk ? undefined : 'no answer that says OK');
    });
    connection.flush();
  }
}

function askHttp(path: string, options: { method?: string; body?: string } = {}): void {
  const done = ask(path);
  httpAsk(ports.http, path, options).then(
    ({ status }) => done(status === 200 ? undefined : `status ${status}`),
    (error: Error) => done(error.message),
  );
}

/** Asks a control plane for rules as limiters do: one that stays connected, and others that come and go. */
async function askForRules(): Promise<void> {
  // The other good clients have no use for it.
  const { ScriptedXdsClient } = await import('../support/xds-client.ts');
  const open = (pod: string) =>
    new ScriptedXdsClient({
      port: ports.xds,
      userAgentName: 'weir',
      metadata: { pod, instance: pod },
      reconnects: false,
    });
  const client = open('kept');
  let isLost = false;
  setInterval(() => {
    if (!isLost && client.ends.length > 0) fail(`the stream of a good limiter ended: ${client.ends.join()}`);
    isLost ||= client.ends.length > 0;
  }, tickMs);
  setInterval(() => {
    const done = ask('rules');
    const probe = open('probe');
    const timer = setInterval(() => {
      const [end] = probe.ends;
      if (probe.last === undefined && end === undefined) return;
      clearInterval(timer);
      done(end ?? (probe.last?.domains.includes('good') ? undefined : 'not the rules'));
      probe.close();
    }, 1);
  }, limiterEveryMs);
}

function askForDecisions(): void {
  for (let place = 0; place < connectionCount; place += 1) connections.push(openConnection(place));
  setInterval(askGrpc, tickMs);
  setInterval(() => {
    askHttp('/healthcheck');
    askHttp('/json', { method: 'POST', body: jsonBody });
  }, probeEveryMs);
}

// Its parent is gone.
process.on('disconnect', () => process.exit());
if (ports.xds === 0) askForDecisions();
else await askForRules();
setInterval(noteLostTime, tickMs);

/** Sends the figures when everything that was asked before is answered, or will not be. */
function report(): void {
  const fromMs = performance.now();
  const timer = setInterval(() => {
    const open = [...asked].filter(([, { askedMs }]) => askedMs <= fromMs);
    if (open.length > 0 && performance.now() - fromMs < patienceMs) return;
    clearInterval(timer);
    for (const [question, { what, askedMs }] of open) {
      asked.delete(question);
      took(what, askedMs);
      fail(`${what}: no answer`);
    }
    process.send?.(figures);
    figures = noFigures();
  }, tickMs);
}

// Its parent may ask before it listens.
process.on('message', report);
