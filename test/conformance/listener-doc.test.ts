/** docs/grpc-listener.md says what the code does: every bound, every reason, every default. */
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { defaultRequestLimits } from '../../limiter/decide/request-bounds.ts';
import { defaultGrpcLimits } from '../../limiter/grpc/message-reader.ts';
import { initialHeaderTableBytes, initialMaxFrameBytes } from '../../limiter/http2/constants.ts';
import { type BudgetLimits, defaultHttp2Limits, type Http2Limits } from '../../limiter/http2/limits.ts';
import { grpcSettings } from '../../limiter/settings/grpc-settings.ts';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { connectionRejections } from '../../limiter/sockets/socket-server.ts';
import { handshakeTimeoutMs } from '../../process/net/tls-handshake.ts';

const text = readFileSync(new URL('../../docs/grpc-listener.md', import.meta.url), 'utf8');
const rows = text
  .split('\n')
  .filter((line) => line.startsWith('| '))
  .map((line) => line.slice(2, -2).split(' | '));

/** The cells of the one row that begins so. */
function row(beginning: string): string[] {
  const found = rows.filter(([what]) => what?.startsWith(beginning));
  expect(found, `rows that begin with "${beginning}"`).toHaveLength(1);
  return found[0] as string[];
}

const grouped = (value: number): string => value.toLocaleString('en-US');
const bytes = (value: number): string =>
  value >= 1 << 20 ? `${value / (1 << 20)} MiB` : `${value / (1 << 10)} KiB`;
const seconds = (ms: number): string => `${ms / 1000} s`;
const budget = ({ burst, perRequest, perSecond }: BudgetLimits): string => {
  const answers = perRequest < 1 ? `each ${1 / perRequest} answers` : 'each answer';
  return `${grouped(burst)} at once; ${Math.max(1, perRequest)} more with ${answers}, ${perSecond} with each second`;
};

const limits = defaultHttp2Limits;
/** The row that has the bound, and how it reads. Undefined: the settings decide, or it is no bound of what a client may do. */
const bounds: Record<keyof Http2Limits, [beginning: string, bound: string] | undefined> = {
  maxConcurrentStreams: ['streams at a time', grouped(limits.maxConcurrentStreams)],
  streamWindowBytes: ['receive window of a stream', bytes(limits.streamWindowBytes)],
  connectionWindowBytes: ['receive window of the connection', bytes(limits.connectionWindowBytes)],
  maxBufferedBytes: ['bodies of incomplete requests', bytes(limits.maxBufferedBytes)],
  maxHeaderListBytes: ['header list', bytes(limits.maxHeaderListBytes)],
  maxHeaderBlockBytes: ['header section, compressed', bytes(limits.maxHeaderBlockBytes)],
  maxContinuationFrames: ['CONTINUATION frames', String(limits.maxContinuationFrames)],
  controlFrames: ['frames that are not requests', budget(limits.controlFrames)],
  rapidResets: [
    `requests that the client resets within ${limits.rapidResetMs} ms, or`,
    budget(limits.rapidResets),
  ],
  rapidResetMs: undefined,
  provokedResets: ['faults for which the limiter resets', budget(limits.provokedResets)],
  pauseQueuedBytes: ["answers that wait for the client's windows", bytes(limits.pauseQueuedBytes)],
  maxQueuedBytes: ['answers that wait for either', bytes(limits.maxQueuedBytes)],
  slowReaderMs: ['waiting answers without progress', seconds(limits.slowReaderMs)],
  prefaceTimeoutMs: [
    "client's preface and SETTINGS",
    `${seconds(limits.prefaceTimeoutMs)} after the connection opened`,
  ],
  settingsTimeoutMs: ["ACK of the limiter's SETTINGS", seconds(limits.settingsTimeoutMs)],
  requestTimeoutMs: [
    'request, from its first',
    `${seconds(limits.requestTimeoutMs)}; no bound for a stream of messages (reflection)`,
  ],
  idleTimeoutMs: undefined,
  keepaliveMs: undefined,
  keepaliveTimeoutMs: undefined,
  drainPingMs: undefined,
};

describe('docs/grpc-listener.md', () => {
  it.each(Object.entries(bounds).flatMap(([name, bound]) => (bound === undefined ? [] : [[name, ...bound]])))(
    'has the bound %s',
    (_, beginning, bound) => expect(row(beginning as string)[1]).toBe(bound),
  );

  it('has every bound of the protocol, of gRPC and of TLS', () => {
    expect(Object.keys(bounds).sort()).toEqual(Object.keys(limits).sort());
    expect(row('answers that wait for a full socket')[1]).toBe(bytes(limits.pauseQueuedBytes));
    expect(row('frame (')[1]).toBe(bytes(initialMaxFrameBytes));
    expect(row('HPACK table')[1]).toBe(bytes(initialHeaderTableBytes));
    expect(row('header section, or any frame')[1]).toBe(seconds(limits.requestTimeoutMs));
    expect(row('TLS handshake')[1]).toBe(seconds(handshakeTimeoutMs));
    const { maxMessageBytes, maxQueuedBytes, deadlineSweepMs } = defaultGrpcLimits;
    expect(row('message of ShouldRateLimit')[1]).toBe(
      `\`REQUEST_MAX_BYTES\`, ${bytes(defaultRequestLimits.maxBytes)}`,
    );
    expect(row('message of a request')[1]).toBe(bytes(maxMessageBytes));
    expect(row('memory of unfinished work on all connections')[1]).toBe(
      `${bytes(parseLimiterSettings({}).settings?.connectionsMaxBytes ?? 0)} (\`CONNECTIONS_MAX_BYTES\`)`,
    );
    expect(row('answers of one `Watch`')[1]).toBe(bytes(maxQueuedBytes));
    expect(text).toContain(`(\`grpc-timeout\`) within ${deadlineSweepMs} ms`);
    const { grpcMaxConnections } = grpcSettings;
    expect(row('connections of the process')[1]).toBe(
      `${grouped(grpcMaxConnections.default)} (\`${grpcMaxConnections.name}\`)`,
    );
  });

  it('explains every reason for the end of a connection, in the order of the code', () => {
    const reasons = rows.map(([what]) => /^`([a-z0-9_]+)`$/.exec(what ?? '')?.[1]).filter((what) => what);
    expect(reasons).toEqual(connectionRejections);
  });

  it('has the defaults of the ages of a connection', () => {
    const { grpcMaxConnectionAgeMs, grpcMaxConnectionAgeGraceMs, grpcMaxConnectionIdleMs } = grpcSettings;
    const { grpcKeepaliveTimeMs, grpcKeepaliveTimeoutMs } = grpcSettings;
    const hours = (ms: number): string => `${ms / 3_600_000} h`;
    for (const [setting, value] of [
      [grpcMaxConnectionAgeMs, hours(grpcMaxConnectionAgeMs.default)],
      [grpcMaxConnectionAgeGraceMs, hours(grpcMaxConnectionAgeGraceMs.default)],
      [grpcMaxConnectionIdleMs, grpcMaxConnectionIdleMs.default === 0 ? 'never' : ''],
      [grpcKeepaliveTimeMs, hours(grpcKeepaliveTimeMs.default)],
      [grpcKeepaliveTimeoutMs, seconds(grpcKeepaliveTimeoutMs.default)],
    ] as const) {
      expect(row(`\`${setting.name}\``)[1]).toBe(value);
    }
  });
});
