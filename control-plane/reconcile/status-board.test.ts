import { beforeEach, describe, expect, it } from 'vitest';
import { overrideKind } from '../../rules/language/kinds.ts';
import { ConfigWrites, configObject, configSpec } from '../../test/support/config-object-builder.ts';
import { SeenLimiters } from '../../test/support/seen-limiters.ts';
import { WholeDecider } from '../../test/support/whole-decider.ts';
import { type ConfigObject, type ConfigStatus, findCondition } from '../model/config-object.ts';
import { unrestrictedOwners } from '../model/domain-owners.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import type { StatusWrite, WriteEnd } from '../model/write-ledger.ts';
import { StatusQueue } from '../replicas/status-queue.ts';
import { reconnectGraceMs } from './limiter-view.ts';
import { countsOf, emptyBoard, evaluateStatuses } from './status-board.ts';
import type { OwnershipEvent } from './status-ownership.ts';

const a = configObject({ name: 'a', spec: configSpec({ domain: 'a' }), resourceVersion: '1' });
const b = configObject({ name: 'b', spec: configSpec({ domain: 'b' }), resourceVersion: '2' });
const own = 'weir-system/b';
const other = 'weir-system/a';
/** As the API server counts, for all objects alike. */
let version = 2;

/** A leader with one limiter, in memory. */
class Leader {
  readonly queue = new StatusQueue<StatusWrite<ConfigObject>>({ writesPerSecond: 1_000 });
  readonly writes = new ConfigWrites({ nowMs: () => this.nowMs, monotonicMs: () => this.nowMs });
  readonly #seen = new SeenLimiters();
  readonly found: string[] = [];
  board = emptyBoard(own);
  /** The next time at which the board changes by itself. */
  dueMs = 0;
  readonly #decider = new WholeDecider({ mergeDomains: false, domainOwners: unrestrictedOwners });
  objects: ConfigObject[] = [a, b];
  left: ConfigObject[] = [];
  /** What is not decided anew yet. */
  decided: ConfigObject[] | undefined;
  nowMs = 0;
  #process = 0;
  #hasAccepted = false;
  isOversize = false;
  /** Of the limiter: undefined as long as it accepts, else what it has in force instead. */
  rejectedFor: string | undefined;
  hasLimiter = true;
  /** Of the limiter. */
  fleet = 'default';
  awaitsLimiters = false;
  /** At the last evaluation: names. */
  looked: string[] = [];
  /** Besides the limiter. */
  more: LimiterReport[] = [];
  /** Edits that are not decided yet, and the version of the last one. */
  edits = { uids: new Set<string>(), versions: { configs: '1' } };
  /** The edits that the limiter's replica has decided. Undefined if it is this one. */
  decidedEdits: { configs: string } | undefined;

