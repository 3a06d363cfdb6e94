import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { ConnectionMemory } from '../net/connection-memory.ts';
import { LoopTurns } from '../queues/loop-turns.ts';
import type { HttpRejection } from './http-connections.ts';
import { type HttpCall, HttpServer } from './http-server.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

class Peer {
  readonly socket: Socket;
  received = '';
  isClosed = false;

  constructor(port: number, localAddress: string) {
    this.socket = connect({ port, host: '127.0.0.1', localAddress });
    this.socket.on('data', (bytes) => {
      this.received += bytes.toString();
    });
    this.socket.on('error', () => {});
    this.socket.on('close', () => {
      this.isClosed = true;
    });
  }

  async ask(path: string): Promise<void> {
    const before = this.received.length;
    this.socket.write(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await eventually(() => expect(this.received.slice(before)).toContain('200 OK'));
  }
}

interface Options {
  maxConnections?: number;
  maxBytes?: number;
  turns?: LoopTurns;
}

async function start({ maxConnections = 3, maxBytes = 10_000_000, turns }: Options = {}) {
  const timers = new ManualTimers();
  const connectionMemory = new ConnectionMemory({ maxBytes, timers });
  const refused: HttpRejection[] = [];
  const calls: HttpCall[] = [];
  let open = 0;
  const server = new HttpServer({
    serve: (call) => {
      if (call.target.path === '/wait') calls.push(call);
      else call.response.end('ok');
    },
    closeGraceMs: 0,
    onFault: (error) => {
      throw error;
    },
    connections: {
      maxConnections,
      connectionMemory,
      turns,
      changed: (by) => {
        open += by;
      },
      rejected: (reason) => refused.push(reason),
    },
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
  cleanups.push(() => server.close());
  const peer = async (from = '127.0.0.1'): Promise<Peer> => {
    const made = new Peer(port, from);
    cleanups.push(() => made.socket.destroy());
    const before = open + refused.length;
    await once(made.socket, 'connect');
    await eventually(() => expect(open + refused.length).toBe(before + 1));
    return made;
  };
  /** Does not wait until the connection is accepted or read. */
  const connectAs = (from: string): Peer => {
    const made = new Peer(port, from);
    cleanups.push(() => made.socket.destroy());
    return made;
  };
  return { server, connectionMemory, timers, refused, calls, peer, connectAs, open: () => open };
}

/** The factor by which the clock of turns is slow: on a busy machine this thread may be interrupted for longer than a share. */
const slowness = 25;

/** Turns that pass only after `release` is called. */
function heldTurns(): { turns: LoopTurns; release(): void } {
  let nowMs = 0;
  let isHeld = true;
  const waiting: (() => void)[] = [];
  const turns = new LoopTurns({
    clock: { monotonicMs: () => (isHeld ? nowMs : performance.now() / slowness) },
    later: (callback) => void (isHeld ? waiting.push(callback) : setImmediate(callback)),
  });
  turns.isSpent();
  nowMs += 4;
  const release = (): void => {
    isHeld = false;
    for (const callback of waiting.splice(0)) setImmediate(callback);
  };
  return { turns, release };
}

/** Turns of a clock that stands still, so that no input waits before `spend` uses up the share of this turn of the loop. */
function spendableTurns(): { turns: LoopTurns; spend(): void } {
  let nowMs = 0;
  const turns = new LoopTurns({ clock: { monotonicMs: () => nowMs }, later: setImmediate });
  const spend = (): void => {
    // The effect of a new connection ends.
    nowMs += 10;
    expect(turns.isSpent()).toBe(false);
    nowMs += 4;
    expect(turns.isSpent()).toBe(true);
  };
  return { turns, spend };
}

describe('HttpServer', () => {
  it('closes the connection that is idle longest for one more', async () => {
    const { peer, refused, open } = await start();
    const [first, second, third] = [await peer(), await peer(), await peer()];
    // A head without its end is not a request. An answer makes the connection the most recent idle one.
    second.socket.write('GET / HTTP/1.1\r\nHost: a\r\n');
    await first.ask('/');
    const probe = await peer();
    await probe.ask('/');
    await eventually(() => expect(second.isClosed).toBe(true));
    expect([first.isClosed, third.isClosed, refused, open()]).toEqual([
      false,
      false,
      ['too_many_connections'],
      3,
    ]);
  });

  it.each([
    ['idle', ''],
    ['unfinished', 'GET / HTTP/1.1\r\nHost: a\r\n'],
    ['receiving', 'POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n'],
    ['busy', 'GET /wait HTTP/1.1\r\nHost: a\r\n\r\n'],
  ])('leaves alone an address that has few, while another has many that are %s', async (_, text) => {
    const { peer, refused } = await start();
    const neighbor = await peer('127.0.0.2');
    if (text.includes('/wait')) neighbor.socket.write(text);
    const crowd = [await peer(), await peer()];
    for (const one of crowd) if (text !== '') one.socket.write(text);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const third = await peer();
    await eventually(() => expect(crowd[0]?.isClosed).toBe(true));
    expect([neighbor, crowd[1], third].map((one) => one?.isClosed)).toEqual([false, false, false]);
    expect(refused).toEqual(['too_many_connections']);
  });

  it('closes none with a request under way while one is idle, and else the one that began first', async () => {
    const { peer, calls, refused } = await start();
    const waiting = [await peer(), await peer()];
    for (const [at, one] of waiting.entries()) {
      one.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n');
      await eventually(() => expect(calls.length).toBe(at + 1));
    }
    const idle = await peer();
    await idle.ask('/');
    const last = await peer();
    await eventually(() => expect(idle.isClosed).toBe(true));
    expect(waiting.map(({ isClosed }) => isClosed)).toEqual([false, false]);
    last.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => expect(calls.length).toBe(3));
    const probe = await peer();
    await probe.ask('/');
    await eventually(() => expect(waiting[0]?.isClosed).toBe(true));
    expect([waiting[1]?.isClosed, last.isClosed, refused.length]).toEqual([false, false, 2]);
  });

  it('counts what heads that do not end hold, and closes the one that holds most', async () => {
    const { peer, connectionMemory, timers, refused } = await start({ maxBytes: 40_000 });
    const [small, large] = [await peer(), await peer()];
    small.socket.write(`GET / HTTP/1.1\r\nHost: a\r\nA: ${'b'.repeat(1_000)}`);
    large.socket.write(`GET / HTTP/1.1\r\nHost: a\r\nA: ${'b'.repeat(7_000)}`);
    await eventually(() => {
      timers.advance(250);
      expect(connectionMemory.bytes).toBeGreaterThan(30_000);
    });
    large.socket.write('b'.repeat(3_000));
    await eventually(() => {
      timers.advance(250);
      expect(large.isClosed).toBe(true);
    });
    expect([small.isClosed, refused]).toEqual([false, ['too_many_bytes']]);
    small.socket.write('\r\n\r\n');
    await eventually(() => expect(small.received).toContain('200 OK'));
    await eventually(() => {
      timers.advance(250);
      expect(connectionMemory.bytes).toBeLessThan(2_048);
    });
  });

  it('closes a connection whose request does not end before one that came later', async () => {
    const { peer, refused, calls } = await start();
    const [slow, second, third] = [await peer(), await peer(), await peer()];
    slow.socket.write('POST /wait HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n');
    await eventually(() => expect(calls).toHaveLength(1));
    await second.ask('/');
    await third.ask('/');
    const fourth = await peer();
    await eventually(() => expect(slow.isClosed).toBe(true));
    expect(refused).toEqual(['too_many_connections']);
    for (const one of [second, third, fourth]) await one.ask('/');
  });

  it('serves requests of a connection one after another, and counts those that were sent before their turn came', async () => {
    const { peer, connectionMemory, calls } = await start();
    const one = await peer();
    for (let i = 0; i < 11; i++) one.socket.write(`GET /wait?${i} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await eventually(() => expect(connectionMemory.bytes).toBe(10 * 4_096));
    expect(calls).toHaveLength(1);
    for (let i = 0; i < 11; i++) {
      await eventually(() => expect(calls).toHaveLength(i + 1));
      expect(calls[i]?.request.url).toBe(`/wait?${i}`);
      calls[i]?.response.end();
    }
    await eventually(() => expect(connectionMemory.bytes).toBe(0));
  });

  it('reads no further while a request waits for the one before it', async () => {
    const { peer, calls, connectionMemory, timers } = await start();
    const one = await peer();
    const get = 'GET /wait HTTP/1.1\r\nHost: a\r\n\r\n';
    one.socket.write(get.repeat(2));
    await eventually(() => expect(connectionMemory.bytes).toBe(4_096));
    one.socket.write(get.repeat(50));
    await new Promise((resolve) => setTimeout(resolve, 50));
    timers.advance(250);
    expect(connectionMemory.bytes).toBe(4_096);
    for (let i = 0; i < 52; i++) {
      await eventually(() => expect(calls).toHaveLength(i + 1));
      calls[i]?.response.end('ok');
    }
    await eventually(() => expect(one.received.match(/200 OK/g)).toHaveLength(52));
  });

  it('answers another address while a connection has requests without end', async () => {
    const { peer, calls } = await start();
    const [greedy, other] = [await peer(), await peer('127.0.0.2')];
    greedy.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2_000));
    await eventually(() => expect(calls).toHaveLength(1));
    await other.ask('/');
    expect(calls).toHaveLength(1);
  });

  it('serves none of the requests that came with one for which its connection ended', async () => {
    const { peer, calls, open } = await start();
    const one = await peer();
    one.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(20));
    await eventually(() => expect(calls).toHaveLength(1));
    calls[0]?.request.socket.destroy();
    await eventually(() => expect(open()).toBe(0));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(calls).toHaveLength(1);
  });

  it('counts answers that are not read', async () => {
    const { peer, connectionMemory, timers, calls, refused } = await start();
    const slow = await peer();
    slow.socket.pause();
    slow.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => expect(calls.length).toBe(1));
    calls[0]?.response.write(Buffer.alloc(9_000_000));
    await eventually(() => {
      timers.advance(250);
      expect(connectionMemory.bytes).toBeGreaterThan(1_000_000);
    });
    calls[0]?.response.write(Buffer.alloc(9_000_000));
    await eventually(() => {
      timers.advance(250);
      expect(refused).toEqual(['too_many_bytes']);
    });
    expect(connectionMemory.bytes).toBe(0);
  });

  it('opens a connection that comes in its turn', async () => {
    const { turns, release } = heldTurns();
    const { connectAs, open } = await start({ turns });
    const one = connectAs('127.0.0.1');
    one.socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    await once(one.socket, 'connect');
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect([open(), one.received]).toEqual([0, '']);
    release();
    await eventually(() => expect(one.received).toContain('200 OK'));
    expect(open()).toBe(1);
  });

  it('closes the first that waits of the address with most', async () => {
    const { turns, release } = heldTurns();
    const { connectAs, refused } = await start({ turns, maxConnections: 3 });
    const other = connectAs('127.0.0.2');
    await once(other.socket, 'connect');
    const many: Peer[] = [];
    for (let i = 0; i < 5; i++) {
      const one = connectAs('127.0.0.1');
      await once(one.socket, 'connect');
      many.push(one);
    }
    await eventually(() => expect(refused).toHaveLength(3));
    await eventually(() =>
      expect(many.map(({ isClosed }) => isClosed)).toEqual([true, true, true, false, false]),
    );
    expect([refused[0], other.isClosed]).toEqual(['too_many_connections', false]);
    release();
    await other.ask('/');
  });

  it('serves a whole request in its turn, and counts it meanwhile', async () => {
    const { turns, spend } = spendableTurns();
    const { peer, calls, connectionMemory } = await start({ turns });
    const one = await peer();
    one.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => expect(calls).toHaveLength(1));
    const served: string[] = [];
    const whenDue = (name: string): void =>
      calls[0]?.memory.whenDue(5_000, () => {
        served.push(name);
      });
    whenDue('at once');
    expect([served, connectionMemory.bytes]).toEqual([['at once'], 0]);
    spend();
    whenDue('in its turn');
    expect([served, connectionMemory.bytes]).toEqual([['at once'], 5_000]);
    await eventually(() => expect(served).toEqual(['at once', 'in its turn']));
    expect(connectionMemory.bytes).toBe(0);
  });

  it('serves nothing of a connection that ended for what it would keep', async () => {
    const { turns, spend } = spendableTurns();
    const { peer, calls, connectionMemory, refused } = await start({ turns, maxBytes: 10_000 });
    const one = await peer();
    one.socket.write('GET /wait HTTP/1.1\r\nHost: a\r\n\r\n');
    await eventually(() => expect(calls).toHaveLength(1));
    let isServed = false;
    spend();
    calls[0]?.memory.whenDue(20_000, () => {
      isServed = true;
    });
    await eventually(() => expect(one.isClosed).toBe(true));
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect([isServed, refused, connectionMemory.bytes]).toEqual([false, ['too_many_bytes'], 0]);
  });

  it('ends with those that wait to be opened', async () => {
    const { turns } = heldTurns();
    const { connectAs, server } = await start({ turns });
    const peers = Array.from({ length: 3 }, () => connectAs('127.0.0.1'));
    for (const { socket } of peers) await once(socket, 'connect');
    await new Promise((resolve) => setTimeout(resolve, 50));
    await server.close();
    await eventually(() => expect(peers.map(({ isClosed }) => isClosed)).toEqual([true, true, true]));
  });
});
