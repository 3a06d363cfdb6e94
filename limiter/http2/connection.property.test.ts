/**
 * Frames of all kinds in any order, cut anywhere: a valid stream gives the same result however it is cut, and no stream makes a
 * connection throw, hang, grow or end without a reason.
 */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  data,
  frame,
  goAway,
  paddedData,
  ping,
  priority,
  resetStream,
  settings,
  settingsAck,
  windowUpdate,
} from '../../test/support/http2-frame-script.ts';
import {
  Http2Peer,
  requestFields,
  responseFields,
  trailerFields,
  writerOf,
} from '../../test/support/http2-peer.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { clientPreface, Flag, FrameType, Setting } from './constants.ts';
import { violationReasons } from './violation.ts';

const opening = [clientPreface, settings(), settingsAck];

/** One call as a client may send it, in one of several shapes, with frames of the connection between. */
type Shape = { body: string; cuts: number; trailers: boolean; split: boolean; between: number };
const shape: fc.Arbitrary<Shape> = fc.record({
  body: fc.string({ maxLength: 200 }),
  cuts: fc.integer({ min: 1, max: 4 }),
  trailers: fc.boolean(),
  split: fc.boolean(),
  between: fc.integer({ min: 0, max: 4 }),
});

const betweens: ((id: number) => Buffer)[] = [
  () => Buffer.alloc(0),
  () => ping(),
  (id) => windowUpdate(id, 1000),
  () => settings([Setting.INITIAL_WINDOW_SIZE, 100]),
  (id) => priority(id, 0),
];

function callFrames(peer: Http2Peer, id: number, { body, cuts, trailers, split, between }: Shape): Buffer[] {
  const block = peer.block([...requestFields, 'x-body', String(body.length)]);
  const headers = split
    ? [
        frame(FrameType.HEADERS, 0, id, block.subarray(0, 7)),
        frame(FrameType.CONTINUATION, Flag.END_HEADERS, id, block.subarray(7)),
      ]
    : [frame(FrameType.HEADERS, Flag.END_HEADERS, id, block)];
  const bytes = Buffer.from(body);
  const size = Math.ceil(bytes.length / cuts);
  const pieces = Array.from({ length: cuts }, (_, at) => bytes.subarray(at * size, (at + 1) * size));
  const bodies = pieces.map((piece, at) =>
    at % 2 === 1
      ? paddedData(id, piece.toString('latin1'), at)
      : data(id, piece, !trailers && at === cuts - 1 ? Flag.END_STREAM : 0),
  );
  if (!trailers && cuts % 2 === 0) bodies.push(data(id, '', Flag.END_STREAM));
  if (trailers) bodies.push(peer.headers(id, ['x', 'y'], Flag.END_STREAM));
  return [...headers, (betweens[between] as (id: number) => Buffer)(id), ...bodies];
}

/** Sends the bytes cut at these places. */
function sendCut(peer: Http2Peer, bytes: Buffer, cuts: readonly number[]): void {
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  let from = 0;
  for (const place of [...places, bytes.length]) {
    // The copy is wiped, so a connection that keeps a reference to it fails.
    const piece = Buffer.from(bytes.subarray(from, place));
    peer.connection.receive(piece, peer.nowMs);
    piece.fill(0xee);
    from = place;
  }
}

describe('a connection, whatever it is sent', () => {
  it('gives the same result for valid frames, however they are cut', () => {
    fc.assert(
      fc.property(
        fc.array(shape, { minLength: 1, maxLength: 6 }),
        fc.array(fc.nat(5000), { maxLength: 30 }),
        (shapes, cuts) => {
          const [whole, cut] = [new Http2Peer(), new Http2Peer()];
          const frames = shapes.flatMap((one, index) => callFrames(whole, 2 * index + 1, one));
          const bytes = Buffer.concat([...opening, ...frames]);
          whole.send(bytes);
          sendCut(cut, bytes, cuts);
          expect(cut.handler.seen).toEqual(whole.handler.seen);
          expect(cut.frames()).toEqual(whole.frames());
          expect([whole.violations, cut.violations]).toEqual([[], []]);
          expect(whole.handler.seen.filter((line) => line.startsWith('request'))).toHaveLength(shapes.length);
        },
      ),
      { numRuns: caseCount(200) },
    );
  });

  it('ends in a defined state', () => {
    fc.assert(
      fc.property(
        fc.array(anyStep(), { maxLength: 60 }),
        fc.array(fc.nat(3000), { maxLength: 20 }),
        (steps, cuts) => {
          const peer = Http2Peer.opened({
            limits: { maxQueuedBytes: 20_000, pauseQueuedBytes: 5000, maxConcurrentStreams: 8 },
          });
          peer.handler.silent = true;
          for (const step of steps) step(peer, cuts);
          expectDefinedState(peer);
          peer.connection.lost();
          expect(peer.connection.openStreams).toBe(0);
          expect(peer.closes).toBe(1);
          expect(openAfterAll(peer)).toEqual([]);
        },
      ),
      { numRuns: caseCount(400) },
    );
  });

  it('survives bytes that are no frames at all', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 400 }), fc.boolean(), (bytes, opened) => {
        const peer = opened ? Http2Peer.opened() : new Http2Peer();
        peer.send(bytes);
        expectDefinedState(peer);
      }),
      { numRuns: caseCount(400) },
    );
  });
});

