import { expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import type { FleetObject, FleetStatus } from '../model/fleet-object.ts';
import { VersionLedger } from '../reconcile/fleet-standing.ts';
import { LimiterView } from '../reconcile/limiter-view.ts';
import { FleetKeeper } from './fleet-store.ts';

/** A fleet as the watch shows it, and what was given to be written: the version it follows from, and LIMITERS. */
function setUp() {
  const shown: FleetObject = {
    name: 'edge',
    uid: 'u',
    generation: 1,
    resourceVersion: '1',
    spec: { disconnectedGraceSeconds: 30, onDisconnected: 'Unknown', count: 2 },
    status: undefined,
  };
  const state = { shown };
  const given: string[] = [];
  let last: FleetStatus | undefined;
  const timers = new ManualTimers();
  const ledger = new VersionLedger();
  const keeper = new FleetKeeper({
    store: {
      get fleets() {
        return [state.shown];
      },
      problemOf: () => undefined,
      writeStatus: ({ resourceVersion }, status) => {
        given.push(`${resourceVersion}: ${status.limiters}`);
        last = status;
      },
    },
    leads: () => true,
    limiters: new LimiterView(ledger),
    ledger,
    clock: new ManualClock(),
    timers,
  });
  const evaluate = () => {
    keeper.update();
    timers.advance(60_000);
  };
  const show = (changes: Partial<FleetObject>) => {
    state.shown = { ...state.shown, ...changes };
    evaluate();
  };
  return { show, evaluate, given, written: () => last };
}

it('a status is not given again until the watch shows another version of the fleet', () => {
  const { show, evaluate, given, written } = setUp();
  evaluate();
  evaluate();
  expect(given).toEqual(['1: 0/2']);
  show({ resourceVersion: '2', status: written() });
  expect(given).toEqual(['1: 0/2']);
});

it('what is due is given anew once the watch shows what somebody else wrote', () => {
  const { show, evaluate, given, written } = setUp();
  evaluate();
  const status = { ...written()!, limiters: '7/7' };
  show({ resourceVersion: '2', status });
  expect(given).toEqual(['1: 0/2', '2: 0/2']);
  show({ resourceVersion: '3', status: written() });
  expect(given).toEqual(['1: 0/2', '2: 0/2']);
});
