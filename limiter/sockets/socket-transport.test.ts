import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Duplex } from 'node:stream';
import { setImmediate as turnOfLoop } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished } from 'vitest';
import { FlushTurn, LoopTurns } from '../../process/queues/loop-turns.ts';
import { readsInPlace, SocketTransport } from './socket-transport.ts';

/** The bytes that are handed over at a time. */
const pieceBytes = 16_384;

/** A thread whose turns are run by hand. Each piece that is handed over takes `costMs`. */
class Thread {
  nowMs = 0;
  readonly costMs: number;
  #later: (() => void)[] = [];
  readonly clock = { monotonicMs: () => this.nowMs };
  readonly turns = new LoopTurns({
    clock: this.clock,
    later: (callback) => void this.#later.push(callback),
  });
  readonly flushTurn = new FlushTurn();
  /** The receivers and the sizes of the pieces. */
  readonly pieces: [who: string, bytes: number][] = [];

  constructor(costMs: number) {
    this.costMs = costMs;
  }

  get isAtRest(): boolean {
    return this.#later.length === 0;
  }

  async turn(): Promise<void> {
    for (const callback of this.#later.splice(0)) callback();
    await turnOfLoop();
  }

  worked(who: string, bytes: number): void {
    this.pieces.push([who, bytes]);
    this.nowMs += this.costMs;
  }
}

/** A peer with the part of a socket that a transport needs, without a system socket. */
class Peer {
  readonly socket: Duplex;
  readonly transport: SocketTransport;
  /** The received bytes, and whether the end was reported. */
  received = Buffer.alloc(0);
  hasEnded = false;
  sent = Buffer.alloc(0);
  /** The waiting bytes that were reported: the last value, and the highest. */
  reportedUnread = 0;
  maxUnread = 0;

  constructor(thread: Thread, who: string, address = who, accepted?: Socket) {
    const unread: Duplex = new Duplex({ read: () => {}, write: (_bytes, _encoding, done) => done() });
    this.socket = accepted ?? Object.assign(unread, { remoteAddress: address });
    this.transport = new SocketTransport(this.socket as Socket, thread);
    const reader = {
      receive: (bytes: Uint8Array) => {
        this.received = Buffer.concat([this.received, bytes]);
        thread.worked(who, bytes.length);
      },
      peerEnded: () => {
        this.hasEnded = true;
        thread.nowMs += thread.costMs;
      },
    };
    this.transport.read(reader, () => {
      this.reportedUnread = this.transport.unreadBytes;
      this.maxUnread = Math.max(this.maxUnread, this.reportedUnread);
    });
  }

  send(count: number): void {
    const bytes = Buffer.from(Array.from({ length: count }, (_, i) => (this.sent.length + i) % 251));
    this.sent = Buffer.concat([this.sent, bytes]);
    this.socket.push(bytes);
  }
}

describe('a connection with much to do', () => {
  it('is handed over a piece at a time, and waits with the rest when others have their turn', async () => {
    const thread = new Thread(5);
    const [much, little] = [new Peer(thread, 'much'), new Peer(thread, 'little')];
    await turnOfLoop();
    much.send(60_000);
    little.send(10);
    expect(thread.pieces).toEqual([['much', pieceBytes]]);
    expect([much.transport.unreadBytes, little.transport.unreadBytes]).toEqual([60_000 - pieceBytes, 10]);
    expect([much.maxUnread, little.maxUnread]).toEqual([60_000 - pieceBytes, 10]);
    while (!thread.isAtRest) await thread.turn();
    expect(thread.pieces.slice(1)).toEqual([
      ['much', pieceBytes],
      ['little', 10],
      ['much', pieceBytes],
      ['much', 60_000 - 3 * pieceBytes],
    ]);
    expect(much.received.equals(much.sent)).toBe(true);
    expect([much.transport.unreadBytes, much.reportedUnread, little.reportedUnread]).toEqual([0, 0, 0]);
  });

  it('is read as it arrives when no other connection waits and its share suffices', async () => {
    const thread = new Thread(0.5);
    const peer = new Peer(thread, 'a');
    await turnOfLoop();
    peer.send(40_000);
    expect(thread.pieces.map(([, bytes]) => bytes)).toEqual([
      pieceBytes,
      pieceBytes,
      40_000 - 2 * pieceBytes,
    ]);
    expect(peer.maxUnread).toBe(0);
  });

  it('has its turn after the one of each other address, not of each connection', async () => {
    const thread = new Thread(5);
    const many = Array.from({ length: 20 }, (_, i) => new Peer(thread, `many ${i}`, '10.0.0.1'));
    const one = new Peer(thread, 'one', '10.0.0.2');
    await turnOfLoop();
    for (const peer of many) peer.send(16_000);
    one.send(10);
    while (!thread.isAtRest) await thread.turn();
    // The first one used the share of the turn in which all arrived.
    expect(thread.pieces.findIndex(([who]) => who === 'one')).toBe(2);
  });

  it('is shown that its peer ended when its turn comes, if very many end at once', async () => {
    const thread = new Thread(1);
    const peers = Array.from({ length: 12 }, (_, i) => new Peer(thread, `${i}`, '10.0.0.1'));
    await turnOfLoop();
    for (const { socket } of peers) socket.push(null);
    await turnOfLoop();
    const ended: number[] = [];
    const look = (): void => void ended.push(peers.filter(({ hasEnded }) => hasEnded).length);
    for (look(); !thread.isAtRest; look()) await thread.turn();
    expect(ended.slice(0, 3)).toEqual([4, 8, 12]);
  });

  it('loses what waits when we end it', async () => {
    const thread = new Thread(5);
    const peer = new Peer(thread, 'a');
    await turnOfLoop();
    peer.send(20_000);
    peer.transport.end();
    expect(peer.transport.unreadBytes).toBe(0);
    while (!thread.isAtRest) await thread.turn();
    await turnOfLoop();
    peer.socket.push(null);
    await turnOfLoop();
    expect([thread.pieces.length, peer.socket.readableLength, peer.hasEnded]).toEqual([1, 0, false]);
  });
});

describe('a connection that also waits for its peer to read', () => {
  it('is handed nothing in its turn until then, and what waits has a turn afterward', async () => {
    const thread = new Thread(5);
    const peer = new Peer(thread, 'a');
    await turnOfLoop();
    peer.send(20_000);
    peer.transport.pause();
    while (!thread.isAtRest) await thread.turn();
    expect(thread.pieces).toEqual([['a', pieceBytes]]);
    expect(peer.transport.unreadBytes).toBe(20_000 - pieceBytes);
    peer.transport.resume();
    expect(thread.pieces).toHaveLength(1);
    while (!thread.isAtRest) await thread.turn();
    expect(peer.received.equals(peer.sent)).toBe(true);
  });

  it('gets all in its order and the end last, however both waits meet', async () => {
    const step = fc.oneof(
      fc.record({ send: fc.integer({ min: 1, max: 40_000 }), who: fc.nat(1) }),
      fc.record({ pause: fc.boolean(), who: fc.nat(1) }),
      fc.constant('turn' as const),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { maxLength: 30 }),
        fc.constantFrom(0.1, 1, 5),
        async (steps, costMs) => {
          const thread = new Thread(costMs);
          const peers = [new Peer(thread, 'a'), new Peer(thread, 'b')];
          const paused = [false, false];
          await turnOfLoop();
          for (const one of steps) {
            const before = peers.map(({ received }) => received.length);
            if (one === 'turn') await thread.turn();
            else {
              const peer = peers[one.who] as Peer;
              if ('send' in one) peer.send(one.send);
              else {
                if (one.pause) peer.transport.pause();
                else peer.transport.resume();
                paused[one.who] = one.pause;
              }
              await turnOfLoop();
            }
            for (const [i, { received, sent, transport }] of peers.entries()) {
              if (paused[i]) expect(received.length).toBe(before[i]);
              // Every byte that arrived is either handed over or reported.
              expect(received.length + transport.unreadBytes).toBe(sent.length);
            }
          }
          for (const { transport, socket } of peers) {
            transport.resume();
            socket.push(null);
          }
          await turnOfLoop();
          while (!thread.isAtRest) await thread.turn();
          await turnOfLoop();
          for (const peer of peers) {
            expect(peer.received.equals(peer.sent)).toBe(true);
            expect(peer.hasEnded).toBe(true);
          }
        },
      ),
    );
  });
});

