import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { OwnWrites } from './kubernetes-source.ts';

function setUp(): { told: string[]; writes: OwnWrites } {
  const told: string[] = [];
  return { told, writes: new OwnWrites((writer) => told.push(writer)) };
}

describe('OwnWrites', () => {
  it('knows the event of a write that came back', () => {
    const { told, writes } = setUp();
    writes.begin('a')('7');
    expect(writes.writerOf('a', '7')).toBe('own');
    expect(told).toEqual([]);
  });

  it('knows an event that came before the answer', () => {
    const { told, writes } = setUp();
    const settle = writes.begin('a');
    expect(writes.writerOf('a', '7')).toBe('open');
    expect(told).toEqual([]);
    settle('7');
    expect(told).toEqual(['own']);
  });

  it('tells of others who write at the same time', () => {
    const { told, writes } = setUp();
    const settle = writes.begin('a');
    expect(writes.writerOf('a', '6')).toBe('open');
    expect(writes.writerOf('a', '7')).toBe('open');
    settle('7');
    expect(told).toEqual(['own', 'other']);
  });

  it('takes what came of a lost answer for another’s', () => {
    const { told, writes } = setUp();
    const settle = writes.begin('a');
    writes.writerOf('a', '7');
    settle(undefined);
    expect(told).toEqual(['other']);
    expect(writes.writerOf('a', '8')).toBe('other');
  });

  it('knows writes whose events come late', () => {
    const { writes } = setUp();
    writes.begin('a')('7');
    writes.begin('a')('8');
    writes.begin('a')('9');
    expect(['7', '9', '10', '8'].map((version) => writes.writerOf('a', version))).toEqual([
      'own',
      'own',
      'other',
      'other',
    ]);
  });

  it('keeps objects apart, and forgets those that are gone', () => {
    const { writes } = setUp();
    writes.begin('a')('7');
    expect(writes.writerOf('b', '7')).toBe('other');
    writes.forget('a');
    expect(writes.writerOf('a', '7')).toBe('other');
  });

  it('remembers so many versions and no more', () => {
    const { writes } = setUp();
    for (let version = 0; version < 65; version++) writes.begin('a')(String(version));
    expect(writes.writerOf('a', '0')).toBe('other');
    expect(writes.writerOf('a', '1')).toBe('own');
  });

  it('tells of every foreign version, whatever comes first', () => {
    // A server numbers the writes; their events come in that order, each answer before or after its event.
    const step = fc.record({ isOwn: fc.boolean(), answerLag: fc.nat(3), isLost: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
        const { told, writes } = setUp();
        let pending: { settle(version?: string): void; version: string | undefined; lag: number } | undefined;
        let untold = 0;
        for (const [index, { isOwn, answerLag, isLost }] of steps.entries()) {
          const version = String(index);
          if (isOwn && pending === undefined) {
            const settle = writes.begin('a');
            if (answerLag === 0) settle(isLost ? undefined : version);
            else pending = { settle, version: isLost ? undefined : version, lag: answerLag };
          } else untold++;
          const before = told.filter((writer) => writer === 'other').length;
          const writer = writes.writerOf('a', version);
          if (isOwn && answerLag === 0 && !isLost && pending === undefined) expect(writer).toBe('own');
          if (writer === 'other') untold = 0;
          if (pending !== undefined && --pending.lag === 0) {
            pending.settle(pending.version);
            pending = undefined;
          }
          if (told.filter((one) => one === 'other').length > before) untold = 0;
          if (pending === undefined) expect(untold).toBe(0);
        }
      }),
    );
  });
});
