import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { BackgroundWriter } from './background-writer.ts';

type Answer = number | 'EAGAIN' | 'EPIPE';

function errorOf(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** A descriptor that takes as many bytes of each write as the answers say, and all of them without an answer. */
function setUp({ maxWaiting = 1_000, answers = [] as Answer[] } = {}) {
  const taken: string[] = [];
  const pending: (() => void)[] = [];
  const timers = new ManualTimers();
  const take = (bytes: Uint8Array): number => {
    const answer = answers.shift() ?? bytes.length;
    if (typeof answer === 'string') throw errorOf(answer);
    taken.push(Buffer.from(bytes.subarray(0, answer)).toString());
    return answer;
  };
  const writer = new BackgroundWriter({
    ...{ fd: 2, maxWaiting, timers },
    write: (_fd, bytes, done) => {
      pending.push(() => {
        try {
          done(null, take(bytes));
        } catch (error) {
          done(error as NodeJS.ErrnoException, 0);
        }
      });
    },
    writeSync: (_fd, bytes) => take(bytes),
  });
  const settle = () => {
    for (let one = pending.shift(); one !== undefined; one = pending.shift()) one();
  };
  return { writer, taken, timers, settle, pending };
}

describe('BackgroundWriter', () => {
  it('writes one piece at a time, and the lines that came meanwhile together', () => {
    const { writer, taken, settle, pending } = setUp();
    for (const line of ['a\n', 'b\n', 'c\n']) writer.write(line);
    expect(pending).toHaveLength(1);
    settle();
    expect(taken).toEqual(['a\n', 'b\nc\n']);
    writer.write('d\n');
    settle();
    expect(taken.at(-1)).toBe('d\n');
  });

  it('continues after a part, and tries a full pipe again', () => {
    const { writer, taken, timers, settle } = setUp({ answers: [2, 'EAGAIN', 'EAGAIN'] });
    writer.write('über\n');
    settle();
    timers.advance(100);
    settle();
    expect(taken).toEqual(['ü']);
    timers.advance(100);
    settle();
    expect(taken.join('')).toBe('über\n');
  });

  it('drops lines without room, whole ones, and takes others again later', () => {
    const { writer, taken, settle } = setUp({ maxWaiting: 5 });
    for (const line of ['1\n', '22\n', '333\n', '4\n', '5\n']) writer.write(line);
    settle();
    writer.write('6\n');
    settle();
    expect(taken.join('')).toBe('1\n22\n4\n6\n');
  });

  it('writes nothing more once there is no reader', () => {
    const { writer, taken, settle, pending } = setUp({ answers: ['EPIPE'] });
    writer.write('a\n');
    settle();
    writer.write('b\n');
    expect(pending).toEqual([]);
    writer.end();
    expect(taken).toEqual([]);
  });

  it('writes what waits at the end, but not again what is being written', () => {
    const { writer, taken, settle } = setUp();
    for (const line of ['a\n', 'b\n']) writer.write(line);
    writer.end();
    expect(taken).toEqual(['b\n']);
    settle();
    writer.write('c\n');
    writer.end();
    expect(taken).toEqual(['b\n', 'a\n']);
  });

  it('writes at the end what was to be tried again', () => {
    const { writer, taken, timers, settle } = setUp({ answers: ['EAGAIN', 1, 'EAGAIN'] });
    for (const line of ['a\n', 'b\n']) writer.write(line);
    settle();
    writer.end();
    expect(taken.join('')).toBe('a\nb\n');
    timers.advance(100);
    settle();
    expect(taken.join('')).toBe('a\nb\n');
  });

  it.each(['EPIPE', 'EAGAIN'] as const)('ends although the descriptor answers %s for ever', (code) => {
    const { writer, taken } = setUp({ answers: [1, ...Array.from({ length: 200 }, () => code)] });
    writer.write('a\n');
    writer.write('bcd\n');
    writer.end();
    expect(taken).toEqual(['b']);
  });
});