type Step = (peer: Http2Peer, cuts: readonly number[]) => void;

/** Right and wrong frames, answers, time, and a full socket. */
function anyStep(): fc.Arbitrary<Step> {
  const id = fc.constantFrom(0, 1, 2, 3, 5, 7, 9, 11, 13, 2 ** 31 - 1);
  const bytes = fc.uint8Array({ maxLength: 40 });
  const flags = fc.constantFrom(0, 1, 4, 5, 8, 0x20, 0x2d);
  const number = fc.constantFrom(0, 1, 2, 100, 65_535, 65_536, 2 ** 31 - 1, 2 ** 32 - 1);
  const sends =
    (make: (peer: Http2Peer) => Buffer): Step =>
    (peer, cuts) =>
      sendCut(peer, make(peer), cuts);
  return fc.oneof(
    {
      weight: 6,
      arbitrary: fc.tuple(id, flags).map(([a, f]) => sends((peer) => peer.headers(a, requestFields, f & 1))),
    },
    { weight: 4, arbitrary: fc.tuple(id, bytes, flags).map(([a, b, f]) => sends(() => data(a, b, f & 1))) },
    fc.tuple(fc.nat(17), flags, id, bytes).map(([t, f, a, b]) => sends(() => frame(t, f, a, b))),
    fc.tuple(id, number).map(([a, n]) => sends(() => windowUpdate(a, n))),
    fc.tuple(id, number).map(([a, n]) => sends(() => resetStream(a, n))),
    fc.tuple(fc.nat(7), number).map(([i, n]) => sends(() => settings([i, n]))),
    fc.tuple(id).map(([a]) => sends((peer) => peer.headers(a, ['Bad', 'x']))),
    { weight: 1, arbitrary: fc.constant<Step>(sends(() => goAway(0, 0))) },
    { weight: 4, arbitrary: fc.tuple(id, fc.nat(3000)).map(([a, n]) => answers(a, n)) },
    fc.constant<Step>((peer) => peer.connection.drain()),
    fc.constant<Step>((peer) => peer.connection.onDrain()),
    fc.constant<Step>((peer) => peer.connection.peerEnded()),
    fc.nat(20_000).map(
      (ms): Step =>
        (peer) =>
          peer.pass(ms),
    ),
    fc.boolean().map(
      (full): Step =>
        (peer) => {
          peer.transport.full = full;
        },
    ),
  );
}

function answers(id: number, length: number): Step {
  return (peer) => {
    const stream = peer.handler.streams.get(id);
    if (length % 3 === 0) writerOf(stream).respond(responseFields, Buffer.alloc(length), trailerFields);
    else if (length % 3 === 1) writerOf(stream).reset(8);
    else {
      writerOf(stream).sendHeaders(responseFields, false);
      writerOf(stream).sendData(Buffer.alloc(length));
    }
    peer.connection.flush();
  };
}

/** Expects that the connection is open and silent, or ended by one reason and one call, and that it never buffers more than allowed. */
function expectDefinedState(peer: Http2Peer): void {
  const { violations, transport, connection } = peer;
  const ends = transport.calls.filter((call) => call === 'end' || call === 'destroy');
  expect(ends.length).toBe(connection.isClosed ? 1 : 0);
  expect(peer.closes).toBe(connection.isClosed ? 1 : 0);
  expect(violations.length).toBeLessThanOrEqual(connection.isClosed ? 1 : 0);
  expect(violations.every((reason) => (violationReasons as readonly string[]).includes(reason))).toBe(true);
  expect(violations).not.toContain('internal_error');
  const queued = [...peer.handler.streams.values()].reduce((sum, stream) => sum + stream.queuedBytes, 0);
  expect(queued).toBeLessThanOrEqual(20_000);
  if (connection.isClosed) expect(connection.openStreams).toBe(0);
}

/** Returns streams whose handlers were never notified of the end. */
function openAfterAll(peer: Http2Peer): number[] {
  return [...peer.handler.streams.values()].filter((stream) => stream.isOpen).map((stream) => stream.id);
}
