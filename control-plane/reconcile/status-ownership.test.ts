import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { afterOverwrite, type OwnershipEvent, uncontested, yieldMs } from './status-ownership.ts';

const minuteMs = 60_000;

/** The same by the words of the documentation, from the whole history. */
class Model {
  readonly #ownName: string;
  #found: { atMs: number; by: string | undefined }[] = [];
  mayWriteFromMs = 0;

  constructor(ownName: string) {
    this.#ownName = ownName;
  }

  overwritten(by: string | undefined, nowMs: number): OwnershipEvent {
    this.#found.push({ atMs: nowMs, by });
    const recent = this.#found.filter(({ atMs }) => atMs > nowMs - minuteMs);
    const byOthers = recent.filter((one) => one.by !== undefined && one.by !== this.#ownName);
    const isOther = by !== undefined && by !== this.#ownName;
    if (isOther && byOthers.length >= 2) {
      const yields = !(this.#ownName < by);
      if (yields) this.#pause(nowMs + 10 * minuteMs);
      else if (recent.length >= 5) this.#pause(nowMs + 20_000);
      return { is: 'class-conflict', by, yields };
    }
    if (recent.length >= 5) this.#pause(nowMs + 20_000);
    return { is: 'overwritten', by, manager: undefined };
  }

  #pause(untilMs: number): void {
    this.mayWriteFromMs = untilMs;
    this.#found = [];
  }
}

/** The newest state of a contested status. */
class Contested {
  readonly #ownName: string;
  #status = uncontested;

  constructor(ownName: string) {
    this.#ownName = ownName;
  }

  get pausedUntilMs(): number {
    return this.#status.pausedUntilMs;
  }

  overwritten(by: string | undefined, nowMs: number): OwnershipEvent {
    const status = { observedGeneration: 1, conditions: [], ...(by && { controllerName: by }) };
    const { contested, news } = afterOverwrite(this.#status, { status }, { ownName: this.#ownName, nowMs });
    this.#status = contested;
    return news;
  }
}

describe('a contested status', () => {
  it('is as the model says, whichever replica writes, and whenever', () => {
    const by = fc.constantFrom(undefined, 'ns/a', 'ns/b', 'ns/c');
    const steps = fc.array(fc.tuple(by, fc.nat({ max: 40_000 })), { maxLength: 30 });
    fc.assert(
      fc.property(steps, (events) => {
        const contested = new Contested('ns/b');
        const model = new Model('ns/b');
        let nowMs = 0;
        for (const [name, laterMs] of events) {
          nowMs = Math.max(nowMs + laterMs, model.mayWriteFromMs);
          expect(contested.overwritten(name, nowMs)).toEqual(model.overwritten(name, nowMs));
          expect(Math.max(0, contested.pausedUntilMs)).toBe(model.mayWriteFromMs);
        }
      }),
    );
  });

  it.each([1, 60, 5_000])('ends a fight of two, each answering within %i ms', (answerMs) => {
    const planes = ['ns/a', 'ns/b'].map((name) => ({ name, contested: new Contested(name) }));
    let nowMs = 0;
    let writes = 0;
    let writer = 0;
    for (; nowMs < yieldMs; nowMs += answerMs) {
      const [by, finder] = [planes[writer]!, planes[1 - writer]!];
      finder.contested.overwritten(by.name, nowMs);
      if (finder.contested.pausedUntilMs > nowMs) break;
      writer = 1 - writer;
      writes++;
    }
    expect(writes).toBeLessThanOrEqual(4);
    expect(planes[writer]!.name).toBe('ns/a');
    expect(planes[1]!.contested.pausedUntilMs).toBe(nowMs + yieldMs);
  });

  it('bounds repairs also of what bears no name, and of a writer that never yields', () => {
    for (const by of [undefined, 'ns/z']) {
      const contested = new Contested('ns/b');
      let repairs = 0;
      for (let nowMs = 0; nowMs < 10 * minuteMs; nowMs += 10) {
        if (nowMs < contested.pausedUntilMs) continue;
        contested.overwritten(by, nowMs);
        repairs++;
      }
      expect(repairs).toBeLessThanOrEqual(5 * 31);
    }
  });
});
