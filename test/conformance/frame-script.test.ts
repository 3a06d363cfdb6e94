/** What no client of another maker does by itself: a peer played frame by frame, over a real socket. */
import { create, toBinary } from '@bufbuild/protobuf';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { ErrorCode, Flag } from '../../limiter/http2/constants.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { eventually } from '../support/eventually.ts';
import { grpcMessage } from '../support/grpc-message.ts';
import { data, goAway, resetStream } from '../support/http2-frame-script.ts';
import { headersFrame, SocketPeer } from '../support/socket-peer.ts';
import { type ServedLimiter, serveLimiter } from './served-limiter.ts';

const message = grpcMessage(
  toBinary(
    RateLimitRequestSchema,
    create(RateLimitRequestSchema, {
      domain: 'conformance',
      descriptors: [{ entries: [{ key: 'free', value: 'script' }] }],
    }),
  ),
);
const fields = (path: string): [string, string][] => [
  [':method', 'POST'],
  [':scheme', 'http'],
  [':path', path],
  [':authority', 'localhost'],
  ['te', 'trailers'],
  ['content-type', 'application/grpc'],
];
const head = (id: number, ...more: [string, string][]): Buffer =>
  headersFrame(id, [...fields(shouldRateLimitPath), ...more]);
const body = (id: number): Buffer => data(id, message, Flag.END_STREAM);
const odd = (count: number): number[] => Array.from({ length: count }, (_, i) => 2 * i + 1);

describe('a limiter that is talked to frame by frame', () => {
  let served: ServedLimiter;
  let peer: SocketPeer;
  beforeEach(async () => {
    served = await serveLimiter({});
    peer = new SocketPeer(served.port);
  });
  afterEach(async () => {
    peer.close();
    await served.stop();
  });

  const hits = () => served.stat('ratelimit.service.rate_limit.conformance.free.total_hits');
  const answered = (ids: readonly number[]): number[] =>
    ids.filter((id) => {
      const { sections, ended } = peer.stream(id);
      return ended && sections.at(-1)?.['grpc-status'] === '0';
    });

  it('rejects with trailers alone: one header section, no body', async () => {
    peer.send(headersFrame(1, fields('/a.B/C')), body(1));
    await eventually(() => expect(peer.stream(1).ended).toBe(true));
    expect(peer.stream(1)).toMatchObject({
      sections: [
        {
          ':status': '200',
          'content-type': 'application/grpc',
          'grpc-status': '12',
          'grpc-message': 'unknown service a.B',
        },
      ],
      dataBytes: 0,
    });
  });

  it('ends a call whose deadline passes while its message is under way, and counts nothing', async () => {
    peer.send(head(1, ['grpc-timeout', '50m']), data(1, message.subarray(0, 4)));
    await eventually(() => expect(peer.stream(1).ended).toBe(true));
    expect(peer.stream(1).sections.at(-1)).toMatchObject({ 'grpc-status': '4' });
    peer.send(head(3), body(3));
    await eventually(() => expect(answered([3])).toEqual([3]));
    expect(await hits()).toBe(1);
  });

  it('forgets calls that are reset in flight, and answers those beside them', async () => {
    const ids = odd(100);
    const reset = ids.filter((id) => id % 4 === 1);
    const kept = ids.filter((id) => id % 4 === 3);
    peer.send(...ids.map((id) => head(id)));
    peer.send(...reset.map((id) => resetStream(id, ErrorCode.CANCEL)), ...kept.map(body));
    await eventually(() => expect(answered(kept)).toEqual(kept));
    expect(reset.filter((id) => peer.streams.has(id))).toEqual([]);
    expect(await hits()).toBe(kept.length);
  });

  it('serves 1,000 streams that are open at once', async () => {
    const ids = odd(1_000);
    peer.send(...ids.map((id) => head(id)));
    peer.send(...ids.toReversed().map(body));
    await eventually(() => expect(answered(ids)).toHaveLength(ids.length));
    expect(await hits()).toBe(ids.length);
  });

  it('lets calls that run end when it is asked to end, having said which it takes', async () => {
    const ids = odd(10);
    peer.send(...ids.map((id) => head(id)), head(21), body(21));
    await eventually(() => expect(answered([21])).toEqual([21]));
    const stopped = served.limiter.stop();
    await eventually(() => expect(peer.reported).toEqual(['GOAWAY 2147483647 0', 'PING', 'GOAWAY 21 0']));
    peer.send(...ids.map(body));
    await eventually(() => expect(answered(ids)).toEqual(ids));
    await peer.closed;
    expect(await stopped).toBe(0);
  });

  it('answers the calls that run when the peer says that it goes', async () => {
    const ids = odd(10);
    peer.send(...ids.map((id) => head(id)));
    peer.send(goAway(0, ErrorCode.NO_ERROR), ...ids.map(body));
    await eventually(() => expect(answered(ids)).toEqual(ids));
  });
});
