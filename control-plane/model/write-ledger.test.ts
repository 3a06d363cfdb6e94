import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ConfigWrites, configObject } from '../../test/support/config-object-builder.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import type { ConfigObject, ConfigStatus } from './config-object.ts';
import type { WriteEnd } from './write-ledger.ts';

const statusOf = (rules: number): ConfigStatus => ({ observedGeneration: 1, rules, conditions: [] });

/** `shop` as the API has it at that version. */
function at(version: string, status?: ConfigStatus, name = 'shop'): ConfigObject {
  return configObject({ name, resourceVersion: version, status });
}

function setUp() {
  const clock = new ManualClock();
  const writes = new ConfigWrites(clock);
  const begin = (object: ConfigObject, rules: number) => writes.begin({ object, status: statusOf(rules) });
  return { clock, writes, begin };
}

describe('an event is one of an own write', () => {
  it('up to the version that was answered last, also when the watch is behind by several', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    begin(at('7'), 2)({ is: 'written', version: '9' });
    expect(['7', '9', '10'].map((version) => writes.ledger.isOwn(at(version)))).toEqual([true, true, false]);
  });

  it('by its content while the write has no answer, or none that says whether it is done', () => {
    const { writes, begin } = setUp();
    const end = begin(at('5'), 1);
    const owns = () => [writes.ledger.isOwn(at('6', statusOf(2))), writes.ledger.isOwn(at('7', statusOf(1)))];
    expect(owns()).toEqual([false, true]);
    end({ is: 'failed' });
    expect(owns()).toEqual([false, true]);
    begin(at('5'), 1)({ is: 'outdated' });
    expect(owns()).toEqual([false, true]);
    begin(at('7'), 3)({ is: 'written', version: '8' });
    expect(writes.ledger.isOwn(at('9', statusOf(1)))).toBe(false);
  });

  it.each<WriteEnd['is']>(['gone', 'refused'])('and of none that was %s', (is) => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is });
    expect(writes.ledger.isOwn(at('6', statusOf(1)))).toBe(false);
  });

  it('of each object apart, and of none that was forgotten', () => {
    const { clock, writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    expect(writes.ledger.isOwn(at('7', undefined, 'mail'))).toBe(false);
    writes.ledger = writes.ledger.without([at('7', undefined, 'mail').uid]);
    expect(writes.ledger.isOwn(at('7'))).toBe(true);
    writes.ledger = writes.ledger.without([at('7').uid]);
    expect(writes.ledger.isOwn(at('7'))).toBe(false);
    const end = begin(at('7'), 2);
    writes.ledger = new ConfigWrites(clock).ledger;
    end({ is: 'written', version: '9' });
    expect(writes.ledger.isOwn(at('9', statusOf(2)))).toBe(false);
  });
});

describe('the newest status of an object', () => {
  it('is what was written, until the watch shows it, for a minute at most', () => {
    const { clock, writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    clock.ms = 59_999;
    expect(writes.look(at('6'))).toEqual({ known: at('7', statusOf(1)) });
    expect(writes.look(at('8', statusOf(1)))).toEqual({ known: at('8', statusOf(1)) });
    clock.ms = 60_000;
    expect(writes.look(at('6'))).toEqual({ known: at('6') });
  });

  it('is somebody else’s that the watch shows over ours, which is found once', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    const shown = at('8', statusOf(2));
    expect(writes.look(shown)).toEqual({ known: shown, found: { is: 'overwritten', status: statusOf(1) } });
    expect(writes.look(shown)).toEqual({ known: shown });
  });

  it.each<WriteEnd | undefined>([undefined, { is: 'failed' }])('may be one on its way: %j', (end) => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    const ended = begin(at('7'), 2);
    if (end !== undefined) ended(end);
    expect(writes.look(at('8', statusOf(2))).found).toBeUndefined();
  });

  it('is our own if its answer was lost, also while the next write is sent', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    begin(at('7'), 2)({ is: 'failed' });
    const end = begin(at('7'), 3);
    const shown = at('8', statusOf(2));
    expect(writes.ledger.isOwn(shown)).toBe(true);
    expect(writes.look(shown)).toEqual({ known: shown });
    end({ is: 'outdated' });
    const entry = { object: at('7'), status: statusOf(2) };
    expect(writes.look(shown).found).toEqual({ is: 'written', entry });
  });

  it('is our own if one of the last eight writes without an answer has its content', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    for (let rules = 2; rules < 11; rules++) begin(at('7'), rules)({ is: 'failed' });
    expect([2, 3, 10].map((rules) => writes.ledger.isOwn(at('8', statusOf(rules))))).toEqual([
      false,
      true,
      true,
    ]);
  });

  it.each(['after', 'before'])(
    'is our own if its request arrived twice, and the watch shows it %s the conflict',
    (order) => {
      const { writes, begin } = setUp();
      begin(at('5'), 1)({ is: 'written', version: '7' });
      const end = begin(at('7'), 2);
      const shown = at('8', statusOf(2));
      if (order === 'before') expect(writes.look(shown)).toEqual({ known: shown });
      end({ is: 'outdated' });
      expect(writes.ledger.isOwn(shown)).toBe(true);
      const entry = { object: at('7'), status: statusOf(2) };
      expect(writes.look(shown)).toEqual({ known: shown, found: { is: 'written', entry } });
      expect([writes.look(shown), writes.mayWrite(shown)]).toEqual([{ known: shown }, true]);
    },
  );

  it('is somebody else’s if it is another one after a conflict', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '7' });
    begin(at('7'), 2)({ is: 'outdated' });
    const shown = at('8', statusOf(3));
    expect(writes.ledger.isOwn(shown)).toBe(false);
    expect(writes.look(shown)).toEqual({ known: shown, found: { is: 'overwritten', status: statusOf(1) } });
    expect(writes.ledger.isOwn(at('9', statusOf(2)))).toBe(false);
  });

  it('reports after a conflict that a write had been done whose answer was lost', () => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'failed' });
    begin(at('5'), 1)({ is: 'outdated' });
    const entry = { object: at('5'), status: statusOf(1) };
    expect(writes.look(at('7', statusOf(1))).found).toEqual({ is: 'written', entry });
    expect(writes.look(at('7', statusOf(1))).found).toBeUndefined();
  });
});

