import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { LoopTurns, type TurnTaker } from './loop-turns.ts';

/** A loop whose turns are run by hand, with a clock that advances by the declared cost of work. */
class Loop {
  nowMs = 0;
  turn = 0;
  #later: (() => void)[] = [];
  readonly turns = new LoopTurns({
    clock: { monotonicMs: () => this.nowMs },
    later: (callback) => void this.#later.push(callback),
  });
  readonly taken: { who: string; turn: number }[] = [];

  get isAtRest(): boolean {
    return this.#later.length === 0;
  }

  run(): void {
    this.turn += 1;
    for (const callback of this.#later.splice(0)) callback();
  }

  taker(group: string, who: string, costMs: number, times = 1): TurnTaker {
    let left = times;
    const taker = {
      group,
      takeTurn: () => {
        this.taken.push({ who, turn: this.turn });
        this.nowMs += costMs;
        left -= 1;
        if (left > 0) this.turns.wait(taker, 'much');
      },
    };
    return taker;
  }
}

describe('requests as they come', () => {
  it('go at once until they took 4 ms of a turn, and again in the next', () => {
    const loop = new Loop();
    const served = [];
    for (let i = 0; i < 10; i++) {
      served.push(!loop.turns.isSpent());
      loop.nowMs += 1;
    }
    expect(served.filter(Boolean)).toHaveLength(4);
    loop.run();
    expect(loop.turns.isSpent()).toBe(false);
  });

  it('are read no more in a turn that took its share', () => {
    const loop = new Loop();
    expect(loop.turns.isSpent()).toBe(false);
    loop.nowMs += 4;
    expect(loop.turns.isSpent()).toBe(true);
    loop.run();
    expect(loop.turns.isSpent()).toBe(false);
  });

  it('ask nothing of the loop but once in 4 ms, however many come', () => {
    const loop = new Loop();
    let asked = 0;
    for (let i = 0; i < 1000; i++) {
      expect(loop.turns.isSpent()).toBe(false);
      if (!loop.isAtRest) asked += 1;
      loop.run();
      loop.nowMs += 0.1;
    }
    expect(asked).toBe(25);
  });

  it('take twice 4 ms of a turn at most, when one share began before it', () => {
    const loop = new Loop();
    loop.turns.isSpent();
    loop.run();
    const fromMs = loop.nowMs + 3.9;
    loop.nowMs = fromMs;
    while (!loop.turns.isSpent()) loop.nowMs += 0.1;
    expect(loop.nowMs - fromMs).toBeLessThan(8);
  });

  it('share time fairly between new connections and those that wait', () => {
    const loop = new Loop();
    loop.turns.wait(loop.taker('a', 'a', 1), 'much');
    expect(loop.turns.isSpent()).toBe(false);
    loop.nowMs += 4;
    expect(loop.turns.isSpent()).toBe(true);
    loop.run();
    expect(loop.taken).toHaveLength(1);
  });
});

describe('those that wait', () => {
  it('have their turns by address, then by connection', () => {
    const loop = new Loop();
    for (const who of ['a1', 'a2', 'a3']) loop.turns.wait(loop.taker('a', who, 0, 2), 'much');
    loop.turns.wait(loop.taker('b', 'b1', 0, 2), 'much');
    while (!loop.isAtRest) loop.run();
    expect(loop.taken.map(({ who }) => who)).toEqual(['a1', 'b1', 'a2', 'b1', 'a3', 'a1', 'a2', 'a3']);
  });

  it('are 64 in a turn, and fewer when they take long', () => {
    const loop = new Loop();
    loop.turns.wait(loop.taker('a', 'quick', 0.1, 20), 'much');
    while (!loop.isAtRest) loop.run();
    const perTurn = (turn: number): number => loop.taken.filter((one) => one.turn === turn).length;
    expect(perTurn(loop.taken[0]?.turn as number)).toBe(1);
    const slow = new Loop();
    for (let i = 0; i < 20; i++) slow.turns.wait(slow.taker('a', 'slow', 3), 'much');
    slow.run();
    slow.run();
    slow.run();
    expect([1, 2, 3].map((turn) => slow.taken.filter((one) => one.turn === turn).length)).toEqual([2, 2, 2]);
    const many = new Loop();
    for (let i = 0; i < 150; i++) many.turns.wait(many.taker('a', 'quick', 0.01), 'much');
    many.run();
    many.run();
    expect(many.taken.filter(({ turn }) => turn === 2)).toHaveLength(64);
  });

  it('go first if they ask little, except for one of the others in each turn of the loop', () => {
    const loop = new Loop();
    for (let i = 0; i < 5; i++) loop.turns.wait(loop.taker('a', 'much', 1), 'much');
    for (let i = 0; i < 5; i++) loop.turns.wait(loop.taker('a', 'little', 0.1), 'little');
    while (!loop.isAtRest) loop.run();
    const little = new Array<string>(5).fill('little');
    expect(loop.taken.map(({ who }) => who)).toEqual(['much', ...little, 'much', 'much', 'much', 'much']);
  });

  it('have one turn of each kind, however long those of the other kind take', () => {
    for (const [muchMs, littleMs] of [
      [20, 1],
      [1, 20],
    ] as const) {
      const loop = new Loop();
      for (let i = 0; i < 5; i++) loop.turns.wait(loop.taker('a', 'much', muchMs), 'much');
      for (let i = 0; i < 5; i++) loop.turns.wait(loop.taker('b', 'little', littleMs), 'little');
      loop.run();
      expect(new Set(loop.taken.map(({ who }) => who))).toEqual(new Set(['much', 'little']));
    }
  });

  it('keep their place when they wait already', () => {
    const loop = new Loop();
    const first = loop.taker('a', 'first', 0);
    loop.turns.wait(first, 'little');
    loop.turns.wait(loop.taker('a', 'second', 0), 'little');
    loop.turns.wait(first, 'much');
    while (!loop.isAtRest) loop.run();
    expect(loop.taken.map(({ who }) => who)).toEqual(['first', 'second']);
  });

  it('an address that left has no turn', () => {
    const loop = new Loop();
    const gone = loop.taker('a', 'gone', 0);
    loop.turns.wait(gone, 'much');
    loop.turns.wait(loop.taker('a', 'there', 0), 'much');
    loop.turns.leave(gone);
    while (!loop.isAtRest) loop.run();
    expect(loop.taken.map(({ who }) => who)).toEqual(['there']);
  });

  it('have each of their turns once, and no address waits for more than one of each other address', () => {
    const asks = fc.array(fc.record({ group: fc.nat(4), times: fc.integer({ min: 1, max: 5 }) }), {
      maxLength: 30,
    });
    fc.assert(
      fc.property(asks, fc.double({ min: 0, max: 6, noNaN: true }), (all, costMs) => {
        const loop = new Loop();
        all.forEach(({ group, times }, i) => {
          loop.turns.wait(loop.taker(`${group}`, `${group} ${i}`, costMs, times), 'much');
        });
        while (!loop.isAtRest) loop.run();
        const groups = loop.taken.map(({ who }) => who.split(' ')[0] as string);
        for (const [i, { group, times }] of all.entries()) {
          expect(loop.taken.filter(({ who }) => who === `${group} ${i}`)).toHaveLength(times);
        }
        for (const piece of between(groups)) expect(new Set(piece).size).toBe(piece.length);
      }),
    );
  });
});

describe('those that wait to be read', () => {
  const reads = (loop: Loop, turn: number): string[] =>
    loop.taken.filter((one) => one.turn === turn).map(({ who }) => who);

  it('are four in a turn, and cost it nothing', () => {
    const loop = new Loop();
    for (let i = 0; i < 10; i++) loop.turns.wait(loop.taker('a', `a${i}`, 0), 'read');
    loop.turns.wait(loop.taker('b', 'served', 5), 'much');
    while (!loop.isAtRest) loop.run();
    expect(reads(loop, 1)).toEqual(['served', 'a0', 'a1', 'a2', 'a3']);
    expect(reads(loop, 2)).toHaveLength(4);
    expect(reads(loop, 3)).toEqual(['a8', 'a9']);
  });

  it('are one in a turn if that is expensive, after others except for each fourth', () => {
    const loop = new Loop();
    loop.turns.markExpensive('expensive');
    for (let i = 0; i < 3; i++) loop.turns.wait(loop.taker('expensive', `expensive${i}`, 0), 'read');
    for (let i = 0; i < 5; i++) loop.turns.wait(loop.taker('other', `other${i}`, 0), 'read');
    while (!loop.isAtRest) loop.run();
    expect(reads(loop, 1)).toEqual(['other0', 'other1', 'other2', 'other3']);
    expect(reads(loop, 2)).toEqual(['expensive0', 'other4']);
    expect([3, 4].map((turn) => reads(loop, turn))).toEqual([['expensive1'], ['expensive2']]);
  });

  it('are no longer expensive after 250 ms', () => {
    const loop = new Loop();
    loop.turns.markExpensive('expensive');
    expect(loop.turns.mayBeRead('expensive')).toBe(false);
    loop.nowMs += 250;
    expect(loop.turns.mayBeRead('expensive')).toBe(true);
  });

  it('are remembered as expensive for a thousand addresses', () => {
    const loop = new Loop();
    for (let i = 0; i <= 1000; i++) loop.turns.markExpensive(`${i}`);
    expect(['0', '1', '1000'].map((group) => loop.turns.mayBeRead(group))).toEqual([true, false, false]);
  });

  it('wait longer if that is expensive and connections come, for eight turns', () => {
    const loop = new Loop();
    loop.turns.markExpensive('expensive');
    loop.turns.wait(loop.taker('expensive', 'expensive', 0), 'read');
    loop.turns.wait(loop.taker('other', 'other', 0), 'read');
    while (loop.taken.length < 2) {
      loop.turns.accepted();
      loop.run();
    }
    expect(loop.taken).toEqual([
      { who: 'other', turn: 1 },
      { who: 'expensive', turn: 9 },
    ]);
  });

  it('wait for a fifth of a second at most if that is expensive, whichever connection comes', () => {
    const costs = fc.record({
      acceptMs: fc.double({ min: 0.02, max: 0.2, noNaN: true }),
      workMs: fc.double({ min: 0.05, max: 4, noNaN: true }),
      every: fc.integer({ min: 1, max: 12 }),
    });
    fc.assert(
      fc.property(costs, ({ acceptMs, workMs, every }) => {
        const loop = new Loop();
        loop.turns.wait(loop.taker('a', 'busy', workMs, 1_000_000), 'much');
        loop.turns.markExpensive('expensive');
        loop.turns.wait(loop.taker('expensive', 'expensive', 0), 'read');
        for (let turn = 0; loop.nowMs < 200; turn++) {
          loop.nowMs += acceptMs;
          if (turn % every === 0) loop.turns.accepted();
          loop.run();
          if (loop.taken.some(({ who }) => who === 'expensive')) return;
        }
        expect.unreachable('never read');
      }),
    );
  });

  it('come to wait to be served, and have that turn alone', () => {
    const loop = new Loop();
    const one = loop.taker('a', 'one', 0);
    loop.turns.wait(one, 'read');
    loop.turns.wait(one, 'little');
    loop.turns.wait(one, 'read');
    while (!loop.isAtRest) loop.run();
    expect(loop.taken).toHaveLength(1);
  });
});

describe('connections that come', () => {
  /** At most one connection is accepted in each turn of the loop, in 50 µs. Returns how many waiting takers had a turn in each. */
  const served = (costMs: number, turns: number, come: (turn: number) => boolean): number[] => {
    const loop = new Loop();
    loop.turns.wait(loop.taker('a', 'busy', costMs, 1_000_000), 'much');
    return Array.from({ length: turns }, (_, turn) => {
      if (come(turn)) loop.turns.accepted();
      loop.nowMs += 0.05;
      const before = loop.taken.length;
      loop.run();
      return loop.taken.length - before;
    });
  };

  it('have three times as long as what is done between them', () => {
    expect(served(1, 100, () => false).filter((count) => count > 0)).toHaveLength(100);
    const counts = served(1, 620, () => true);
    expect(counts.filter((count) => count > 0).length).toBeGreaterThan(8);
    expect(counts.filter((count) => count > 0).length).toBeLessThan(12);
  });

  it('have 6 ms at most, however long something took', () => {
    const counts = served(50, 300, () => true);
    const done = counts.flatMap((count, turn) => (count > 0 ? [turn] : []));
    for (const [i, turn] of done.slice(1).entries()) expect(turn - (done[i] as number)).toBeLessThan(125);
    expect(done.length).toBeGreaterThan(2);
  });

  it('delay no connection in a turn without one', () => {
    const counts = served(50, 60, (turn) => turn < 3);
    expect(counts.slice(4).every((count) => count > 0)).toBe(true);
  });

  it('take little of what others have if they are few', () => {
    const loop = new Loop();
    loop.turns.wait(loop.taker('a', 'busy', 1, 1_000_000), 'much');
    // Connections arrive at 600 a second.
    for (let dueMs = 0; loop.nowMs < 1000; loop.run()) {
      loop.nowMs += 0.01;
      if (loop.nowMs < dueMs) continue;
      loop.turns.accepted();
      loop.nowMs += 0.05;
      dueMs += 1000 / 600;
    }
    expect(loop.taken.length).toBeGreaterThan(900);
  });

  it('make what comes wait for its turn as well', () => {
    const loop = new Loop();
    loop.turns.accepted();
    expect(loop.turns.isSpent()).toBe(false);
    loop.nowMs += 1;
    expect(loop.turns.isSpent()).toBe(true);
    loop.turns.accepted();
    loop.run();
    expect(loop.turns.isSpent()).toBe(true);
    loop.nowMs += 2;
    expect(loop.turns.isSpent()).toBe(false);
  });
});

describe('what came', () => {
  it('overdrew its turn with twice the share', () => {
    const loop = new Loop();
    expect([loop.turns.isSpent(), loop.turns.isOverdrawn()]).toEqual([false, false]);
    loop.nowMs += 7.9;
    expect(loop.turns.isOverdrawn()).toBe(false);
    loop.nowMs += 0.1;
    expect(loop.turns.isOverdrawn()).toBe(true);
    loop.run();
    expect(loop.turns.isOverdrawn()).toBe(false);
  });
});

/** The groups between each turn of an address and its next one. */
function between(groups: readonly string[]): string[][] {
  return groups.flatMap((group, i) => {
    const next = groups.indexOf(group, i + 1);
    return next < 0 ? [] : [groups.slice(i + 1, next)];
  });
}
