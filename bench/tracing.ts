/**
 * Measures the cost of tracing: nanoseconds of this thread for a decision of one descriptor. It arrives as a gRPC call without a socket,
 * and is counted in memory. Some calls are traced and exported to a collector in another thread. A decision that uses a socket and Redis
 * takes several times as long, so these percentages are upper bounds.
 *
 *   npx node bench/tracing.ts
 */
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { create, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { createDecisionService } from '../limiter/assembly/decision-service.ts';
import type { ThreadPart } from '../limiter/capabilities/parts.ts';
import { withPrefix } from '../limiter/grpc/message-reader.ts';
import { GrpcRequestHandler } from '../limiter/grpc/request-handler.ts';
import { grpcMethods } from '../limiter/grpc/server.ts';
import type { RequestStream } from '../limiter/http2/request-handler.ts';
import { TooLargeRequests } from '../limiter/service/over-without-limit.ts';
import { createShouldRateLimit, shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { requestLimits } from '../limiter/settings/counting-settings.ts';
import { parseLimiterSettings } from '../limiter/settings/settings.ts';
import { StatsRegistry } from '../limiter/stats/registry/stats-registry.ts';
import { thread } from '../limiter/tracing/threads.ts';
import { Health } from '../process/grpc/health.ts';
import { HealthService } from '../process/grpc/health-service.ts';
import { createLogger } from '../process/log/pino-logger.ts';
import { systemClock, systemTimers } from '../process/time/clock.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';
import { openMemoryStore } from '../test/support/open-memory-store.ts';
import { limit, rule, source } from '../test/support/rule-builder.ts';
import { median } from './bench-figures.ts';

const calls = 50_000;
const callsPerTurn = 16;
const rounds = 9;

const commonFields = [
  ...[':method', 'POST', ':scheme', 'http', ':path', shouldRateLimitPath, ':authority', 'limiter:8081'],
  ...['te', 'trailers', 'grpc-timeout', '20000m', 'content-type', 'application/grpc', 'user-agent', 'envoy'],
  ...['x-request-id', '6b3a1f6e-0d3f-4a0e-9f5c-0f6f1c1d8f1a', 'x-forwarded-for', '10.0.0.1'],
];
const traced = (flag: string): string[] => [
  ...commonFields,
  ...['traceparent', `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-${flag}`],
];

const body = withPrefix(
  toBinary(
    RateLimitRequestSchema,
    create(RateLimitRequestSchema, {
      domain: 'api',
      descriptors: [{ entries: [{ key: 'k', value: 'user-1@example.org' }] }],
    }),
  ),
);

const noStream = {
  id: 1,
  openedMs: 0,
  isOpen: true,
  queuedBytes: 0,
  connection: {
    ...{ peer: undefined, callerMemo: undefined, fieldsMemo: undefined },
    respond: () => {},
    // A decision is answered by `respond`. Any other answer fails the measurement.
    sendHeaders: fail,
    sendData: () => {},
    sendTrailers: () => {},
    hold: () => {},
    reset: () => {},
    probe: () => false,
  },
  requestIsStream: false,
  answerIsStream: false,
};

function settingsOf(env: Record<string, string>) {
  const { settings } = parseLimiterSettings({ BACKEND_TYPE: 'memory', ...env });
  if (settings === undefined) throw new Error('the settings are wrong');
  return settings;
}

interface Subject {
  handler: GrpcRequestHandler;
  tracing: ThreadPart | undefined;
}

async function subject(env: Record<string, string>): Promise<Subject> {
  const settings = settingsOf(env);
  const registry = new StatsRegistry();
  const log = createLogger({ level: 'warn', format: 'text', clock: systemClock });
  const system = { clock: systemClock, timers: systemTimers, random: Math.random };
  const context = { settings, ...system, registry, log, health: new Health(), worker: 0 };
  const tracing = settings.tracingEnabled ? thread(context) : undefined;
  await tracing?.start?.();
  const memory = openMemoryStore();
  const store = tracing?.aroundServer?.(memory, 'store') ?? memory;
  const service = createDecisionService(
    { settings, clock: systemClock, random: Math.random, registry },
    { store },
  );
  const free = rule({ key: 'k', rateLimit: limit({ unit: 'day', requestsPerUnit: 1e9 }) });
  service.useRules(new RuleTable(compileRules([source('api', [free])])));
  const shouldRateLimit = createShouldRateLimit({
    service,
    bounds: requestLimits(settings),
    tooLarge: new TooLargeRequests({
      ...{ answer: 'error', shadowMode: false },
      ...{ onTooLarge: fail, onGlobalShadow: () => {} },
    }),
    onLongTexts: () => {},
    onInvalidUtf8Values: () => {},
    onFault: fail,
  });
  const methods = grpcMethods({
    unary: new Map([[shouldRateLimitPath, shouldRateLimit]]),
    health: new HealthService(new Health(), []),
  });
  const handler = new GrpcRequestHandler({
    methods,
    clock: systemClock,
    timers: systemTimers,
    callsOf: () => ({ record: () => {} }),
    onFault: (_, error) => fail(error),
    tracer: tracing?.tracers?.grpc,
  });
  return { handler, tracing };
}

function fail(error: unknown): never {
  throw error;
}

async function nanoseconds({ handler }: Subject, fields: readonly string[]): Promise<number> {
  const before = process.threadCpuUsage();
  for (let done = 0; done < calls; done += callsPerTurn) {
    for (let call = 0; call < callsPerTurn; call += 1) {
      const stream: RequestStream = { ...noStream, receiver: undefined };
      handler.onRequest(stream, fields, false);
      stream.receiver?.receive(body, true);
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  const { user, system } = process.threadCpuUsage(before);
  return ((user + system) * 1_000) / calls;
}

/** Accepts all spans and answers nothing. */
const collector = new Worker(
  `const { createServer } = require('node:http');
   const { parentPort } = require('node:worker_threads');
   const server = createServer((request, response) => {
     request.resume().on('end', () => response.writeHead(200, { 'Content-Type': 'application/x-protobuf' }).end());
   }).listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));`,
  { eval: true },
);
const [port] = (await once(collector, 'message')) as [number];
process.env['OTEL_EXPORTER_OTLP_ENDPOINT'] = `http://127.0.0.1:${port}`;

const off = await subject({});
const on = await subject({ TRACING_ENABLED: 'true', TRACING_SAMPLING_RATE: '0.01' });
for (const [name, fields] of [
  ['1% of the calls, which belong to no trace', commonFields],
  ['none of the calls, whose callers do not sample', traced('00')],
  ['all calls, whose callers sample', traced('01')],
] as const) {
  const without: number[] = [];
  const withTracing: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    without.push(await nanoseconds(off, fields));
    withTracing.push(await nanoseconds(on, fields));
  }
  const [a, b] = [median(without.slice(2)), median(withTracing.slice(2))];
  const share = ((b / a - 1) * 100).toFixed(1);
  console.log(`traced are ${name}: ${Math.round(a)} ns without, ${Math.round(b)} ns with (${share}%)`);
}
await on.tracing?.close?.();
off.handler.close();
on.handler.close();
await collector.terminate();
