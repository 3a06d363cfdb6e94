import { EventEmitter } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { type LineEnd, ReviewLine, type WaitingCall } from './admission-server.ts';

interface Review {
  /** Bytes that it holds now. */
  heldBytes(): number;
  giveUp(): void;
  leave(): void;
  /** Undefined while it waits, or is worked on. */
  end(): LineEnd | 'failed' | undefined;
  done: Promise<void>;
}

function makeLine() {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs };
  const timers = new ManualTimers();
  const line = new ReviewLine({ clock, timers });
  /** In the order in which they had their turns. */
  const turns: string[] = [];
  const take = (name: string, address: string, work: () => Promise<void> = async () => {}): Review => {
    const response = Object.assign(new EventEmitter(), { destroyed: false });
    let bytes = 0;
    let end: LineEnd | 'failed' | undefined;
    const memory: WaitingCall['memory'] = {
      hold: (held) => {
        bytes = held;
      },
      piece: () => true,
      whenDue: (_, serve) => serve(),
      giveUp: undefined,
    };
    const call: WaitingCall = {
      request: { socket: { remoteAddress: address } } as unknown as IncomingMessage,
      response: response as unknown as ServerResponse,
      memory,
    };
    const taken = line.take(call, 100, () => {
      turns.push(name);
      return work();
    });
    const done = taken.then(
      (ended) => {
        end = ended;
      },
      () => {
        end = 'failed';
      },
    );
    return {
      heldBytes: () => bytes,
      giveUp: () => memory.giveUp?.(),
      leave: () => response.emit('close'),
      end: () => end,
      done,
    };
  };
  /** Ends the rest after the work that was done. */
  const rest = async (ms: number): Promise<void> => {
    timers.advance(ms);
    await settled();
  };
  const pass = (ms: number): void => {
    nowMs += ms;
  };
  return { pass, take, turns, rest };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Work that takes until `finish` is called. */
function heldWork(): { work: () => Promise<void>; finish(): void } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { work: () => promise, finish: resolve };
}

describe('ReviewLine', () => {
  it('does one work at a time, and rests for as long as it took', async () => {
    const { pass, take, turns, rest } = makeLine();
    const { work, finish } = heldWork();
    const first = take('first', '10.0.0.1', work);
    const second = take('second', '10.0.0.1');
    await settled();
    expect([turns, first.heldBytes(), second.heldBytes()]).toEqual([['first'], 0, 100]);
    pass(30);
    finish();
    await first.done;
    await rest(29);
    expect(turns).toEqual(['first']);
    await rest(1);
    expect([turns, second.end(), second.heldBytes()]).toEqual([['first', 'second'], 'turn', 0]);
  });

  it('lets addresses take turns', async () => {
    const { take, turns, rest } = makeLine();
    const { work, finish } = heldWork();
    take('a1', '10.0.0.1', work);
    for (const name of ['a2', 'a3', 'a4']) take(name, '10.0.0.1');
    take('b1', '10.0.0.2');
    await settled();
    finish();
    for (let i = 0; i < 5; i += 1) {
      await settled();
      await rest(1);
    }
    expect(turns).toEqual(['a1', 'a2', 'b1', 'a3', 'a4']);
  });

  it('sheds the first of the address with most beyond 64, and nothing of another one', async () => {
    const { take, turns } = makeLine();
    const { work } = heldWork();
    take('busy', '10.0.0.9', work);
    const other = take('other', '10.0.0.2');
    const many = Array.from({ length: 64 }, (_, n) => take(`${n}`, '10.0.0.1'));
    await settled();
    expect([many[0], many[1], other].map((one) => one?.end())).toEqual(['shed', undefined, undefined]);
    expect([many[0]!.heldBytes(), turns]).toEqual([0, ['busy']]);
  });

  it('does no work for a caller that left, or whose review was given up', async () => {
    const { take, turns, rest } = makeLine();
    const { work, finish } = heldWork();
    take('busy', '10.0.0.1', work);
    const [gone, shed] = [take('gone', '10.0.0.1'), take('shed', '10.0.0.1')];
    const last = take('last', '10.0.0.1');
    gone.leave();
    shed.giveUp();
    await settled();
    expect([gone, shed].map((one) => [one.end(), one.heldBytes()])).toEqual([
      ['gone', 0],
      ['shed', 0],
    ]);
    finish();
    await settled();
    await rest(1);
    await last.done;
    expect(turns).toEqual(['busy', 'last']);
  });

  it('continues after work that failed', async () => {
    const { take, turns, rest } = makeLine();
    const failed = take('failed', '10.0.0.1', () => Promise.reject(new Error('broken')));
    const next = take('next', '10.0.0.1');
    await failed.done;
    await rest(1);
    await next.done;
    expect([turns, failed.end(), next.end()]).toEqual([['failed', 'next'], 'failed', 'turn']);
  });
});
