/** A limiter in a process of its own, with rules from an xDS server that a test plays. */
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { HealthCheckResponse_ServingStatus } from '../../gen/grpc/health/v1/health_pb.ts';
import type { RuleSource } from '../../rules/model.ts';
import { AdsServer, AdsServerStream } from '../support/ads-server.ts';
import { eventually } from '../support/eventually.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type LimiterProcess, spawnLimiter, startLimiter } from '../support/limiter-process.ts';
import { limit, rule, source } from '../support/rule-builder.ts';

function ticketRule(requestsPerUnit: number): RuleSource {
  const rateLimit = limit({ unit: 'year', requestsPerUnit });
  return source('shop', [rule({ key: 'ticket', rateLimit })], 'team/shop');
}

const env = (server: AdsServer) => ({
  CONFIG_TYPE: 'GRPC_XDS_SOTW',
  CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
  CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '100ms',
  XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms',
  BACKEND_TYPE: 'memory',
});

describe('a limiter with rules from an xDS server', () => {
  let server: AdsServer;
  let stream: AdsServerStream;
  let limiter: LimiterProcess;
  let client: LimiterClient;

  beforeAll(async () => {
    server = await AdsServer.start();
    const starting = startLimiter({ env: env(server) });
    stream = await server.stream();
    await stream.request();
    stream.respond({ version: '1', sources: [ticketRule(1)] });
    await stream.request();
    limiter = await starting;
    client = new LimiterClient(limiter.ports.grpc);
  });
  afterAll(async () => {
    client?.close();
    await limiter?.stop();
    await server?.stop();
  });

  /** The overall codes of so many requests for one ticket over HTTP. */
  async function askOverHttp(value: string, times: number): Promise<string[]> {
    const codes: string[] = [];
    for (let i = 0; i < times; i++) {
      const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, {
        method: 'POST',
        body: JSON.stringify({ domain: 'shop', descriptors: [{ entries: [{ key: 'ticket', value }] }] }),
      });
      codes.push(((await response.json()) as { overallCode: string }).overallCode);
    }
    return codes;
  }

  it('decides by them, over gRPC and HTTP, and by an update as soon as it was accepted', async () => {
    expect(await client.allowed('shop', 'ticket', 'a')).toBe(true);
    expect(await client.allowed('shop', 'ticket', 'a')).toBe(false);
    expect(await askOverHttp('b', 2)).toEqual(['OK', 'OVER_LIMIT']);
    stream.respond({ version: '2', sources: [ticketRule(3)] });
    expect(await stream.request()).toMatchObject({ versionInfo: '2', responseNonce: 'nonce-2' });
    expect(await client.allowed('shop', 'ticket', 'a')).toBe(true);
    expect(await client.allowed('shop', 'ticket', 'a')).toBe(false);
    expect(await askOverHttp('b', 2)).toEqual(['OK', 'OVER_LIMIT']);
  });

  it('continues deciding while the server is away, and takes what it says when it is back', async () => {
    const { port } = server;
    await server.stop();
    await limiter.program.printed(/The xDS server sends no rules/);
    expect(await askOverHttp('c', 4)).toEqual(['OK', 'OK', 'OK', 'OVER_LIMIT']);
    server = await AdsServer.start({ port });
    stream = await server.stream();
    expect(await stream.request()).toMatchObject({ versionInfo: '2', responseNonce: '' });
    expect(await askOverHttp('c', 1)).toEqual(['OVER_LIMIT']);
    stream.respond({ version: '3', sources: [ticketRule(9)] });
    expect(await stream.request()).toMatchObject({ versionInfo: '3' });
    expect(await askOverHttp('c', 1)).toEqual(['OK']);
    await limiter.program.printed(/Connected to the xDS server again/);
    expect(limiter.program.output.match(/The xDS server sends no rules/g)).toHaveLength(1);
  });

  it('answers while it loads 100,000 rules', async () => {
    const many = Array.from({ length: 100_000 }, (_, i) =>
      rule({ key: 'tenant', value: `customer-${i}`, rateLimit: limit() }),
    );
    const before = performance.now();
    stream.respond({ version: '4', sources: [ticketRule(5), source('many', many, 'team/many')] });
    let isLoaded = false;
    const accepted = stream.request().then((request) => {
      isLoaded = true;
      return request;
    });
    let asked = 0;
    let longestMs = 0;
    while (!isLoaded) {
      const sentMs = performance.now();
      await client.allowed('shop', 'ticket', 'e');
      longestMs = Math.max(longestMs, performance.now() - sentMs);
      asked++;
    }
    expect((await accepted).versionInfo).toBe('4');
    const loadMs = Math.round(performance.now() - before);
    console.log(
      `100,000 rules over xDS: accepted after ${loadMs} ms, ${asked} decisions meanwhile, the longest ${Math.round(longestMs)} ms`,
    );
    expect(asked).toBeGreaterThan(10);
  });
});

