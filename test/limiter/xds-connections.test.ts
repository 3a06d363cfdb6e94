import { createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { listenInTest } from '../support/listen-in-test.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { steadyBackoff, WatchedXdsSource } from '../support/watched-xds-source.ts';

// Apart from the tests beside the source, which share a process with others: the timers of grpc-js are those of the process.

describe('the connections of an xDS source', () => {
  /** A port, and the connections that came to it, each of which `treat` gets. */
  async function counted(treat: (socket: Socket) => void) {
    const came: Socket[] = [];
    const port = await listenInTest(
      createServer((socket) => {
        came.push(socket);
        treat(socket);
      }),
    );
    return { port, came };
  }
  const refusing = () => counted((socket) => socket.destroy());

  /** Moves the time of grpc-js, which is not handed in, and gives its sockets a moment. */
  async function passInGrpc(ms: number): Promise<void> {
    for (let passedMs = 0; passedMs < ms; passedMs += 500) {
      vi.advanceTimersByTime(500);
      await sleep(2);
    }
    await sleep(50);
  }

  async function until(isSo: () => boolean): Promise<void> {
    const deadline = new LoadedDeadline(5_000);
    while (!isSo() && !deadline.isOver) await sleep(5);
  }

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('are those of its own waits, and leave no timer behind', async () => {
    const { port, came } = await refusing();
    const timers = new ManualTimers();
    const watched = await WatchedXdsSource.start({
      port,
      timers,
      connectRetryMs: 4_000,
      backoff: steadyBackoff,
    });
    for (const attempt of [1, 2, 3]) {
      await until(() => watched.reported.length >= attempt);
      await passInGrpc(5_000);
      expect([came.length, watched.reported.length]).toEqual([attempt, attempt]);
      timers.advance(4_000);
    }
    await until(() => watched.reported.length >= 4);
    await watched.source.close();
    await passInGrpc(20_000);
    expect([came.length, vi.getTimerCount()]).toEqual([4, 0]);
  });

  it('are one to each address, while another address keeps it waiting', async () => {
    const [bad, silent] = [await refusing(), await counted((socket) => socket.resume())];
    const timers = new ManualTimers();
    const target = `ipv4:127.0.0.1:${bad.port},127.0.0.1:${silent.port}`;
    const watched = await WatchedXdsSource.start({ port: 0, target, timers });
    await passInGrpc(15_000);
    expect([bad.came.length, silent.came.length, watched.reported]).toEqual([1, 1, []]);
    timers.advance(20_000);
    expect(watched.reported).toEqual(['lost: no connection within 20 s']);
  });
});