it.each<WriteEnd['is']>(['gone', 'refused'])(
  'a write that was applied without an answer is our own, though its next attempt was %s',
  (is) => {
    const { writes, begin } = setUp();
    begin(at('5'), 1)({ is: 'written', version: '6' });
    const write = { object: at('6'), status: statusOf(2) };
    writes.begin(write)({ is: 'failed' });
    writes.begin(write)({ is });
    expect(writes.look(at('7', statusOf(2))).found?.is).not.toBe('overwritten');
    expect(writes.ledger.isOwn(at('7', statusOf(2)))).toBe(true);
  },
);

it('a write that was found applied is not found again when it is sent once more', () => {
  const { writes, begin } = setUp();
  begin(at('5'), 1)({ is: 'outdated' });
  const found = () => writes.look(at('6', statusOf(1))).found?.is;
  expect(found()).toBe('written');
  begin(at('5'), 1)({ is: 'outdated' });
  expect(found()).toBe(undefined);
});

describe('after the lead was lost, what was written', () => {
  const former = () => {
    const all = setUp();
    all.begin(at('5'), 1)({ is: 'written', version: '7' });
    const { writes, clock } = all;
    writes.ledger = writes.ledger.lostLead(clock.ms);
    return all;
  };

  it('replaces older states of the watch, for a minute', () => {
    const { clock, writes } = former();
    expect(writes.look(at('5')).known).toEqual(at('7', statusOf(1)));
    clock.ms = 60_000;
    expect(writes.ledger.lostLead(clock.ms).look(at('5'), clock.ms).known).toEqual(at('5'));
  });

  it('may be replaced by the next leader, without being found overwritten', () => {
    const { writes } = former();
    expect(writes.look(at('9', statusOf(2))).found).toBeUndefined();
  });

  it('is no longer former once this process has written again', () => {
    const { writes, begin } = former();
    begin(at('7'), 2)({ is: 'written', version: '9' });
    expect(writes.look(at('10', statusOf(3))).found?.is).toBe('overwritten');
  });
});

it('nothing is written over a version that is outdated, for 10 s or until the watch shows a newer one', () => {
  const { clock, writes, begin } = setUp();
  const mayWrite = () => writes.mayWrite(at('5'));
  begin(at('5'), 1)({ is: 'outdated' });
  expect([mayWrite(), writes.ledger.dueMs()]).toEqual([false, [10_000]]);
  clock.ms = 10_000;
  expect(mayWrite()).toBe(true);
  begin(at('5'), 1)({ is: 'outdated' });
  writes.look(at('5'));
  expect(mayWrite()).toBe(false);
  writes.look(at('6'));
  expect([mayWrite(), writes.ledger.dueMs()]).toEqual([true, []]);
});

type Step = 'write' | 'lose' | 'answer' | 'foreign' | 'show';
const step = fc.constantFrom<Step>('write', 'lose', 'answer', 'foreign', 'show');

it('every foreign status is decided on, and no own one if every write is answered', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (history) => {
      const { writes, begin } = setUp();
      let stored = at('10');
      let shown = stored;
      let hasLost = false;
      const events: { object: ConfigObject; isForeign: boolean }[] = [];
      let answer = () => {};
      let isUnderWay = false;
      const put = (isForeign: boolean, status: ConfigStatus) => {
        stored = at(String(Number(stored.resourceVersion) + 1), status);
        events.push({ object: stored, isForeign });
      };
      const write = (index: number, isLost: boolean): void => {
        if (isUnderWay) return;
        isUnderWay = true;
        hasLost ||= isLost;
        const { known } = writes.look(shown);
        const end = begin(known, index);
        const isDone = known.resourceVersion === stored.resourceVersion;
        if (isDone) put(false, statusOf(index));
        const { resourceVersion: version = '' } = stored;
        const outcome: WriteEnd = isDone ? { is: 'written', version } : { is: 'outdated' };
        answer = () => end(isLost ? { is: 'failed' } : outcome);
      };
      const act: Record<Step, (index: number) => void> = {
        foreign: (index) => put(true, statusOf(index)),
        write: (index) => write(index, false),
        lose: (index) => write(index, true),
        answer: () => {
          answer();
          answer = () => {};
          isUnderWay = false;
        },
        show: () => {
          const event = events.shift();
          if (event === undefined) return;
          shown = event.object;
          const isOwn = writes.ledger.isOwn(shown);
          if (event.isForeign) expect(isOwn).toBe(false);
          else if (!hasLost) expect(isOwn).toBe(true);
        },
      };
      for (const [index, step] of history.entries()) act[step](index);
      act.answer(0);
      while (events.length > 0) act.show(0);
      expect(writes.look(shown).known).toEqual(stored);
    }),
  );
});
