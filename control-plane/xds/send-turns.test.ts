import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { type Sender, SendTurns } from './fleet-response.ts';

class TestSender implements Sender {
  bytes: number;
  sent = 0;
  taken = (): void => {};

  constructor(bytes: number) {
    this.bytes = bytes;
  }

  dueBytes(): number {
    return this.bytes;
  }

  send(taken: () => void): void {
    this.sent++;
    this.taken = taken;
  }
}

const timers = new ManualTimers();
const senders = (...bytes: number[]): TestSender[] => bytes.map((each) => new TestSender(each));

function ask(asking: readonly Sender[]): void {
  const turns = new SendTurns({ timers, maxBytes: 100, patienceMs: 1_000 });
  for (const sender of asking) turns.ask(sender);
}

const sentOf = (all: readonly TestSender[]): number[] => all.map(({ sent }) => sent);

describe('SendTurns', () => {
  it('lets senders send as long as there is room', () => {
    const all = senders(40, 60, 1);
    ask(all);
    expect(sentOf(all)).toEqual([1, 1, 0]);
  });

  it('continues in order when the transport took something', () => {
    const all = senders(100, 50, 50, 50);
    ask(all);
    all[0]?.taken();
    expect(sentOf(all)).toEqual([1, 1, 1, 0]);
  });

  it('frees room once for each response', () => {
    const all = senders(60, 60, 60);
    ask(all);
    all[0]?.taken();
    all[0]?.taken();
    expect(sentOf(all)).toEqual([1, 1, 0]);
  });

  it('lets one response beyond the bound go alone', () => {
    const all = senders(1_000, 1);
    ask(all);
    expect(sentOf(all)).toEqual([1, 0]);
    all[0]?.taken();
    expect(sentOf(all)).toEqual([1, 1]);
  });

  it('does not wait for the slow', () => {
    const all = senders(100, 1);
    ask(all);
    timers.advance(999);
    expect(sentOf(all)).toEqual([1, 0]);
    timers.advance(1);
    expect(sentOf(all)).toEqual([1, 1]);
  });

  it('skips connections that have nothing to send any more', () => {
    const all = senders(100, 50, 50);
    ask(all);
    (all[1] as TestSender).bytes = 0;
    all[0]?.taken();
    expect(sentOf(all)).toEqual([1, 0, 1]);
  });

  it('leaves no timer behind', () => {
    const before = timers.size;
    const all = senders(10, 10);
    ask(all);
    for (const sender of all) sender.taken();
    expect(timers.size).toBe(before);
  });
});