  evaluate(): void {
    const decision = this.#decider.decideAll(this.decided ?? this.objects, new Map());
    this.#seen.ledger = this.#seen.ledger.with(decision, this.nowMs, this.edits);
    this.edits = { ...this.edits, uids: new Set() };
    const version = decision.fleets.get(this.fleet)?.version;
    const limiter = {
      id: '1',
      // Another process each time, since what one process had in force is remembered.
      instance: `process-${this.#process}`,
      name: 'limiter-1',
      fleet: this.fleet,
      isWeir: true,
      countsCompatibly: true,
      capabilities: [],
      connectedMs: 0,
      acceptedVersion: this.rejectedFor ?? (this.#hasAccepted ? version : undefined),
      refusal:
        this.rejectedFor === undefined || version === undefined ? undefined : { version, message: 'no' },
    };
    const limiters = [...(this.hasLimiter ? [limiter] : []), ...this.more];
    const { decidedEdits: decided } = this;
    this.#seen.update([{ replica: 'r', limiters, ...(decided && { decided }) }], this.nowMs);
    const { isOversize, awaitsLimiters, left, nowMs } = this;
    this.looked = [];
    const objects = new Map(this.objects.map((object) => [object.uid, object]));
    const { ledger, view } = this.#seen;
    // The board asks this for each object that it looks at.
    const inFlight = {
      has: (uid: string): boolean => {
        const name = this.objects.find((one) => one.uid === uid)?.name ?? uid;
        if (!this.looked.includes(name)) this.looked.push(name);
        return this.queue.inFlight.has(uid);
      },
    };
    const oversize = new Set(isOversize ? decision.fleets.keys() : []);
    const known = { decision, ledger, limiters: view, objects, left, oversize };
    const evaluation = { ...known, writes: this.writes.ledger, inFlight, awaitsLimiters, nowMs };
    const { board, writes, changes, dueMs } = evaluateStatuses(this.board, evaluation);
    Object.assign(this, { board, dueMs });
    this.writes.ledger = writes;
    const { entries, found } = changes;
    for (const { object, news } of found) this.found.push(`${object.name} ${foundText(news)}`);
    for (const [uid, entry] of entries) {
      if (entry === undefined) this.queue.withdraw(uid);
      else this.queue.offer(entry);
    }
  }

  version(): string | undefined {
    return this.#decider.decideAll(this.objects, new Map()).fleets.get(this.fleet)?.version;
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
      this.finish(entry);
      if (isSeen) this.show(object.uid, status, String(version));
      written.push(`${object.name} ${conditionText(status)}`);
    }
    return written;
  }

  /** The next status goes out; call `end` with what comes of it. */
  send(): { entry: StatusWrite<ConfigObject>; end(end: WriteEnd): void } {
    const entry = this.queue.next(this.nowMs)!;
    const ended = this.writes.begin(entry);
    const end = (end: WriteEnd) => {
      ended(end);
      this.queue.done(entry.object.uid);
    };
    return { entry, end };
  }

  /** The API server takes it. */
  finish(entry: StatusWrite<ConfigObject>): void {
    version++;
    this.writes.begin(entry)({ is: 'written', version: `${version}` });
    this.queue.done(entry.object.uid);
  }

  show(uid: string, status: ConfigStatus, resourceVersion = `${++version}`): void {
    const changed = (object: ConfigObject) =>
      object.uid === uid ? { ...object, status, resourceVersion } : object;
    this.objects = this.objects.map(changed);
    this.left = this.left.map(changed).filter(({ status }) => status?.controllerName === own);
  }
}

function foundText(news: OwnershipEvent): string {
  if (news.is === 'written') return 'was written';
  if (news.is === 'overwritten') return `overwritten by ${news.by ?? 'nobody'}`;
  return `contested by ${news.by}, ${news.yields ? 'yields' : 'insists'}`;
}

