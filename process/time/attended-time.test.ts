import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../../test/support/eventually.ts';
import {
  systemTimers,
  ticksAfterReading,
  unblockedMs,
  unblockedTimers,
  unrefUnblockedTimers,
} from './clock.ts';

function standStill(ms: number): void {
  const endMs = performance.now() + ms;
  while (performance.now() < endMs);
}

async function socketPair(): Promise<{ ours: Socket; theirs: Socket }> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const ours = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [theirs] = (await once(server, 'connection')) as [Socket];
  onTestFinished(() => {
    ours.destroy();
    theirs.destroy();
    server.close();
  });
  return { ours, theirs };
}

describe('attended time', () => {
  it('continues while the thread turns, and leaves out what it stood still', async () => {
    const startedMs = performance.now();
    const startMs = unblockedMs();
    await sleep(120);
    const turnedMs = unblockedMs() - startMs;
    expect(turnedMs).toBeGreaterThan(80);
    expect(turnedMs).toBeLessThanOrEqual(performance.now() - startedMs);
    const beforeMs = unblockedMs();
    standStill(1000);
    expect(unblockedMs() - beforeMs).toBeLessThanOrEqual(100);
    await sleep(1);
    expect(unblockedMs() - beforeMs).toBeLessThan(500);
  });

  it('never goes backwards', async () => {
    let lastMs = unblockedMs();
    for (let i = 0; i < 20; i += 1) {
      if (i % 5 === 0) standStill(150);
      await sleep(7);
      const nowMs = unblockedMs();
      expect(nowMs).toBeGreaterThanOrEqual(lastMs);
      lastMs = nowMs;
    }
  });

  it('reads what came while the thread stood still before a timer fires', async () => {
    const { ours, theirs } = await socketPair();
    const received: string[] = [];
    for (let round = 0; round < 5; round += 1) {
      const callOff = unblockedTimers.after(50, () => received.push('nothing'));
      ours.once('data', () => {
        received.push('an answer');
        callOff();
      });
      theirs.write('.');
      standStill(300);
      await sleep(120);
    }
    expect(received).toEqual(new Array(5).fill('an answer'));
  });

  it('fires a timer once, not before its time', async () => {
    const fired: number[] = [];
    const startMs = performance.now();
    unblockedTimers.after(60, () => fired.push(performance.now() - startMs));
    // Time in which the thread stood still does not count, so a busy machine takes longer.
    await eventually(() => expect(fired).toHaveLength(1));
    await sleep(100);
    expect(fired).toEqual([expect.toSatisfy((ms: number) => ms >= 58)]);
  });

  it('keeps the process alive, unless it is loose', async () => {
    const held = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const before = held();
    let fired = false;
    unrefUnblockedTimers.after(20, () => {
      fired = true;
    });
    expect(held()).toBe(before);
    const callOff = unblockedTimers.after(20, () => {});
    expect(held()).toBe(before + 1);
    callOff();
    await sleep(150);
    expect(fired).toBe(true);
  });

  it('makes up for no ticks, and ends them', async () => {
    let ticks = 0;
    const end = ticksAfterReading(systemTimers)(10, () => {
      ticks += 1;
    });
    standStill(200);
    for (let turns = 0; turns < 2; turns += 1) await turn();
    expect(ticks).toBeLessThanOrEqual(1);
    await sleep(100);
    expect(ticks).toBeGreaterThan(1);
    end();
    const ended = ticks;
    await sleep(50);
    expect(ticks).toBe(ended);
  });
});
