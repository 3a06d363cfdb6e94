/** Limiters that were sent their first rules, and have not answered: they have either these rules or none. */
import { beforeEach, expect, it } from 'vitest';
import { SeenLimiters } from '../../test/support/seen-limiters.ts';
import { type LimiterReport, versionOfNothing } from '../model/fleet-snapshot.ts';
import { defaultGraceSeconds } from '../model/object-models.ts';
import { type RolloutProgress, VersionLedger } from './fleet-rollout.ts';

function served(ledger: VersionLedger, version: string): VersionLedger {
  const fleets = new Map([['default', { fleet: 'default', version, resources: [] }]]);
  return ledger.with({ fleets, outcomes: new Map(), holders: new Map() }, 0);
}

const ledger = ['v1', 'v2'].reduce(served, VersionLedger.empty());

function limiter(name: string, traits: Partial<LimiterReport> = {}): LimiterReport {
  return {
    ...{ id: `stream of ${name}`, instance: name, name, fleet: 'default', podUid: `uid of ${name}` },
    ...{ isWeir: true, countsCompatibly: true, capabilities: [], connectedMs: 0 },
    ...{ acceptedVersion: undefined, refusal: undefined },
    ...traits,
  };
}

const well = limiter('b', { acceptedVersion: 'v2' });
const loading = limiter('a', { sentVersion: 'v1' });
let view: SeenLimiters;

/** `1/2, away a` of the rules since the first snapshot, and since the second one. */
function at(nowMs: number, ...limiters: LimiterReport[]): string[] {
  view.update([{ replica: 'replica', limiters }], nowMs);
  return texts();
}

function texts(): string[] {
  return [1, 2].map(textOf);
}

function textOf(number: number): string {
  const { total, inForce, away, pending } = view.fleet('default').of({ number, ms: 0, needs: [] });
  const names = (words: string, { items }: RolloutProgress['away']) =>
    items.map(({ name }) => `${words} ${name}`);
  return [`${inForce}/${total}`, ...names('away', away), ...names('pending', pending)].join(', ');
}

beforeEach(() => {
  view = new SeenLimiters(ledger);
  at(0, well);
});

it('statuses of newer rules wait for it, and others do not', () => {
  expect(at(20_000, well, loading)).toEqual(['1/1', '1/2, pending a']);
  expect([view.fleet('default').total, view.fleet('default').joining]).toEqual([1, ['a']]);
  expect(view.fleet('default').mayRun('team/gone', 2)).toBe(true);
  const next = { ...loading, acceptedVersion: 'v1', sentVersion: 'v2' };
  expect(at(21_000, well, next)).toEqual(['2/2', '1/2, pending a']);
});

it('statuses of newer rules wait for it, though its own are forgotten because its fleet gets none', () => {
  at(20_000, well, loading);
  view.ledger = view.ledger.with({ fleets: new Map(), outcomes: new Map(), holders: new Map() }, 0);
  const other = limiter('b', { acceptedVersion: 'v3' });
  at(20_500, other, loading);
  view.ledger = served(view.ledger, 'v3');
  at(21_000, other, loading);
  expect(textOf(3)).toBe('1/2, pending a');
});

it('statuses wait for it if it was sent that there are no rules', () => {
  expect(at(20_000, well, limiter('a', { sentVersion: versionOfNothing }))).toEqual([
    '1/2, pending a',
    '1/2, pending a',
  ]);
});

it('statuses wait for it if it was sent rules that are still unknown after a second', () => {
  const unknown = limiter('a', { sentVersion: 'v0' });
  expect(at(20_000, well, unknown)).toEqual(['1/1', '1/1']);
  expect(view.dueMs).toBe(21_000);
  expect(at(21_000, well, unknown)).toEqual(['1/2, pending a', '1/2, pending a']);
});

it('it is alone expected without an answer, as before', () => {
  view = new SeenLimiters(ledger);
  expect(at(0, loading)).toEqual(['0/1, pending a', '0/1, pending a']);
});

it('it is expected for a while after it left, with these rules', () => {
  at(20_000, well, loading);
  expect(at(21_000, well)).toEqual(['2/2', '1/2, away a']);
  expect(at(21_000 + defaultGraceSeconds * 1_000, well)).toEqual(['1/1', '1/1']);
});

it('it has none if it says so when it returns', () => {
  at(20_000, well, loading);
  at(21_000, well);
  expect(at(22_000, well, limiter('a'))).toEqual(['1/1', '1/1']);
  expect(at(23_000, well)).toEqual(['1/1', '1/1']);
});

it('it is not expected after it left if its endpoint is not ready', () => {
  const endpointOf = (name: string, isReady: boolean) => ({
    ...{ key: name, name, podUid: `uid of ${name}`, addresses: [], isReady, isTerminating: false },
  });
  const endpoints = [endpointOf('a', false), endpointOf('b', true)];
  const expectation = { count: undefined, endpoints, graceMs: 30_000, ignoresDisconnected: false };
  const expectations = new Map([['default', expectation]]);
  view.update([{ replica: 'replica', limiters: [well, loading] }], 20_000, expectations);
  expect(texts()).toEqual(['1/1', '1/2, pending a']);
  view.update([{ replica: 'replica', limiters: [well] }], 21_000, expectations);
  expect([texts(), view.fleet('default').joining]).toEqual([['1/1', '1/1'], ['a']]);
});
