/** The statuses of fleets to write, while writes and the watch are late, or others write. */
import { expect, it } from 'vitest';
import { fleetKind } from '../../rules/language/kinds.ts';
import type { FleetObject, FleetStatus } from '../model/config-object.ts';
import { type WriteEnd, WriteLedger } from '../model/write-ledger.ts';
import { sameStatus } from '../reconcile/conditions.ts';
import { VersionLedger } from '../reconcile/fleet-rollout.ts';
import { LimiterView } from '../reconcile/limiter-view.ts';
import type { Evaluation } from '../reconcile/status-board.ts';
import { type FleetStatuses, fleetStatuses } from './fleet-status.ts';

const noonMs = Date.UTC(2026, 0, 2, 12);

/** The evaluations of a leader. Its watch shows `shown`. */
class Fleets {
  nowMs = noonMs;
  shown: FleetObject[];
  writes: Evaluation['writes'] = WriteLedger.empty(sameStatus);
  readonly inFlight = new Set<string>();
  #last: FleetStatuses = new Map();

  constructor(count: number) {
    const identity = { kind: fleetKind, namespace: 'weir-system', name: 'edge', uid: 'u' } as const;
    const spec = { count, disconnectedGraceSeconds: 30, onDisconnected: 'Unknown' } as const;
    this.shown = [{ ...identity, generation: 1, resourceVersion: '1', spec, status: undefined }];
  }

  /** A second passes. Returns the status to write and the version that it is based on. Undefined if there is none. */
  evaluate(): { status: FleetStatus; version: string | undefined } | undefined {
    this.nowMs += 1_000;
    const { shown, writes, inFlight, nowMs } = this;
    const fleets = shown.map((object) => ({ object, problem: undefined }));
    const facts = { limiters: LimiterView.empty, ledger: VersionLedger.empty() };
    const found = fleetStatuses({ ...facts, fleets, writes, inFlight, nowMs, last: this.#last });
    this.writes = found.writes;
    this.#last = found.statuses;
    const entry = found.entries.get('u');
    return entry && { status: entry.status, version: entry.object.resourceVersion };
  }

  /** Writes the status that is due. Call the returned function with the result. */
  send(): (end: WriteEnd) => void {
    const { status, version } = this.evaluate()!;
    const write = { object: { ...this.shown[0]!, resourceVersion: version }, status };
    this.writes = this.writes.begun(write);
    this.inFlight.add('u');
    return (end) => {
      this.writes = this.writes.ended(write, end, this.nowMs);
      this.inFlight.delete('u');
    };
  }

  change(traits: Partial<FleetObject>): void {
    this.shown = this.shown.map((fleet) => ({ ...fleet, ...traits }));
  }
}

it('writes a status once, however late the watch is', () => {
  const fleets = new Fleets(2);
  const { status, version } = fleets.evaluate()!;
  expect([status.limiters, version]).toEqual(['0/2', '1']);
  fleets.send()({ is: 'written', version: '2' });
  expect(fleets.evaluate()).toBeUndefined();
  fleets.change({ resourceVersion: '2', status });
  expect(fleets.evaluate()).toBeUndefined();
});

it('offers nothing while a status is being written, and then the status that follows from the result', () => {
  const fleets = new Fleets(2);
  const end = fleets.send();
  fleets.change({ spec: { ...fleets.shown[0]!.spec, count: 3 } });
  expect(fleets.evaluate()).toBeUndefined();
  end({ is: 'written', version: '5' });
  expect(fleets.evaluate()).toMatchObject({ status: { limiters: '0/3' }, version: '5' });
});

it('writes a status again, over the version that the watch shows, if another writer changed it', () => {
  const fleets = new Fleets(2);
  const { status } = fleets.evaluate()!;
  fleets.send()({ is: 'written', version: '2' });
  fleets.change({ resourceVersion: '3', status: { ...status, limiters: '7/7' } });
  expect(fleets.evaluate()).toMatchObject({ status: { limiters: '0/2' }, version: '3' });
});

it('waits for the watch after a conflict, for at most ten seconds', () => {
  const fleets = new Fleets(2);
  fleets.send()({ is: 'outdated' });
  expect(fleets.evaluate()).toBeUndefined();
  fleets.nowMs += 7_000;
  expect(fleets.evaluate()).toBeUndefined();
  expect(fleets.evaluate()).toBeDefined();
});

it('states since when a condition holds, and not since when its status could be written', () => {
  const fleets = new Fleets(2);
  const times = () => fleets.evaluate()!.status.conditions.map((one) => one.lastTransitionTime.slice(11));
  expect([times(), times()]).toEqual([
    ['12:00:01Z', '12:00:01Z'],
    ['12:00:01Z', '12:00:01Z'],
  ]);
});

it('forgets a deleted fleet', () => {
  const fleets = new Fleets(2);
  fleets.send()({ is: 'written', version: '2' });
  const [edge] = fleets.shown;
  fleets.shown = [];
  expect(fleets.evaluate()).toBeUndefined();
  expect(fleets.writes.isOwn({ ...edge!, resourceVersion: '2' })).toBe(false);
});