describe.each(['GRPC_XDS_SOTW', 'GRPC_XDS_DELTA'])('a limiter of a control plane, with %s', (configType) => {
  it('is ready only after it accepted rules', async () => {
    const server = await AdsServer.start({ incremental: true });
    onTestFinished(() => server.stop());
    const program = spawnLimiter({ env: { ...env(server), CONFIG_TYPE: configType } });
    onTestFinished(async () => void (await program.stop()));
    const isDelta = configType === 'GRPC_XDS_DELTA';
    const stream = await (isDelta ? server.deltaStream() : server.stream());
    const push = (version: string, one: RuleSource): void => {
      if (stream instanceof AdsServerStream) stream.respond({ version, sources: [one] });
      else stream.respond({ version, resources: { 'team/shop': [version, one] } });
    };
    await stream.request();
    await program.printed(/Listening for debug/);
    expect(program.output).not.toMatch(/Listening for (gRPC|HTTP)/);

    push('1', source('', [], 'team/shop'));
    expect((await stream.request()).errorDetail).toBeDefined();
    const [, http] = await program.printed(/Listening for HTTP on '[^']*:(\d+)'/);
    const [, grpc] = await program.printed(/Listening for gRPC on '[^']*:(\d+)'/);
    const healthcheck = async (): Promise<number> =>
      (await fetch(`http://127.0.0.1:${http}/healthcheck`)).status;
    const client = new LimiterClient(Number(grpc));
    onTestFinished(() => client.close());
    const statuses: number[] = [];
    void client.watchHealth('', (status) => statuses.push(status));
    await eventually(() => expect(statuses).toEqual([HealthCheckResponse_ServingStatus.NOT_SERVING]));
    expect(await healthcheck()).toBe(500);

    push('2', ticketRule(1));
    expect((await stream.request()).errorDetail).toBeUndefined();
    await eventually(() => expect(statuses.at(-1)).toBe(HealthCheckResponse_ServingStatus.SERVING));
    expect(await healthcheck()).toBe(200);

    push('3', source('', [], 'team/shop'));
    expect((await stream.request()).errorDetail).toBeDefined();
    expect(await healthcheck()).toBe(200);
  });
});

describe('a limiter that waits for an xDS server', () => {
  it('serves no requests until rules arrive', async () => {
    const server = await AdsServer.start();
    onTestFinished(() => server.stop());
    const program = spawnLimiter({ env: env(server) });
    onTestFinished(async () => void (await program.stop()));
    const stream = await server.stream();
    await stream.request();
    await program.printed(/Listening for debug/);
    expect(program.output).not.toContain('Listening for gRPC');
    stream.respond({ version: '1', sources: [ticketRule(1)] });
    await program.printed(/Listening for HTTP/);
  });

  it('ends in order while it waits', async () => {
    const server = await AdsServer.start();
    onTestFinished(() => server.stop());
    const program = spawnLimiter({ env: env(server) });
    const stream = await server.stream();
    await stream.request();
    expect(await program.stop()).toEqual({ code: 0, signal: null });
    await eventually(() => expect(server.waiting).toBe(0));
    await stream.ended;
  });
});
