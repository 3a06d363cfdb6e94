import { describe, expect, it } from 'vitest';
import type { Decision } from '../model/decision.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { LimiterView, patienceMs, type Since, type Standing, VersionLedger } from './fleet-standing.ts';

/** A ledger that has seen these versions of the fleet `default`: their numbers are 1, 2 ... */
function ledgerOf(...versions: string[]): VersionLedger {
  const ledger = new VersionLedger();
  for (const version of versions) observe(ledger, version);
  return ledger;
}

function observe(ledger: VersionLedger, version: string): void {
  const snapshot = { fleet: 'default', version, resources: [] };
  const decision: Decision = { fleets: new Map([['default', snapshot]]), verdicts: new Map() };
  ledger.observe(decision, 0);
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

/** Of limiters that have been there for a while. */
function viewOf(ledger: VersionLedger, ...replicas: ReplicaReport[]): LimiterView {
  const view = new LimiterView(ledger);
  view.update(replicas, 0);
  view.update(replicas, patienceMs);
  return view;
}

function since(number: number): Since {
  return { number, ms: 0 };
}

/** `2/3`, then who refused and who has not answered. */
function said({ total, inForce, refused, pending }: Standing): string {
  const refusals = refused.items.map(({ name, message }) => `${name}: ${message}`);
  return [`${inForce}/${total}`, ...refusals, ...pending.items.map(({ name }) => name)].join(', ');
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
    expect([1, 2, 3, 4].map((number) => said(fleet.of(since(number))))).toEqual([
      '3/4, d',
      '2/4, c, d',
      '1/4, b, c, d',
      '0/4, a, b, c, d',
    ]);
  });

  it('has nobody in a fleet without limiters', () => {
    expect(said(viewOf(ledgerOf('v1')).fleet('default').of(since(1)))).toBe('0/0');
  });

  it('counts a refusal against the rules that came since the accepted version', () => {
    const refusal = { version: 'v3', message: 'no' };
    const fleet = viewOf(
      ledgerOf('v1', 'v2', 'v3', 'v4'),
      replica(limiter('a', { acceptedVersion: 'v1', refusal })),
    ).fleet('default');
    expect([1, 2, 3, 4].map((number) => said(fleet.of(since(number))))).toEqual([
      '1/1',
      '0/1, a: no',
      '0/1, a: no',
      '0/1, a',
    ]);
  });

  it('counts a resource that is refused against that alone: the rest of the snapshot is in force', () => {
    const resources = [{ name: 'team/bad', message: 'bad' }];
    const refusal = { version: 'v3', message: 'team/bad: bad', resources };
    const fleet = viewOf(
      ledgerOf('v1', 'v2', 'v3', 'v4'),
      replica(
        limiter('a', { acceptedVersion: 'v1', refusal }),
        limiter('b', { acceptedVersion: 'v3' }),
        limiter('c', { acceptedVersion: 'v3' }),
      ),
    ).fleet('default');
    const all = [1, 3, 4].map(since);
    expect(all.map((one) => said(fleet.of(one, 'team/good')))).toEqual(['3/3', '3/3', '0/3, a, b, c']);
    expect(all.map((one) => said(fleet.of(one, 'team/bad')))).toEqual([
      '2/3, a: bad',
      '2/3, a: bad',
      '0/3, a, b, c',
    ]);
  });

  it('takes up a resource again that was refused once the limiter accepts everything', () => {
    const ledger = ledgerOf('v1', 'v2');
    const refusal = { version: 'v1', message: 'no', resources: [{ name: 'team/a', message: 'no' }] };
    const view = viewOf(ledger, replica(limiter('a', { refusal })));
    expect(said(view.fleet('default').of(since(1), 'team/a'))).toBe('0/1, a: no');
    view.update([replica(limiter('a', { acceptedVersion: 'v2' }))], patienceMs);
    expect(said(view.fleet('default').of(since(1), 'team/a'))).toBe('1/1');
  });

  it('waits for a limiter that refused a version that nobody knows', () => {
    const refusal = { version: 'unknown', message: 'no' };
    expect(
      said(
        viewOf(ledgerOf('v1'), replica(limiter('a', { refusal })))
          .fleet('default')
          .of(since(1)),
      ),
    ).toBe('0/1, a');
  });

  it('keeps what it knew of a limiter whose version it does not know', () => {
    const ledger = ledgerOf('v1', 'v2');
    const view = viewOf(ledger, replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))], patienceMs);
    expect(said(view.fleet('default').of(since(2)))).toBe('1/1');
    observe(ledger, 'v3');
    expect(said(view.fleet('default').of(since(3)))).toBe('0/1, a');
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))], patienceMs);
    expect(said(view.fleet('default').of(since(3)))).toBe('1/1');
  });

  it('takes a version that it does not know for nothing after a while', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    const claims = [replica(limiter('a', { acceptedVersion: 'old' }))];
    view.update(claims, 20_000);
    expect([said(view.fleet('default').of(since(1))), view.dueMs]).toEqual(['1/1', 35_000]);
    view.update(claims, 34_999);
    expect(said(view.fleet('default').of(since(1)))).toBe('1/1');
    view.update(claims, 35_000);
    expect([said(view.fleet('default').of(since(1))), view.dueMs]).toEqual(['0/1, a', Infinity]);
  });

  it('sees a refusal by a limiter that claims a version which nobody knows', () => {
    const view = new LimiterView(ledgerOf('v2'));
    const refusal = { version: 'v2', message: 'no' };
    const well = limiter('b', { acceptedVersion: 'v2' });
    view.update([replica(limiter('a', { acceptedVersion: 'v1', refusal }), well)], 0);
    expect(said(view.fleet('default').of(since(1)))).toBe('1/2, a: no');
  });

  it('waits for nobody who has just come', () => {
    const view = new LimiterView(ledgerOf('v1'));
    const well = limiter('b', { acceptedVersion: 'v1' });
    const joining = [replica(limiter('a', { acceptedVersion: 'unknown' }), limiter('c'), well)];
    view.update(joining, 0);
    const before = view.fleet('default').of(since(1));
    expect([said(before), view.dueMs]).toEqual(['1/1', patienceMs]);
    view.update([replica(well)], 1_000);
    expect(view.fleet('default').of(since(1))).toBe(before);
    view.update(joining, 2_000);
    view.update(joining, 2_000 + patienceMs);
    expect(said(view.fleet('default').of(since(1)))).toBe('1/3, a, c');
  });

  it('waits at once for who comes with older rules', () => {
    const view = new LimiterView(ledgerOf('v1', 'v2'));
    view.update(
      [replica(limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v2' }))],
      0,
    );
    expect(said(view.fleet('default').of(since(2)))).toBe('1/2, a');
  });

  it('waits for those who join where there are no others', () => {
    const view = new LimiterView(ledgerOf('v1'));
    view.update([replica(limiter('a'))], 0);
    expect(said(view.fleet('default').of(since(1)))).toBe('0/1, a');
  });

  it('knows who comes again and again without an answer', () => {
    const view = new LimiterView(ledgerOf('v1'));
    const well = limiter('b', { acceptedVersion: 'v1' });
    const traits = { instance: undefined, isWeir: false };
    const stream = (port: number) => limiter(`go (10.0.0.1:${port})`, { ...traits, id: `${port}` });
    view.update([replica(stream(1), well)], 0);
    view.update([replica(stream(2), well)], patienceMs);
    expect(said(view.fleet('default').of(since(1)))).toBe('1/2, go (10.0.0.1:2)');
  });

  it('says since when a limiter refuses or is waited for', () => {
    const ledger = ledgerOf('v1', 'v2');
    const view = new LimiterView(ledger);
    const refused = (version: string, message: string) =>
      replica(
        limiter('a', { acceptedVersion: 'v1', refusal: { version, message } }),
        limiter('b', { acceptedVersion: 'v1' }),
      );
    view.update(
      [replica(limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v1' }))],
      1,
    );
    view.update([refused('v2', 'no')], 5);
    observe(ledger, 'v3');
    view.update([refused('v3', 'still no')], 9);
    const { refused: refusals, pending } = view.fleet('default').of({ number: 2, ms: 3 });
    expect(refusals.items).toEqual([{ name: 'a', sinceMs: 5, message: 'still no' }]);
    expect(pending.items).toEqual([{ name: 'b', sinceMs: 3 }]);
    const later = view.fleet('default').of({ number: 3, ms: 7 });
    expect(later.refused.items[0]?.sinceMs).toBe(7);
  });

  it('forgets a limiter that goes away', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([], patienceMs);
    expect(said(view.fleet('default').of(since(1)))).toBe('0/0');
    view.update([replica(limiter('a'))], patienceMs);
    expect(said(view.fleet('default').of(since(1)))).toBe('0/1, a');
  });

  it('believes a limiter that has gone back to older rules', () => {
    const view = viewOf(ledgerOf('v1', 'v2'), replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v1' }))], patienceMs);
    expect(said(view.fleet('default').of(since(2)))).toBe('0/1, a');
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
            .of(since(2)),
        ),
      ).toBe('1/1');
    }
  });

  it('keeps what it knew of a process over its streams', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { id: '0/1', acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { id: '1/1', connectedMs: 5 }))], patienceMs);
    expect(said(view.fleet('default').of(since(1)))).toBe('1/1');
  });

  it('forgets what a process had in force in another fleet', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { fleet: 'edge' }))], patienceMs);
    expect(said(view.fleet('edge').of(since(1)))).toBe('0/1, a');
  });

  it('counts every stream of limiters that do not name their process', () => {
    const anonymous = ['1', '2'].map((id) => limiter('go', { id, instance: undefined, isWeir: false }));
    const fleet = viewOf(ledgerOf('v1'), replica(...anonymous, limiter('1'))).fleet('default');
    expect(said(fleet.of(since(1)))).toBe('0/3, 1, go, go');
    expect(fleet.hasOthers).toBe(true);
  });

  it('names five limiters and counts all', () => {
    const limiters = Array.from({ length: 25 }, (_, index) => limiter(`limiter-${index + 10}`));
    const { pending } = viewOf(ledgerOf('v1'), replica(...limiters))
      .fleet('default')
      .of(since(1));
    expect(pending.count).toBe(25);
    expect(pending.items.map(({ name }) => name)).toEqual(
      Array.from({ length: 5 }, (_, index) => `limiter-${index + 10}`),
    );
  });

  it('gives one answer for all that every limiter has', () => {
    const fleet = viewOf(ledgerOf('v1', 'v2', 'v3'), replica(limiter('a', { acceptedVersion: 'v2' }))).fleet(
      'default',
    );
    expect(fleet.of(since(1))).toBe(fleet.of(since(2)));
    expect(fleet.of(since(3))).not.toBe(fleet.of(since(2)));
  });

  it('gives the same answer again where nothing has changed for the rules', () => {
    const ledger = ledgerOf('v1', 'v2');
    const [a, b] = [limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v1' })];
    const view = viewOf(ledger, replica(a, b));
    const [inForce, awaited] = [view.fleet('default').of(since(1)), view.fleet('default').of(since(2))];
    view.update([replica({ ...b }, { ...a })], patienceMs);
    expect(view.fleet('default').of(since(2))).toBe(awaited);
    view.update([replica({ ...b, acceptedVersion: 'v2' }, { ...a })], patienceMs);
    expect(view.fleet('default').of(since(1))).toBe(inForce);
    expect(said(view.fleet('default').of(since(2)))).toBe('1/2, a');
  });
});