function conditionText(status: ConfigStatus): string {
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

  it('reads no object without a change, whichever limiter answers', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    leader.evaluate();
    leader.evaluate();
    expect(leader.looked).toEqual([]);
    leader.rejectedFor = leader.version();
    const spec = configSpec({ domain: 'a', requestsPerUnit: 7 });
    leader.objects = leader.objects.map((one) =>
      one.uid === a.uid ? { ...one, generation: 2, spec, resourceVersion: `${++version}` } : one,
    );
    leader.evaluate();
    expect([leader.looked, leader.write()]).toEqual([['a'], ['a False Refused']]);
    leader.evaluate();
    leader.rejectedFor = undefined;
    leader.evaluate();
    expect([leader.looked, leader.write()]).toEqual([['a'], ['a True AllLimiters']]);
    leader.hasLimiter = false;
    leader.evaluate();
    expect(leader.looked.toSorted()).toEqual(['a', 'b']);
  });

  it('counts the overrides over a domain, in a storm of them once in ten seconds', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    const counted = (): number | undefined =>
      leader.objects.find(({ uid }) => uid === a.uid)?.status?.overrides;
    const lay = (count: number): string[] => {
      const rows = Array.from({ length: count }, (_, i) => {
        const spec = {
          domain: 'a',
          match: [{ key: `k${i}`, value: 'x' }],
          block: true,
          permanent: true,
          reason: 'r',
        };
        return configObject({ kind: overrideKind, name: `o${i}`, uid: `o${i}`, spec, resourceVersion: '1' });
      });
      leader.objects = [...leader.objects.filter(({ kind }) => kind === undefined), ...rows];
      leader.evaluate();
      return leader.write().filter((line) => !line.startsWith('o'));
    };
    // Nothing but the override is news.
    leader.evaluate();
    leader.nowMs = 1_000;
    expect([lay(1), counted()]).toEqual([['a True AllLimiters'], 1]);
    for (const count of [2, 3, 4]) {
      leader.nowMs += 1_000;
      expect(lay(count)).toEqual([]);
    }
    expect(leader.dueMs).toBe(11_000);
    leader.nowMs = 11_000;
    leader.evaluate();
    expect([leader.write().filter((line) => !line.startsWith('o')), counted()]).toEqual([
      ['a True AllLimiters'],
      4,
    ]);
    leader.nowMs = 30_000;
    expect([lay(0), counted()]).toEqual([['a True AllLimiters'], undefined]);
    // What else is new is not held.
    leader.nowMs = 30_001;
    leader.objects = leader.objects.map((one) => (one.uid === a.uid ? { ...one, generation: 2 } : one));
    expect([lay(2), counted()]).toEqual([['a True AllLimiters'], 2]);
  });

  it('waits 1.7 s for a replica that has not decided the edit of an object yet, if nothing else is missing', () => {
    leader.hasAccepted = true;
    leader.decidedEdits = { configs: '1' };
    leader.evaluate();
    expect(leader.write()).toEqual(['a True AllLimiters', 'b True AllLimiters']);
    leader.edits = { uids: new Set([b.uid]), versions: { configs: '2' } };
    leader.objects = leader.objects.map((one) => (one.uid === b.uid ? { ...one, generation: 2 } : one));
    leader.nowMs = 20_000;
    leader.evaluate();
    expect([leader.queue.size, leader.dueMs]).toEqual([0, 21_700]);
    leader.nowMs = 21_699;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.nowMs = 21_700;
    leader.evaluate();
    expect(leader.write()).toEqual(['b False Pending']);
    leader.decidedEdits = { configs: '2' };
    leader.evaluate();
    expect(leader.write()).toEqual(['b True AllLimiters']);
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
    expect(leader.queue.size).toBe(0);
    leader.hasAccepted = false;
    leader.evaluate();
    for (const entry of [first, second]) leader.finish(entry);
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
  });

  it('corrects a pending write in the end that is no longer true', () => {
    leader.write();
    leader.evaluate();
    leader.hasAccepted = true;
    leader.evaluate();
    const entry = leader.queue.next(0)!;
    leader.hasAccepted = false;
    leader.evaluate();
    expect(leader.write()).toEqual([]);
    leader.finish(entry);
    leader.evaluate();
    expect(leader.queue.next(0)?.object).toMatchObject({
      resourceVersion: String(version),
      status: entry.status,
    });
  });

  it('trusts what was written as long as the source lags behind', () => {
    leader.write({ isSeen: false });
    leader.nowMs = 59_999;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    // Not for ever: a restored backup never shows it.
    leader.nowMs = 60_000;
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
  });

  it('writes over the version that its last write made before the source shows it', () => {
    leader.write({ isSeen: false });
    const ofA = version - 1;
    leader.hasAccepted = true;
    leader.evaluate();
    expect(leader.queue.next(0)?.object).toMatchObject({ name: 'a', resourceVersion: `${ofA}` });
  });

  it('repairs at once, and reports, what somebody else changed after its write was shown, or before', () => {
    leader.write({ isSeen: false });
    leader.show(a.uid, { observedGeneration: 1, conditions: [] });
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
    leader.evaluate();
    leader.show(a.uid, { observedGeneration: 1, conditions: [] });
    leader.evaluate();
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
    expect(leader.found).toEqual(['a overwritten by nobody', 'a overwritten by nobody']);
  });

  it('does not take its own write for another when it is shown before it is answered', () => {
    leader.write();
    leader.evaluate();
    leader.hasAccepted = true;
    leader.evaluate();
    const { entry } = leader.send();
    leader.show(entry.object.uid, entry.status);
    leader.evaluate();
    leader.finish(entry);
    leader.evaluate();
    expect(leader.found).toEqual([]);
  });

  it('decides again when an object has changed under a write, from what the source shows next', () => {
    leader.send().end({ is: 'outdated' });
    leader.evaluate();
    expect(leader.dueMs).toBe(10_000);
    expect(leader.write()).toEqual(['b False Pending']);
    leader.show(a.uid, { observedGeneration: 1, conditions: [] });
    leader.evaluate();
    expect(leader.queue.next(0)?.object).toMatchObject({ name: 'a', resourceVersion: `${version}` });
  });

  it('reports a write whose answer was lost once the source shows it', () => {
    const { entry, end } = leader.send();
    end({ is: 'failed' });
    leader.writes.begin(entry)({ is: 'outdated' });
    leader.show(a.uid, entry.status);
    leader.evaluate();
    leader.evaluate();
    expect(leader.found).toEqual(['a was written']);
    expect(leader.write()).toEqual(['b False Pending']);
  });

  it('leaves an object to the other control plane of its class for ten minutes', () => {
    leader.write();
    leader.evaluate();
    const theirs = { observedGeneration: 1, controllerName: other, conditions: [] };
    leader.show(a.uid, theirs);
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
    leader.nowMs = 59_000;
    leader.evaluate();
    leader.show(a.uid, theirs);
    leader.evaluate();
    expect(leader.found).toEqual([`a overwritten by ${other}`, `a contested by ${other}, yields`]);
    expect(leader.queue.size).toBe(0);
    const { dueMs } = leader;
    expect(dueMs).toBe(59_000 + 600_000);
    leader.nowMs = dueMs - 1;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
    leader.nowMs = dueMs;
    leader.evaluate();
    expect(leader.write()).toEqual(['a False Pending']);
  });

  describe('an object that is not ours any more', () => {
    beforeEach(() => {
      leader.hasAccepted = true;
      leader.evaluate();
      leader.write();
      leader.evaluate();
      // The decision is older than what the source shows.
      leader.decided = leader.objects;
      [leader.left, leader.objects] = [leader.objects.slice(0, 1), leader.objects.slice(1)];
      leader.evaluate();
    });

    it('is reported not to be watched, once, without our name, and before all else', () => {
      leader.isOversize = true;
      leader.evaluate();
      const entry = leader.queue.next(0)!;
      leader.evaluate();
      expect(entry.status.controllerName).toBeUndefined();
      expect(entry.status.servedGeneration).toBeUndefined();
      expect(entry.status).toMatchObject({ domain: 'a', fleet: 'default' });
      const reported = entry.status.conditions.map(
        ({ type, status, reason }) => `${type} ${status} ${reason}`,
      );
      const all = ['Accepted', 'Programmed', 'Ready'];
      expect(reported).toEqual(all.map((type) => `${type} False NotWatched`));
      leader.finish(entry);
      leader.evaluate();
      leader.show(a.uid, entry.status, String(version));
      leader.evaluate();
      leader.decided = undefined;
      leader.evaluate();
      expect(leader.write()).toEqual(['b True AllLimiters']);
      expect(leader.found).toEqual([]);
    });

    it('is left alone when another control plane has written it already', () => {
      leader.send().end({ is: 'outdated' });
      leader.show(a.uid, { observedGeneration: 1, controllerName: other, conditions: [] });
      leader.evaluate();
      expect(leader.queue.size).toBe(0);
      expect(leader.found).toEqual([]);
    });

    it('is no contested one when it comes back with the status of another control plane', () => {
      expect(leader.write()).toEqual(['a False NotWatched']);
      const theirs = { observedGeneration: 1, controllerName: other, conditions: [] };
      leader.objects = [{ ...a, status: theirs, resourceVersion: `${++version}` }, ...leader.objects];
      leader.left = [];
      leader.evaluate();
      expect(leader.found).toEqual([]);
      expect(leader.write()).toEqual(['a True AllLimiters']);
    });

    it('is written again when it comes back', () => {
      expect(leader.write()).toEqual(['a False NotWatched']);
      leader.evaluate();
      leader.objects = [{ ...a, resourceVersion: `${++version}` }, ...leader.objects];
      leader.decided = undefined;
      leader.evaluate();
      expect(leader.write()).toEqual(['a True AllLimiters']);
    });
  });

  it('does not hold what another control plane said of its limiters', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    const next = new Leader();
    next.objects = leader.objects.map((object) => ({
      ...object,
      status: { ...object.status!, controllerName: other },
    }));
    Object.assign(next, { hasLimiter: false, awaitsLimiters: true });
    next.evaluate();
    expect(next.write()).toEqual(['a False NoLimiters', 'b False NoLimiters']);
  });

  it('cancels what should no longer be written', () => {
    leader.write();
    leader.evaluate();
    leader.hasAccepted = true;
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
    leader.hasAccepted = false;
    leader.evaluate();
    expect(leader.queue.size).toBe(0);
  });

  it('shows what a limiter rejects whose former rules are unknown now', () => {
    leader.hasAccepted = true;
    leader.evaluate();
    leader.write();
    const next = new Leader();
    const changed = { ...b, generation: 2, spec: configSpec({ domain: 'b', requestsPerUnit: 11 }) };
    next.objects = leader.objects.map((object) =>
      object.uid === b.uid ? { ...changed, status: object.status } : object,
    );
    Object.assign(next, { rejectedFor: 'a version from before', awaitsLimiters: true });
    next.evaluate();
    expect(next.write()).toEqual(['a False Refused', 'b False Refused']);
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
      capabilities: [],
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
    expect(countsOf(status)).toEqual({ inForce: 0, refused: 0, total: 1 });
    expect(countsOf({ ...status })).toBeUndefined();
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
      Object.assign(next, { hasLimiter: true, rejectedFor: undefined });
      next.evaluate();
      expect(next.queue.size).toBe(0);
      next.hasAccepted = true;
      next.evaluate();
      expect(next.queue.size).toBe(0);
    });

    it('says so afterward', () => {
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

    it('does not call a changed object in force, if no other limiters are known to be expected', () => {
      const spec = configSpec({ domain: 'b', requestsPerUnit: 11 });
      next.objects = next.objects.map((object) =>
        object.uid === b.uid ? { ...object, generation: 2, spec } : object,
      );
      Object.assign(next, { hasLimiter: true, hasAccepted: true });
      next.evaluate();
      expect(next.write()).toEqual(['b Unknown Disconnected']);
      next.nowMs = reconnectGraceMs - 1;
      next.evaluate();
      expect(next.write()).toEqual([]);
      Object.assign(next, { nowMs: reconnectGraceMs, awaitsLimiters: false });
      next.evaluate();
      expect(next.write()).toEqual(['b True AllLimiters']);
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

  it('knows nothing of what it wrote once it restarts', () => {
    leader.write({ isSeen: false });
    leader.board = emptyBoard(own);
    leader.writes.ledger = new Leader().writes.ledger;
    leader.evaluate();
    expect(leader.queue.size).toBe(2);
  });
});
