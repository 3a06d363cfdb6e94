import { beforeEach, describe, expect, it } from 'vitest';
import { configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { type ConfigObject, type ConfigStatus, findCondition } from '../model/config-object.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { anyoneOwnsAnything } from './claims.ts';
import { Decider } from './decide.ts';
import { LimiterView, VersionLedger } from './fleet-standing.ts';
import { StatusBoard, StatusQueue } from './status-board.ts';

const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }) });
const b = configObject({ name: 'b', spec: configSpec({ domain: 'b' }) });

/** A leader with one limiter, in memory. */
class Leader {
  readonly queue = new StatusQueue({ writesPerSecond: 1_000 });
  readonly #ledger = new VersionLedger();
  readonly #limiters = new LimiterView(this.#ledger);
  readonly board = new StatusBoard({ queue: this.queue, ledger: this.#ledger, limiters: this.#limiters });
  readonly #decider = new Decider({ mergeDomains: false, domainOwners: anyoneOwnsAnything });
  objects: ConfigObject[] = [a, b];
  nowMs = 0;
  #process = 0;
  #hasAccepted = false;
  isOversize = false;
  /** Of the limiter: undefined as long as it accepts, else what it has in force instead. */
  refusedFor: string | undefined;
  hasLimiter = true;
  /** Of the limiter. */
  fleet = 'default';
  awaitsLimiters = false;
  /** Besides the limiter. */
  more: LimiterReport[] = [];

  evaluate(): void {
    const decision = this.#decider.decide(this.objects, new Map());
    this.#ledger.observe(decision, this.nowMs);
    const version = decision.fleets.get(this.fleet)?.version;
    const limiter = {
      id: '1',
      // Another process each time, since what one process had in force is remembered.
      instance: `process-${this.#process}`,
      name: 'limiter-1',
      fleet: this.fleet,
      isWeir: true,
      countsCompatibly: true,
      connectedMs: 0,
      acceptedVersion: this.refusedFor ?? (this.#hasAccepted ? version : undefined),
      refusal:
        this.refusedFor === undefined || version === undefined ? undefined : { version, message: 'no' },
    };
    const limiters = [...(this.hasLimiter ? [limiter] : []), ...this.more];
    this.#limiters.update([{ replica: 'r', limiters }], this.nowMs);
    const { isOversize, awaitsLimiters, nowMs } = this;
    const statusOf = ({ uid }: ConfigObject) => this.objects.find((object) => object.uid === uid)?.status;
    this.board.evaluate({ decision, statusOf, isOversize: () => isOversize, awaitsLimiters, nowMs });
  }

  version(): string | undefined {
    return this.#decider.decide(this.objects, new Map()).fleets.get(this.fleet)?.version;
  }

  set hasAccepted(value: boolean) {
    this.#hasAccepted = value;
    this.#process++;
  }

  /** Writes what waits; with `isSeen` the source shows it. Returns `a False Pending` for each. */
  write({ isSeen = true } = {}): string[] {
    const written: string[] = [];
    for (let entry = this.queue.next(this.nowMs); entry !== undefined; entry = this.queue.next(this.nowMs)) {
      const { object, status } = entry;
      this.board.written(entry, this.nowMs);
      this.queue.done(object.uid);
      if (isSeen) this.show(object.uid, status);
      written.push(`${object.name} ${said(status)}`);
    }
    return written;
  }

  show(uid: string, status: ConfigStatus): void {
    this.objects = this.objects.map((object) => (object.uid === uid ? { ...object, status } : object));
  }
}

function said(status: ConfigStatus): string {
  const { status: value, reason } = findCondition(status, 'Programmed')!;
  return `${value} ${reason}`;
}

describe('StatusBoard', () => {
  let leader: Leader;
  beforeEach(() => {
    leader = new Leader();
    leader.evaluate();
  });

  it('queues what differs, and nothing once it is written', () => {
    expect(leader.write()).toEqual(['a False Pending', 'b False Pending']);
    leader.nowMs = 60_000;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.hasAccepted = true;
    leader.evaluate();
    expect(leader.write()).toEqual(['a True AllLimiters', 'b True AllLimiters']);
  });

  it('offers a status again that could not be written', () => {
    const failed = leader.queue.next(0)!;
    leader.queue.done(failed.object.uid);
    expect(leader.write()).toEqual(['b False Pending']);
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
  });

  it('does not offer again what is being written', () => {
    const [first, second] = [leader.queue.next(0)!, leader.queue.next(0)!];
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.hasAccepted = true;
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
    leader.hasAccepted = false;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    for (const entry of [first, second]) {
      leader.board.written(entry, 0);
      leader.queue.done(entry.object.uid);
    }
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
  });

  it('makes good in the end for a write on its way that is no longer true', () => {
    leader.write();
    leader.evaluate();
    leader.hasAccepted = true;
    leader.evaluate();
    const entry = leader.queue.next(0)!;
    leader.hasAccepted = false;
    leader.evaluate();
    expect(leader.write()).toEqual([]);
    leader.board.written(entry, 0);
    leader.queue.done(entry.object.uid);
    expect(leader.write()).toEqual(['a False Pending']);
  });

  it('trusts what was written as long as the source lags behind', () => {
    leader.write({ isSeen: false });
    leader.nowMs = 3_600_000;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
  });

  it('writes again, but not at once, when the source shows another status', () => {
    leader.write({ isSeen: false });
    leader.show(a.uid, { observedGeneration: 1, conditions: [] });
    leader.nowMs = 9_999;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.nowMs = 10_000;
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
  });

  it('writes again at once when somebody else changes what the source has shown', () => {
    leader.write();
    leader.evaluate();
    leader.show(a.uid, { observedGeneration: 1, conditions: [] });
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
  });

  it('takes back what is no longer to be written', () => {
    leader.write();
    leader.evaluate();
    leader.hasAccepted = true;
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
    leader.hasAccepted = false;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
  });

  it('shows what a limiter refuses that had rules of before, which nobody knows now', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    const next = new Leader();
    const changed = { ...b, generation: 2, spec: configSpec({ domain: 'b', requestsPerUnit: 11 }) };
    next.objects = leader.objects.map((object) =>
      object.uid === b.uid ? { ...changed, status: object.status } : object,
    );
    Object.assign(next, { refusedFor: 'a version from before', awaitsLimiters: true });
    next.evaluate();
    expect(next.write()).toEqual(['b False Refused', 'a False Refused']);
  });

  it('writes nothing for limiters that come and go', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    const comer = (traits: Partial<LimiterReport>): LimiterReport => ({
      id: '2',
      instance: 'other',
      name: 'limiter-2',
      fleet: 'default',
      isWeir: true,
      countsCompatibly: true,
      connectedMs: 0,
      acceptedVersion: undefined,
      refusal: undefined,
      ...traits,
    });
    leader.more = [comer({})];
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    const version = leader.version();
    leader.more = [comer({ acceptedVersion: version })];
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.more = [];
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.hasLimiter = false;
    leader.evaluate();
    expect(leader.write()).toEqual(['a False NoLimiters', 'b False NoLimiters']);
  });

  it('knows the counts of limiters that a status speaks of', () => {
    const { status } = leader.queue.next(0)!;
    expect(leader.board.counts(status)).toEqual({ inForce: 0, refused: 0, total: 1 });
    expect(leader.board.counts({ ...status })).toBeUndefined();
  });

  describe('while limiters of the leader before may still be on their way', () => {
    let next: Leader;
    beforeEach(() => {
      leader.hasAccepted = true;
      leader.evaluate();
      leader.write();
      next = new Leader();
      Object.assign(next, { objects: leader.objects, hasLimiter: false, awaitsLimiters: true });
      next.evaluate();
    });

    it('does not say that they are away', () => {
      expect(next.queue.size).toBe(0);
      next.evaluate();
      expect(next.queue.size).toBe(0);
      next.hasLimiter = true;
      next.hasAccepted = true;
      next.evaluate();
      expect(next.queue.size).toBe(0);
    });

    it('waits for one that has not answered, whatever it claims', () => {
      Object.assign(next, { hasLimiter: true, refusedFor: undefined });
      next.evaluate();
      expect(next.queue.size).toBe(0);
      next.hasAccepted = true;
      next.evaluate();
      expect(next.queue.size).toBe(0);
    });

    it('says so afterwards', () => {
      next.awaitsLimiters = false;
      next.evaluate();
      expect(next.write()).toEqual(['a False NoLimiters', 'b False NoLimiters']);
    });

    it('says so at once of those that came and went', () => {
      next.hasLimiter = true;
      next.hasAccepted = true;
      next.evaluate();
      next.hasLimiter = false;
      next.evaluate();
      expect(next.write()).toEqual(['a False NoLimiters', 'b False NoLimiters']);
    });

    it('says all of an object that somebody changes', () => {
      next.objects = next.objects.map((object) =>
        object.uid === b.uid ? { ...object, generation: 2 } : object,
      );
      next.evaluate();
      expect(next.write()).toEqual(['b False NoLimiters']);
    });
  });

  it('forgets objects that are gone', () => {
    leader.objects = [b];
    leader.evaluate();
    expect(leader.write()).toEqual(['b False Pending']);
  });

  it('says of every object of a fleet that its snapshot is too large', () => {
    leader.write();
    leader.isOversize = true;
    leader.evaluate();
    const status = leader.queue.next(0)?.status;
    expect(findCondition(status, 'Supported')?.reason).toBe('SnapshotTooLarge');
    expect(leader.queue.size).toBe(1);
  });

  it('gives what was written before, for events', () => {
    const entry = leader.queue.next(0)!;
    expect(leader.board.written(entry, 0)).toBeUndefined();
    expect(leader.board.written({ ...entry, status: { ...entry.status, rules: 7 } }, 0)).toBe(entry.status);
  });

  it('knows nothing of what it wrote once it has been cleared', () => {
    leader.write({ isSeen: false });
    leader.board.clear();
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
  });
});