describe('a socket that a server accepted', () => {
  const places = {
    TCP: { port: 0, host: '127.0.0.1' },
    'a Unix socket': { path: join(tmpdir(), `weir-transport-${process.pid}.sock`) },
  };

  /** Returns both ends. */
  async function accepted(place: (typeof places)[keyof typeof places]): Promise<[Socket, Socket]> {
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve) => void server.listen(place, resolve));
    const client = 'path' in place ? connect(place.path) : connect((server.address() as AddressInfo).port);
    const socket = await new Promise<Socket>((resolve) => void server.once('connection', resolve));
    onTestFinished(() => {
      client.destroy();
      socket.destroy();
      server.close();
    });
    return [client, socket];
  }

  it.each(Object.entries(places))('is read in place, by this Node: %s', async (_name, place) => {
    const [client, socket] = await accepted(place);
    const texts: string[] = [];
    const isInPlace = readsInPlace(socket, (length, buffer) => {
      texts.push(buffer.toString('latin1', 0, length));
      return true;
    });
    expect(isInPlace).toBe(true);
    socket.resume();
    client.write('abc');
    while (texts.length === 0) await turnOfLoop();
    expect(texts).toEqual(['abc']);
  });

  it('is read as a stream if Node has no such parts', () => {
    const thread = new Thread(1);
    const { socket } = new Peer(thread, 'a');
    expect(readsInPlace(socket as Socket, () => true)).toBe(false);
    expect(socket.listenerCount('data')).toBe(1);
  });

  it.each(Object.entries(places))(
    'loses nothing that waits, whichever side is late: %s',
    async (_name, place) => {
      const [client, socket] = await accepted(place);
      const thread = new Thread(2);
      const peer = new Peer(thread, 'a', 'a', socket);
      // No two reads have the same contents.
      const sent = Buffer.from(Array.from({ length: 600_000 }, (_, at) => at * 7 + (at >> 8) + (at >> 16)));
      for (let at = 0; at < sent.length; at += 50_000) client.write(sent.subarray(at, at + 50_000));
      client.end();
      for (let turn = 0; !peer.hasEnded; turn += 1) {
        if (turn % 7 === 3) peer.transport.pause();
        if (turn % 7 === 5) peer.transport.resume();
        // A stream keeps its usual amount, and there may be one more read.
        expect(peer.transport.unreadBytes).toBeLessThanOrEqual(2 * 65_536);
        await thread.turn();
      }
      expect(peer.received.equals(sent)).toBe(true);
      expect(peer.maxUnread).toBeGreaterThan(0);
      expect(peer.transport.unreadBytes).toBe(0);
    },
  );
});
