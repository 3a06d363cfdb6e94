import { create, toBinary } from '@bufbuild/protobuf';
import { expect, it } from 'vitest';
import { DiscoveryRequestSchema } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { rateLimitConfigTypeUrl as typeUrl } from '../../rules/reader/resource.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { fleetsOf, testSnapshot } from '../../test/support/xds-server.ts';
import { StateOfTheWorld } from './discovery-form.ts';
import type { CallListener } from './limiter-stream.ts';
import { LimiterStreams } from './limiter-streams.ts';

function setUp() {
  const timers = new ManualTimers();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const streams = new LimiterStreams({
    ...recordedTelemetry(),
    ...{ clock, timers, random: Math.random, maxStreams: 10, replicaName: 'replica-0' },
    changed: () => {},
    sent: () => {},
    confirm: (then) => then(),
  });
  /** A stream that has requested rules. `taken` says that the network has accepted the last response. */
  const open = (port: number) => {
    const stream = { sent: 0, taken: (): void => {}, listener: undefined as CallListener | undefined };
    const call = {
      peer: `10.0.0.1:${port}`,
      follow: (listener: CallListener) => {
        stream.listener = listener;
      },
      send: (_: Buffer, taken: () => void) => {
        stream.sent += 1;
        stream.taken = taken;
      },
      ...{ end: () => {}, fail: () => {}, cut: () => {}, hold: () => {} },
    };
    streams.open(call, { caller: undefined }, new StateOfTheWorld());
    const request = create(DiscoveryRequestSchema, { typeUrl });
    stream.listener!.received(Buffer.from(toBinary(DiscoveryRequestSchema, request)));
    return stream;
  };
  return { streams, open };
}

it('is sent nothing if it ends while other responses wait for the network', () => {
  const { streams, open } = setUp();
  // Two such responses are more than may wait.
  streams.serve(fleetsOf(testSnapshot('default', ['a'], 20_000_000)));
  const all = [open(1), open(2), open(3)];
  expect(all.map(({ sent }) => sent)).toEqual([1, 0, 0]);
  all[1]!.listener!.finished();
  all[0]!.taken();
  expect(all.map(({ sent }) => sent)).toEqual([1, 0, 1]);
});
