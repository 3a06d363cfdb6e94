import { describe, expect, it } from 'vitest';
import type { Decision } from '../model/decision.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { LimiterView, type Standing, VersionLedger } from './fleet-standing.ts';

/** A ledger that has seen these versions of the fleet `default`: their numbers are 1, 2 ... */
function ledgerOf(...versions: string[]): VersionLedger {
  const ledger = new VersionLedger();
  for (const version of versions) observe(ledger, version);
  return ledger;
}

function observe(ledger: VersionLedger, version: string): void {
  const snapshot = { fleet: 'default', version, resources: [] };
  const decision: Decision = { fleets: new Map([['default', snapshot]]), verdicts: new Map() };
  ledger.observe(decision);
}

function limiter(name: string, traits: Partial<LimiterReport> = {}): LimiterReport {
  return {
    id: `stream of ${name}`,
    instance: name,
    name,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    connectedMs: 0,
    acceptedVersion: undefined,
    refusal: undefined,
    ...traits,
  };
}

function replica(...limiters: LimiterReport[]): ReplicaReport {
  return { replica: 'replica', limiters };
}

function viewOf(ledger: VersionLedger, ...replicas: ReplicaReport[]): LimiterView {
  const view = new LimiterView(ledger);
  view.update(replicas);
  return view;
}

/** `2/3`, then who refused and who has not answered. */
function said({ total, inForce, refused, pending }: Standing): string {
  const refusals = refused.items.map(({ name, message }) => `${name}: ${message}`);
  return [`${inForce}/${total}`, ...refusals, ...pending.items].join(', ');
}

describe('LimiterView', () => {
  it('counts the limiters that accepted a version with the rules', () => {
    const limiters = [
      limiter('c', { acceptedVersion: 'v1' }),
      limiter('b', { acceptedVersion: 'v2' }),
      limiter('a', { acceptedVersion: 'v3' }),
      limiter('d'),
      limiter('elsewhere', { fleet: 'edge', acceptedVersion: 'v3' }),
    ];
    const view = viewOf(ledgerOf('v1', 'v2', 'v3'), replica(...limiters));
    const fleet = view.fleet('default');
    expect([1, 2, 3, 4].map((since) => said(fleet.of(since)))).toEqual([
      '3/4, d',
      '2/4, c, d',
      '1/4, b, c, d',
      '0/4, a, b, c, d',
    ]);
  });

  it('has nobody in a fleet without limiters', () => {
    expect(said(viewOf(ledgerOf('v1')).fleet('default').of(1))).toBe('0/0');
  });

  it('counts a refusal against the rules that came since the accepted version', () => {
    const refusal = { version: 'v3', message: 'no' };
    const fleet = viewOf(
      ledgerOf('v1', 'v2', 'v3', 'v4'),
      replica(limiter('a', { acceptedVersion: 'v1', refusal })),
    ).fleet('default');
    expect([1, 2, 3, 4].map((since) => said(fleet.of(since)))).toEqual([
      '1/1',
      '0/1, a: no',
      '0/1, a: no',
      '0/1, a',
    ]);
  });

  it('waits for a limiter that refused a version that nobody knows', () => {
    const refusal = { version: 'unknown', message: 'no' };
    expect(
      said(
        viewOf(ledgerOf('v1'), replica(limiter('a', { refusal })))
          .fleet('default')
          .of(1),
      ),
    ).toBe('0/1, a');
  });

  it('keeps what it knew of a limiter whose version it does not know', () => {
    const ledger = ledgerOf('v1', 'v2');
    const view = viewOf(ledger, replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))]);
    expect(said(view.fleet('default').of(2))).toBe('1/1');
    observe(ledger, 'v3');
    expect(said(view.fleet('default').of(3))).toBe('0/1, a');
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))]);
    expect(said(view.fleet('default').of(3))).toBe('1/1');
  });

  it('believes of a version that it does not know that it holds what everybody had before', () => {
    const refusal = { version: 'v1', message: 'no' };
    const ledger = ledgerOf('v1');
    const view = viewOf(ledger, replica(limiter('a', { acceptedVersion: 'v0', refusal }), limiter('b')));
    expect(said(view.fleet('default').of(1))).toBe('0/2, a: no, b');
    expect(said(view.fleet('default').of(1, { wasInForce: true }))).toBe('1/2, b');
    view.update([replica(limiter('a', { acceptedVersion: 'v1' }))]);
    observe(ledger, 'v2');
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))]);
    expect(said(view.fleet('default').of(2, { wasInForce: true }))).toBe('0/1, a');
  });

  it('forgets a limiter that goes away', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([]);
    expect(said(view.fleet('default').of(1))).toBe('0/0');
    view.update([replica(limiter('a'))]);
    expect(said(view.fleet('default').of(1))).toBe('0/1, a');
  });

  it('believes a limiter that has gone back to older rules', () => {
    const view = viewOf(ledgerOf('v1', 'v2'), replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v1' }))]);
    expect(said(view.fleet('default').of(2))).toBe('0/1, a');
  });

  it('counts one process once, by its newest stream', () => {
    const before = replica(limiter('a', { id: '0/1', connectedMs: 1, acceptedVersion: 'v1' }));
    const after = replica(limiter('a', { id: '1/1', connectedMs: 2, acceptedVersion: 'v2' }));
    for (const replicas of [
      [before, after],
      [after, before],
    ]) {
      expect(
        said(
          viewOf(ledgerOf('v1', 'v2'), ...replicas)
            .fleet('default')
            .of(2),
        ),
      ).toBe('1/1');
    }
  });

  it('keeps what it knew of a process over its streams', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { id: '0/1', acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { id: '1/1', connectedMs: 5 }))]);
    expect(said(view.fleet('default').of(1))).toBe('1/1');
  });

  it('forgets what a process had in force in another fleet', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { fleet: 'edge' }))]);
    expect(said(view.fleet('edge').of(1))).toBe('0/1, a');
  });

  it('counts every stream of limiters that do not name their process', () => {
    const anonymous = ['1', '2'].map((id) => limiter('go', { id, instance: undefined, isWeir: false }));
    const fleet = viewOf(ledgerOf('v1'), replica(...anonymous, limiter('1'))).fleet('default');
    expect(said(fleet.of(1))).toBe('0/3, 1, go, go');
    expect(fleet.others).toEqual({ items: ['go', 'go'], count: 2 });
  });

  it('names ten limiters and counts all', () => {
    const limiters = Array.from({ length: 25 }, (_, index) => limiter(`limiter-${index + 10}`));
    const { pending } = viewOf(ledgerOf('v1'), replica(...limiters))
      .fleet('default')
      .of(1);
    expect(pending.count).toBe(25);
    expect(pending.items).toEqual(Array.from({ length: 10 }, (_, index) => `limiter-${index + 10}`));
  });

  it('gives one answer for all that every limiter has', () => {
    const fleet = viewOf(ledgerOf('v1', 'v2', 'v3'), replica(limiter('a', { acceptedVersion: 'v2' }))).fleet(
      'default',
    );
    expect(fleet.of(1)).toBe(fleet.of(2));
    expect(fleet.of(3)).not.toBe(fleet.of(2));
  });

  it('gives the same answer again where nothing has changed for the rules', () => {
    const ledger = ledgerOf('v1', 'v2');
    const [a, b] = [limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v1' })];
    const view = viewOf(ledger, replica(a, b));
    const [inForce, awaited] = [view.fleet('default').of(1), view.fleet('default').of(2)];
    view.update([replica({ ...b }, { ...a })]);
    expect(view.fleet('default').of(2)).toBe(awaited);
    view.update([replica({ ...b, acceptedVersion: 'v2' }, { ...a })]);
    expect(view.fleet('default').of(1)).toBe(inForce);
    expect(said(view.fleet('default').of(2))).toBe('1/2, a');
  });
});
