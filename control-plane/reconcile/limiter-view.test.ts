import { beforeEach, describe, expect, it } from 'vitest';
import { noCapabilities } from '../../rules/language/capabilities.ts';
import { SeenLimiters } from '../../test/support/seen-limiters.ts';
import type { Endpoint, FleetExpectation } from '../model/config-object.ts';
import {
  fleetSnapshot,
  type LimiterReport,
  type ReplicaReport,
  type Resource,
  versionOfNothing,
} from '../model/fleet-snapshot.ts';
import { noVersions } from '../model/object-versions.ts';
import {
  type FirstSnapshot,
  type LedgerEdits,
  type RolloutProgress,
  VersionLedger,
} from './fleet-rollout.ts';
import { reconnectGraceMs } from './limiter-view.ts';

/** A ledger that has seen these versions of the fleet `default`: their numbers are 1, 2 ... */
function ledgerOf(...versions: string[]): VersionLedger {
  return versions.reduce((ledger, version) => observed(ledger, version), VersionLedger.empty());
}

function observed(
  ledger: VersionLedger,
  version: string,
  { resources = [], edits }: { resources?: readonly Resource[]; edits?: LedgerEdits } = {},
): VersionLedger {
  const snapshot = { fleet: 'default', version, resources };
  const fleets = new Map([['default', snapshot]]);
  return ledger.with({ fleets, outcomes: new Map(), holders: new Map() }, 0, edits);
}

/** A resource that needs a capability, and what other limiters get. */
function resourceWith(fallbackHash: string): Resource {
  const plain = { name: 'a', domain: 'a', bytes: new Uint8Array(), hash: fallbackHash, needs: [] };
  return { ...plain, hash: 'new', needs: ['windows'], fallback: plain };
}

function limiter(name: string, traits: Partial<LimiterReport> = {}): LimiterReport {
  return {
    id: `stream of ${name}`,
    instance: name,
    name,
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    capabilities: [],
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
function viewOf(ledger: VersionLedger, ...replicas: ReplicaReport[]): SeenLimiters {
  const view = new SeenLimiters(ledger);
  view.update(replicas, 0);
  view.update(replicas, reconnectGraceMs);
  return view;
}

function since(number: number, traits: Partial<FirstSnapshot> = {}): FirstSnapshot {
  return { number, ms: 0, needs: [], ...traits };
}

/** `2/3`, then who rejected, who is too old and who has not answered. */
function progressText({ total, inForce, rejected: refused, tooOld, pending }: RolloutProgress): string {
  const refusals = refused.items.map(({ name, message }) => `${name}: ${message}`);
  const old = tooOld.items.map(({ name }) => `${name} too old`);
  return [`${inForce}/${total}`, ...refusals, ...old, ...pending.items.map(({ name }) => name)].join(', ');
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
    expect([1, 2, 3, 4].map((number) => progressText(fleet.of(since(number))))).toEqual([
      '3/4, d',
      '2/4, c, d',
      '1/4, b, c, d',
      '0/4, a, b, c, d',
    ]);
  });

  it('knows which limiters may run rules that were taken out of the snapshots', () => {
    const ledger = ledgerOf('v1', 'v2');
    const mayRun = (traits: Partial<LimiterReport>, resource = 'team/gone'): boolean =>
      viewOf(ledger, replica(limiter('a', traits)))
        .fleet('default')
        .mayRun(resource, 2);
    const keeps = { version: 'v2', message: '', resources: [{ name: 'team/gone', message: 'no' }] };
    expect(mayRun({ acceptedVersion: 'v2' })).toBe(false);
    expect(mayRun({ acceptedVersion: 'v1' })).toBe(true);
    expect(mayRun({ acceptedVersion: 'of before' })).toBe(true);
    expect(mayRun({ acceptedVersion: versionOfNothing })).toBe(false);
    // One of ours would say what it has.
    expect([mayRun({}), mayRun({ isWeir: false })]).toEqual([false, true]);
    expect([mayRun({ refusal: keeps }), mayRun({ refusal: keeps }, 'team/other')]).toEqual([true, false]);
    expect(viewOf(ledger).fleet('default').mayRun('team/gone', 2)).toBe(false);

    const stays = limiter('b', { acceptedVersion: 'v2' });
    const view = viewOf(ledger, replica(stays, limiter('a', { acceptedVersion: 'v1' })));
    view.update([replica(stays)], reconnectGraceMs);
    expect(view.fleet('default').mayRun('team/gone', 2)).toBe(true);
    view.update([replica(stays)], reconnectGraceMs + 30_000);
    expect(view.fleet('default').mayRun('team/gone', 2)).toBe(false);
  });

  it.each<[string, Partial<LimiterReport>]>([
    ['for another fleet', { fleet: 'edge' }],
    ['with the token of another pod', { podUid: 'other' }],
    ['without a token', { podUid: undefined }],
  ])('lets no other limiter take the place of a limiter by its instance, %s', (_, traits) => {
    const victim = limiter('a', { instance: 'i', podUid: 'pod', acceptedVersion: 'v1' });
    const poser = { ...victim, id: 'later', connectedMs: 9, acceptedVersion: 'v2', ...traits };
    const view = viewOf(ledgerOf('v1', 'v2'), replica(victim, poser));
    expect(progressText(view.fleet('default').of(since(2)))).toMatch(/a$/);
  });

  it('lets no client without a token take the place of a limiter from another address', () => {
    const victim = limiter('a', { instance: 'i', address: '10.0.0.1', acceptedVersion: 'v1' });
    const poser = { ...victim, id: 'later', connectedMs: 9, address: '10.0.0.2', acceptedVersion: 'v2' };
    const view = viewOf(ledgerOf('v1', 'v2'), replica(victim, poser));
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/2, a');
    view.update([replica({ ...victim, id: 'later', connectedMs: 9, acceptedVersion: 'v2' }, victim)], 0);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/1');
  });

  it('has no limiter in a fleet without limiters', () => {
    expect(progressText(viewOf(ledgerOf('v1')).fleet('default').of(since(1)))).toBe('0/0');
  });

  it('counts a rejection against the rules that came since the accepted version', () => {
    const refusal = { version: 'v3', message: 'no' };
    const fleet = viewOf(
      ledgerOf('v1', 'v2', 'v3', 'v4'),
      replica(limiter('a', { acceptedVersion: 'v1', refusal })),
    ).fleet('default');
    expect([1, 2, 3, 4].map((number) => progressText(fleet.of(since(number))))).toEqual([
      '1/1',
      '0/1, a: no',
      '0/1, a: no',
      '0/1, a',
    ]);
  });

  it.each([
    ['was sent another one meanwhile', { sentVersion: 'v2' }],
    ['refused another one meanwhile', { refusal: { version: 'v2', message: 'no' } }],
  ])('waits for a limiter that has a version which comes back, and %s', (_, traits) => {
    const ledger = ledgerOf('v1', 'v2');
    const stays = limiter('b', { acceptedVersion: 'v1' });
    const both = replica(limiter('a', { acceptedVersion: 'v1', ...traits }), stays);
    const view = viewOf(ledger, both);
    view.ledger = observed(view.ledger, 'v1');
    view.update([both], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(3)))).toBe('1/2, a');
    view.update([replica(stays)], reconnectGraceMs);
    expect(view.fleet('default').of(since(3)).away).toMatchObject({ items: [{ name: 'a' }] });
    view.update([replica(limiter('a', { acceptedVersion: 'v1' }), stays)], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(3)))).toBe('2/2');
  });

  describe('an edit that leads to a version that was served before', () => {
    const report = limiter('a', { acceptedVersion: 'v1' });
    const edited = (ledger: VersionLedger, version: string, edit: number): VersionLedger =>
      observed(ledger, version, { edits: { uids: new Set(), versions: { configs: `${edit}` } } });
    const atStart = edited(VersionLedger.empty(), 'v1', 1);
    const other = (decided: number, ...limiters: LimiterReport[]): ReplicaReport => ({
      replica: 'other',
      limiters,
      decided: { configs: `${decided}` },
    });
    /** Of the edits 2 and 3, after the first one. */
    const back = edited(edited(atStart, 'v2', 2), 'v1', 3);

    it.each<[string, (decided: number) => ReplicaReport, string[]]>([
      ['once its replica has decided it', (decided) => other(decided, report), ['0/1, a', '0/1, a', '1/1']],
      ['at once if this replica serves it', () => replica(report), ['1/1', '1/1', '1/1']],
      [
        'once it has answered what it was sent, whether this replica ever served that or not',
        (decided) =>
          other(3, { ...report, ...(decided < 3 && { sentVersion: decided < 2 ? 'v2' : 'unseen' }) }),
        ['0/1, a', '0/1, a', '1/1'],
      ],
    ])('is certain of a limiter %s', (_, at, expected) => {
      const view = viewOf(atStart, at(3));
      view.ledger = back;
      const seen = [1, 2, 3].map((decided) => {
        view.update([at(decided)], reconnectGraceMs);
        return progressText(view.fleet('default').of(since(3)));
      });
      expect(seen).toEqual(expected);
    });

    it('leaves what a limiter has for certain, whatever was edited since', () => {
      const view = viewOf(atStart, other(1, report));
      view.ledger = back;
      view.update([other(1, report)], reconnectGraceMs);
      const { isUnconfirmed, hasOlder } = view.fleet('default').of(since(3));
      expect([progressText(view.fleet('default').of(since(1))), isUnconfirmed, hasOlder]).toEqual([
        '1/1',
        true,
        false,
      ]);
    });

    it('counts limiters of replicas that this process does not know yet', () => {
      const stays = replica(limiter('b', { acceptedVersion: 'v1' }));
      const seen = [other(0, report), other(1, { ...report, sentVersion: 'unseen' }), other(1, report)].map(
        (at) => {
          const view = new SeenLimiters(atStart);
          view.update([stays, at], 0);
          return progressText(view.fleet('default').of(since(1)));
        },
      );
      expect(seen).toEqual(['1/2, a', '1/2, a', '2/2']);
    });

    it('stays uncertain after the replica ended', () => {
      const stays = replica(limiter('b', { acceptedVersion: 'v1' }));
      const view = viewOf(atStart, stays, other(1, report));
      view.ledger = back;
      view.update([stays, other(1, report)], reconnectGraceMs);
      view.update([stays], reconnectGraceMs);
      expect(view.fleet('default').of(since(3)).away).toMatchObject({ items: [{ name: 'a' }] });
    });

    it('needs no look at replicas that decide more while nothing depends on it', () => {
      const limiters = [report];
      const at = (decided: number): ReplicaReport => ({ ...other(decided), limiters });
      const view = viewOf(atStart, at(1));
      const before = view.view;
      view.update([at(2)], reconnectGraceMs);
      expect(view.view).toBe(before);
      view.update([{ ...at(2), limiters: [...limiters] }], reconnectGraceMs);
      expect(view.view).not.toBe(before);
      view.ledger = back;
      view.update([at(2)], reconnectGraceMs);
      expect(progressText(view.fleet('default').of(since(3)))).toBe('0/1, a');
      view.update([at(3)], reconnectGraceMs);
      expect(progressText(view.fleet('default').of(since(3)))).toBe('1/1');
    });
  });

  it('counts a resource that is rejected against that alone: the rest of the snapshot is in force', () => {
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
    const all = [1, 3, 4].map((number) => since(number));
    expect(all.map((one) => progressText(fleet.of(one, 'team/good')))).toEqual([
      '3/3',
      '3/3',
      '0/3, a, b, c',
    ]);
    expect(all.map((one) => progressText(fleet.of(one, 'team/bad')))).toEqual([
      '2/3, a: bad',
      '2/3, a: bad',
      '0/3, a, b, c',
    ]);
  });

  it('takes up a resource again that was rejected once the limiter accepts everything', () => {
    const ledger = ledgerOf('v1', 'v2');
    const refusal = { version: 'v1', message: 'no', resources: [{ name: 'team/a', message: 'no' }] };
    const view = viewOf(ledger, replica(limiter('a', { refusal })));
    expect(progressText(view.fleet('default').of(since(1), 'team/a'))).toBe('0/1, a: no');
    view.update([replica(limiter('a', { acceptedVersion: 'v2' }))], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(1), 'team/a'))).toBe('1/1');
  });

  it('waits for a limiter that rejected an unknown version', () => {
    const refusal = { version: 'unknown', message: 'no' };
    expect(
      progressText(
        viewOf(ledgerOf('v1'), replica(limiter('a', { refusal })))
          .fleet('default')
          .of(since(1)),
      ),
    ).toBe('0/1, a');
  });

  it('keeps what it knew of a limiter whose version it does not know', () => {
    const ledger = ledgerOf('v1', 'v2');
    const view = viewOf(ledger, replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/1');
    view.ledger = observed(view.ledger, 'v3');
    expect(progressText(view.fleet('default').of(since(3)))).toBe('0/1, a');
    view.update([replica(limiter('a', { acceptedVersion: 'v3' }))], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(3)))).toBe('1/1');
  });

  it('takes a version that it does not know for nothing after a while', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    const claims = [replica(limiter('a', { acceptedVersion: 'old' }))];
    view.update(claims, 20_000);
    expect([progressText(view.fleet('default').of(since(1))), view.dueMs]).toEqual(['1/1', 35_000]);
    view.update(claims, 34_999);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/1');
    view.update(claims, 35_000);
    expect([progressText(view.fleet('default').of(since(1))), view.dueMs]).toEqual(['0/1, a', Infinity]);
  });

  it('sees a rejection by a limiter that claims an unknown version', () => {
    const view = new SeenLimiters(ledgerOf('v2'));
    const refusal = { version: 'v2', message: 'no' };
    const well = limiter('b', { acceptedVersion: 'v2' });
    view.update([replica(limiter('a', { acceptedVersion: 'v1', refusal }), well)], 0);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/2, a: no');
  });

  it('waits for no limiter that has just connected', () => {
    const view = new SeenLimiters(ledgerOf('v1'));
    const well = limiter('b', { acceptedVersion: 'v1' });
    const joining = [replica(limiter('a'), limiter('c'), well)];
    view.update(joining, 0);
    const before = view.fleet('default').of(since(1));
    expect([progressText(before), view.dueMs]).toEqual(['1/1', reconnectGraceMs]);
    expect(view.fleet('default').joining).toEqual(['a', 'c']);
    view.update([replica(well)], 1_000);
    expect(view.fleet('default').of(since(1))).toBe(before);
    view.update(joining, 2_000);
    view.update(joining, 2_000 + reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/3, a, c');
  });

  it('waits at once for a limiter that accepted that there are no rules', () => {
    const view = new SeenLimiters();
    const had = limiter('b', { acceptedVersion: 'v0' });
    view.update([replica(had)], 0);
    view.update([replica(had, limiter('a', { acceptedVersion: versionOfNothing }))], 20_000);
    view.ledger = ledgerOf('v1');
    const now = [
      limiter('b', { acceptedVersion: 'v1' }),
      limiter('a', { acceptedVersion: versionOfNothing }),
    ];
    view.update([replica(...now)], 20_500);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/2, a');
  });

  it('waits after a second for a limiter that connects with rules that no other limiter serves', () => {
    const view = new SeenLimiters(ledgerOf('v1'));
    const well = limiter('b', { acceptedVersion: 'v1' });
    const coming = [replica(limiter('a', { acceptedVersion: 'v2' }), well)];
    view.update([replica(limiter('a'), well)], 0);
    view.update(coming, 5_000);
    expect([progressText(view.fleet('default').of(since(1))), view.dueMs]).toEqual(['1/1', 6_000]);
    view.update(coming, 6_000);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/2, a');
    // Another replica was ahead.
    view.ledger = observed(view.ledger, 'v2');
    view.update(coming, 6_001);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('2/2');
  });

  it('waits at once for a limiter that connects with older rules', () => {
    const view = new SeenLimiters(ledgerOf('v1', 'v2'));
    view.update(
      [replica(limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v2' }))],
      0,
    );
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/2, a');
  });

  it('waits at once for a limiter that is back after its replica was away, with a version that has become meaningless', () => {
    const ledger = ledgerOf('v1', 'v2');
    const [a, b] = [limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v2' })];
    const view = viewOf(ledger, replica(a, b));
    const unknown = replica({ ...a, acceptedVersion: 'unknown' }, b);
    view.update([unknown], reconnectGraceMs);
    view.update([replica(b)], reconnectGraceMs + 1_000);
    view.update([unknown], 2 * reconnectGraceMs - 1_000);
    view.update([unknown], 2 * reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/2, a');
  });

  it('waits for new limiters if there are no others', () => {
    const view = new SeenLimiters(ledgerOf('v1'));
    view.update([replica(limiter('a'))], 0);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('0/1, a');
  });

  it('knows which limiters connect again and again without an answer', () => {
    const view = new SeenLimiters(ledgerOf('v1'));
    const well = limiter('b', { acceptedVersion: 'v1' });
    const traits = { instance: undefined, isWeir: false };
    const stream = (port: number) => limiter(`go (10.0.0.1:${port})`, { ...traits, id: `${port}` });
    view.update([replica(stream(1), well)], 0);
    view.update([replica(stream(2), well)], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/2, go (10.0.0.1:2)');
  });

  it('knows what a limiter without an instance has while its former stream is still reported', () => {
    const view = new SeenLimiters(ledgerOf('v1', 'v2'));
    const well = limiter('b', { acceptedVersion: 'v2' });
    const stream = (port: number, acceptedVersion?: string) =>
      limiter(`go (10.0.0.1:${port})`, {
        ...{ instance: undefined, isWeir: false, id: `${port}`, acceptedVersion },
      });
    view.update([replica(stream(1, 'v1'), well)], 0);
    view.update([replica(stream(1, 'v1'), well), { replica: 'other', limiters: [stream(2)] }], 1_000);
    view.update([replica(well), { replica: 'other', limiters: [stream(2)] }], 2_000);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/2, go (10.0.0.1:2)');
  });

  it('waits for a limiter without an instance that is sent older rules over its next stream', () => {
    const view = new SeenLimiters(ledgerOf('v1', 'v2'));
    const stream = (port: number, traits: Partial<LimiterReport>) =>
      limiter(`go (10.0.0.1:${port})`, { instance: undefined, isWeir: false, id: `${port}`, ...traits });
    const textWith = (one: LimiterReport, nowMs: number): string => {
      view.update([replica(one, limiter('b', { acceptedVersion: 'v2' }))], nowMs);
      return progressText(view.fleet('default').of(since(2)));
    };
    expect(textWith(stream(1, { acceptedVersion: 'v2' }), 0)).toBe('2/2');
    expect(textWith(stream(2, { sentVersion: 'v2' }), 1_000)).toBe('2/2');
    expect(textWith(stream(2, { sentVersion: 'v2' }), 1_000 + reconnectGraceMs)).toBe('2/2');
    expect(textWith(stream(3, { sentVersion: 'v1' }), 40_000)).toBe('1/2, go (10.0.0.1:3)');
  });

  it('says since when a limiter rejects or is waited for', () => {
    const ledger = ledgerOf('v1', 'v2');
    const view = new SeenLimiters(ledger);
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
    view.ledger = observed(view.ledger, 'v3');
    view.update([refused('v3', 'still no')], 9);
    const { rejected: refusals, pending } = view.fleet('default').of(since(2, { ms: 3 }));
    expect(refusals.items).toEqual([{ name: 'a', sinceMs: 5, message: 'still no' }]);
    expect(pending.items).toEqual([{ name: 'b', sinceMs: 3 }]);
    const later = view.fleet('default').of(since(3, { ms: 7 }));
    expect(later.rejected.items[0]?.sinceMs).toBe(7);
  });

  it('says since when a limiter is back that it waits for', () => {
    const well = limiter('b', { acceptedVersion: 'v2' });
    const view = viewOf(ledgerOf('v1', 'v2'), replica(limiter('a', { acceptedVersion: 'v1' }), well));
    view.update([replica(well)], 20_000);
    view.update([replica(limiter('a'), well)], 30_000);
    const { pending } = view.fleet('default').of(since(2));
    expect(pending.items).toEqual([{ name: 'a', sinceMs: 30_000 }]);
  });

  it('forgets a limiter that goes away', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('0/0');
    view.update([], reconnectGraceMs + 30_000);
    view.update([replica(limiter('a'))], reconnectGraceMs + 30_000);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('0/1, a');
  });

  it('believes a limiter that has gone back to older rules', () => {
    const view = viewOf(ledgerOf('v1', 'v2'), replica(limiter('a', { acceptedVersion: 'v2' })));
    view.update([replica(limiter('a', { acceptedVersion: 'v1' }))], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('0/1, a');
  });

  it('counts one process once, by its newest stream', () => {
    const before = replica(limiter('a', { id: '0/1', connectedMs: 1, acceptedVersion: 'v1' }));
    const after = replica(limiter('a', { id: '1/1', connectedMs: 2, acceptedVersion: 'v2' }));
    for (const replicas of [
      [before, after],
      [after, before],
    ]) {
      expect(
        progressText(
          viewOf(ledgerOf('v1', 'v2'), ...replicas)
            .fleet('default')
            .of(since(2)),
        ),
      ).toBe('1/1');
    }
  });

  describe('a stream that a process left, and that a replica without an API server still reports', () => {
    const well = replica(limiter('b', { acceptedVersion: 'v2' }));
    const stream = (id: string, connectedMs: number, acceptedVersion = 'v1'): ReplicaReport => ({
      ...replica(limiter('a', { id, connectedMs, acceptedVersion })),
      decided: noVersions,
    });
    const former = stream('0/1', 1);
    const textOf = (view: SeenLimiters): string => progressText(view.fleet('default').of(since(2)));

    it('does not count for a while after the next stream has ended, unless the process connects again', () => {
      const view = viewOf(ledgerOf('v1', 'v2'), former, well);
      view.update([former, stream('1/1', 2), well], reconnectGraceMs + 1);
      view.update([former, well], reconnectGraceMs + 2);
      const { pending, away } = view.fleet('default').of(since(2));
      expect(pending.items).toEqual([]);
      expect(away.items).toEqual([{ name: 'a', sinceMs: reconnectGraceMs + 2 }]);
      view.update([former, stream('2/1', 3, 'v2'), well], reconnectGraceMs + 3);
      expect(textOf(view)).toBe('2/2');
      view.update([former, well], 2 * reconnectGraceMs);
      expect(view.fleet('default').of(since(2)).pending.items).toEqual([]);
      view.update([former, well], 2 * reconnectGraceMs + 1);
      expect(textOf(view)).toBe('1/2, a');
    });

    it('counts again if the other one is older by the clocks, which may be wrong', () => {
      const view = viewOf(ledgerOf('v1', 'v2'), former, well);
      view.update([former, stream('1/1', 0), well], reconnectGraceMs + 1);
      view.update([stream('1/1', 0), well], reconnectGraceMs + 2);
      expect(textOf(view)).toBe('1/2, a');
    });

    it('counts again if it is a stream to this process, which knows that it is open', () => {
      const own = replica(limiter('a', { id: '0/1', connectedMs: 1, acceptedVersion: 'v2' }));
      const view = viewOf(ledgerOf('v1', 'v2'), own, well);
      view.update([own, stream('1/1', 2), well], reconnectGraceMs + 1);
      expect(textOf(view)).toBe('1/2, a');
      view.update([own, well], reconnectGraceMs + 2);
      expect(textOf(view)).toBe('2/2');
    });
  });

  it('keeps what it knew of a process over its streams', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { id: '0/1', acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { id: '1/1', connectedMs: 5 }))], reconnectGraceMs);
    expect(progressText(view.fleet('default').of(since(1)))).toBe('1/1');
  });

  it('forgets what a process had in force in another fleet', () => {
    const view = viewOf(ledgerOf('v1'), replica(limiter('a', { acceptedVersion: 'v1' })));
    view.update([replica(limiter('a', { fleet: 'edge' }))], reconnectGraceMs);
    expect(progressText(view.fleet('edge').of(since(1)))).toBe('0/1, a');
  });

  it('counts every stream of limiters that do not name their process', () => {
    const anonymous = ['1', '2'].map((id) => limiter('go', { id, instance: undefined, isWeir: false }));
    const fleet = viewOf(ledgerOf('v1'), replica(...anonymous, limiter('1'))).fleet('default');
    expect(progressText(fleet.of(since(1)))).toBe('0/3, 1, go, go');
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

  it('gives the same answer again if nothing has changed for the rules', () => {
    const ledger = ledgerOf('v1', 'v2');
    const [a, b] = [limiter('a', { acceptedVersion: 'v1' }), limiter('b', { acceptedVersion: 'v1' })];
    const view = viewOf(ledger, replica(a, b));
    const [inForce, awaited] = [view.fleet('default').of(since(1)), view.fleet('default').of(since(2))];
    view.update([replica({ ...b }, { ...a })], reconnectGraceMs);
    expect(view.fleet('default').of(since(2))).toBe(awaited);
    view.update([replica({ ...b, acceptedVersion: 'v2' }, { ...a })], reconnectGraceMs);
    expect(view.fleet('default').of(since(1))).toBe(inForce);
    expect(progressText(view.fleet('default').of(since(2)))).toBe('1/2, a');
  });
});

describe('limiters that do not support all rules', () => {
  const [v1, w3] = ['1', '3'].map(
    (hash) => fleetSnapshot('default', [resourceWith(hash).fallback!]).version,
  ) as [string, string];
  /** Limiters were served v1, v2 and v3, and those without capabilities v1, v1 and w3. */
  function ledgerOfBoth(): VersionLedger {
    return observed(observed(ledgerOf(v1), 'v2', { resources: [resourceWith('1')] }), 'v3', {
      resources: [resourceWith('3')],
    });
  }
  const newer = (number: number) => since(number, { needs: ['windows'] });
  /** Of plain rules and of newer ones that came with each snapshot. */
  function both(view: SeenLimiters): string[] {
    const fleet = view.fleet('default');
    return [1, 2, 3].flatMap((number) => [
      progressText(fleet.of(since(number))),
      progressText(fleet.of(newer(number))),
    ]);
  }
  const one = (traits: Partial<LimiterReport>) => viewOf(ledgerOfBoth(), replica(limiter('a', traits)));

  it('have the others in force that they are served, and never these', () => {
    const tooOld = '0/1, a too old';
    const old = { capabilities: noCapabilities };
    expect(both(one({ ...old, acceptedVersion: w3 }))).toEqual(['1/1', tooOld, '1/1', tooOld, '1/1', tooOld]);
    expect(both(one({ ...old, acceptedVersion: v1 }))).toEqual([
      '1/1',
      tooOld,
      '1/1',
      tooOld,
      '0/1, a',
      tooOld,
    ]);
    const refusal = { version: w3, message: 'no' };
    expect(both(one({ ...old, acceptedVersion: v1, refusal })).slice(4)).toEqual(['0/1, a: no', tooOld]);
    // Versions of new limiters say nothing of what an old one has.
    expect(both(one({ ...old, acceptedVersion: 'v3' }))[0]).toBe('0/1, a');
  });

  it('are not those that support them', () => {
    const current = { capabilities: ['windows'] as const };
    expect(both(one({ ...current, acceptedVersion: 'v3' }))).toEqual(Array.from({ length: 6 }, () => '1/1'));
    // It still has what is now for old ones alone.
    expect(both(one({ ...current, acceptedVersion: v1 })).slice(2, 4)).toEqual(['0/1, a', '0/1, a']);
  });

  it('are known by their present version alone when the first with their capabilities comes', () => {
    const others = { capabilities: ['calendar'] as const };
    expect(both(one({ ...others, acceptedVersion: w3 }))[4]).toBe('1/1');
    expect(both(one({ ...others, acceptedVersion: v1 }))[4]).toBe('0/1, a');
    const { ledger } = one(others);
    const next = observed(ledger, 'v4', { resources: [resourceWith('4')] });
    const view = viewOf(next, replica(limiter('a', { ...others, acceptedVersion: w3 })));
    expect([3, 4].map((number) => progressText(view.fleet('default').of(since(number))))).toEqual([
      '1/1',
      '0/1, a',
    ]);
  });

  it('are expected for a while when they go, and then no longer in the way', () => {
    const [a, b] = ['a', 'b'].map((name, index) =>
      limiter(
        name,
        index === 0 ? { acceptedVersion: w3 } : { capabilities: ['windows'], acceptedVersion: 'v3' },
      ),
    );
    const view = viewOf(ledgerOfBoth(), replica(a!, b!));
    const found = () => {
      const { inForce, total, tooOld, away } = view.fleet('default').of(newer(3));
      return [inForce, total, tooOld.count, away.items.map(({ name }) => name).join()];
    };
    expect(found()).toEqual([1, 2, 1, '']);
    view.update([replica(b!)], reconnectGraceMs);
    expect(found()).toEqual([1, 2, 0, 'a']);
    view.update([replica(b!)], reconnectGraceMs + 30_000);
    expect(found()).toEqual([1, 1, 0, '']);
  });

  it('are replaced by a process of their pod that is newer', () => {
    const view = one({ acceptedVersion: w3 });
    view.update(
      [replica(limiter('a', { instance: 'next', capabilities: ['windows'], acceptedVersion: 'v3' }))],
      reconnectGraceMs,
    );
    expect(progressText(view.fleet('default').of(newer(3)))).toBe('1/1');
  });

  it('share one answer for all that is too new for them', () => {
    const fleet = one({ acceptedVersion: w3 }).fleet('default');
    expect(fleet.of(newer(1))).toBe(fleet.of(newer(3)));
    expect(fleet.of(newer(3)).tooOld.items).toEqual([{ name: 'a', sinceMs: 0 }]);
  });
});

const second = 1_000;
const common: FleetExpectation = {
  count: undefined,
  endpoints: undefined,
  graceMs: 30 * second,
  ignoresDisconnected: false,
};

function endpoint(name: string, traits: Partial<Endpoint> = {}): Endpoint {
  return {
    key: name,
    name,
    podUid: `uid of ${name}`,
    addresses: ['10.0.0.1'],
    isReady: true,
    isTerminating: false,
    ...traits,
  };
}

/** `1/2, away a`: of the rules since that number. */
function contactText({ total, inForce, away, isShort }: RolloutProgress): string {
  const names = away.items.map(({ name }) => `away ${name}`);
  return [`${inForce}/${total}`, ...names, ...(isShort ? ['short'] : [])].join(', ');
}

describe('who is expected', () => {
  const a = limiter('a', { acceptedVersion: 'v1', podUid: 'uid of a' });
  const b = limiter('b', { acceptedVersion: 'v2', podUid: 'uid of b' });
  let view: SeenLimiters;
  /** With the given limiters at the time; both versions are known. */
  const at = (
    nowMs: number,
    limiters: LimiterReport[],
    expectation?: Partial<FleetExpectation>,
  ): string[] => {
    const expectations = new Map(expectation && [['default', { ...common, ...expectation }]]);
    view.update([replica(...limiters)], nowMs, expectations);
    return [1, 2].map((number) => contactText(view.fleet('default').of(since(number))));
  };
  beforeEach(() => {
    view = new SeenLimiters(ledgerOf('v1', 'v2'));
  });

  it('are those that were there a moment ago, with what they had', () => {
    at(0, [a, b]);
    expect(at(second, [b])).toEqual(['2/2', '1/2, away a']);
    expect(view.fleet('default').of(since(2)).away.items).toEqual([{ name: 'a', sinceMs: second }]);
    expect([at(30 * second, [b]), view.dueMs]).toEqual([['2/2', '1/2, away a'], 31 * second]);
    expect([at(31 * second, [b]), view.dueMs]).toEqual([['1/1', '1/1'], Number.POSITIVE_INFINITY]);
  });

  it.each<[boolean, string, Partial<FleetExpectation> | undefined]>([
    [true, 'nothing says who should be there', undefined],
    [false, 'a Service does', { endpoints: [endpoint('b')] }],
    [false, 'their number does', { count: 2 }],
    [false, 'those who are away do not count', { ignoresDisconnected: true }],
  ])('may be more than came in the first seconds: %s if %s', (mayBeMore, _, expectation) => {
    at(0, [b], expectation);
    expect(view.fleet('default').of(since(2)).mayBeMore).toBe(mayBeMore);
    at(reconnectGraceMs, [b], expectation);
    expect(view.fleet('default').of(since(2)).mayBeMore).toBe(false);
  });

  it('have what they had when they come back and say nothing of it', () => {
    at(0, [a, b]);
    at(1, [b]);
    expect(at(2, [{ ...a, acceptedVersion: undefined }, b])).toEqual(['2/2', '1/2']);
    const go = (id: string) => limiter('go (10.0.0.9:1)', { id, instance: undefined });
    at(3, [{ ...go('s1'), acceptedVersion: 'v1' }, b]);
    at(4, [b]);
    expect(at(5, [go('s2'), b])[1]).toBe('1/3, away a');
  });

  it('still lack what they rejected when they come back and report a version that is unknown here', () => {
    const refusal = { version: 'v2', message: 'no', resources: [{ name: 'team/bad', message: 'no' }] };
    const found = () => {
      const fleet = view.fleet('default');
      return ['team/good', 'team/bad'].map((name) => progressText(fleet.of(since(2), name)));
    };
    at(0, [{ ...a, refusal }, b]);
    at(1, [b]);
    at(2, [{ ...a, id: 's2', acceptedVersion: 'mixed' }, b]);
    expect(found()).toEqual(['2/2', '1/2, a: no']);
    at(3, [{ ...a, id: 's2', acceptedVersion: 'v2' }, b]);
    expect(found()).toEqual(['2/2', '2/2']);
    at(4, [{ ...a, id: 's2', acceptedVersion: 'mixed', refusal }, b]);
    expect(at(4 + reconnectGraceMs, [{ ...a, id: 's3', acceptedVersion: 'mixed' }, b])).toBeDefined();
    at(5 + 2 * reconnectGraceMs, [{ ...a, id: 's3', acceptedVersion: 'mixed' }, b]);
    expect(found()).toEqual(['1/2, a', '1/2, a']);
  });

  it('have what they had when another stream takes the place of theirs at once', () => {
    const go = (id: string) => limiter('go (10.0.0.9:1)', { id, instance: undefined });
    at(0, [{ ...go('s1'), acceptedVersion: 'v1' }, b]);
    expect(at(1, [go('s2'), b])).toEqual(['2/2', '1/2']);
  });

  it('have what they rejected of a snapshot not in force when they go', () => {
    const refusal = { version: 'v2', message: 'no', resources: [{ name: 'team/bad', message: 'no' }] };
    at(0, [{ ...a, refusal }, b]);
    at(1, [b]);
    const fleet = view.fleet('default');
    expect([
      contactText(fleet.of(since(2), 'team/good')),
      contactText(fleet.of(since(2), 'team/bad')),
    ]).toEqual(['2/2', '1/2, away a']);
  });

  it('are those that left with rules of which no version is known here', () => {
    at(0, [{ ...a, acceptedVersion: 'of before' }, b]);
    at(2 * second, [{ ...a, acceptedVersion: 'of before' }, b]);
    expect(at(3 * second, [b])).toEqual(['1/2, away a', '1/2, away a']);
    expect(at(33 * second, [b])).toEqual(['1/1', '1/1']);
  });

  it('are as many as there should be', () => {
    expect(at(0, [b], { count: 2 })).toEqual(['1/1, short', '1/1, short']);
    expect(at(0, [a, b], { count: 2 })).toEqual(['2/2', '1/2']);
    expect(at(second, [b], { count: 2 })).toEqual(['2/2', '1/2, away a']);
    expect(at(31 * second, [b], { count: 2 })).toEqual(['1/1, short', '1/1, short']);
  });

  it('are only the connected ones if that is enabled', () => {
    const ignores = { count: 3, ignoresDisconnected: true };
    at(0, [a, b], ignores);
    expect(at(1, [b], ignores)).toEqual(['1/1', '1/1']);
    expect(at(2, [b], { ...ignores, endpoints: [endpoint('c')] })).toEqual(['1/1', '1/1']);
  });

  it('are none once the last one has left', () => {
    at(0, [a]);
    expect(at(1, [])).toEqual(['0/0', '0/0']);
    expect(view.fleet('default').of(since(1)).connected).toBe(0);
  });

  it('are those that were there before the last one moved, too, when that one is back', () => {
    at(0, [a, b]);
    at(second, [b]);
    expect(at(2 * second, [])).toEqual(['0/0', '0/0']);
    expect(at(3 * second, [b])).toEqual(['2/2', '1/2, away a']);
    at(4 * second, []);
    expect(at(31 * second, [b])).toEqual(['1/1', '1/1']);
  });

  it('are not those that came back, over another stream or as another process of their pod', () => {
    const go = (port: number, id: string) =>
      limiter(`go (10.0.0.9:${port})`, { id, instance: undefined, acceptedVersion: 'v1' });
    at(0, [a, go(1, 's1'), b]);
    const again = { ...a, instance: 'another process', acceptedVersion: 'v2' };
    expect(at(1, [again, { ...go(2, 's2'), acceptedVersion: 'v2' }, b])).toEqual(['3/3', '3/3']);
  });

  describe('behind a Service', () => {
    const both = { endpoints: [endpoint('a'), endpoint('b')] };

    it('are its ready endpoints, however long their limiter is away', () => {
      at(0, [a, b], both);
      expect(at(second, [b], both)).toEqual(['2/2', '1/2, away a']);
      expect(at(3_600 * second, [b], both)).toEqual(['2/2', '1/2, away a']);
      expect(at(3_601 * second, [a, b], both)).toEqual(['2/2', '1/2']);
    });

    it('are ready endpoints that never had a limiter, of which nothing is known', () => {
      expect([at(0, [b], both), view.fleet('default').joining]).toEqual([['1/1', '1/1'], ['a']]);
      expect(view.dueMs).toBe(second);
      expect(at(second, [b], both)).toEqual(['1/2, away a', '1/2, away a']);
    });

    it('are those whose pod has this uid, whatever name and address they have', () => {
      at(0, [{ ...a, name: 'other', address: '10.9.9.9' }, b], both);
      expect(at(second, [{ ...a, name: 'other', address: '10.9.9.9' }, b], both)).toEqual(['2/2', '1/2']);
    });

    it('are not those that are not ready and never were there: they join', () => {
      const coming = { endpoints: [endpoint('a', { isReady: false }), endpoint('b')] };
      at(0, [b], coming);
      expect(at(3_600 * second, [b], coming)).toEqual(['1/1', '1/1']);
      expect(view.fleet('default').joining).toEqual(['a']);
    });

    it('are not those that are not ready past the grace', () => {
      const unready = { endpoints: [endpoint('a', { isReady: false }), endpoint('b')] };
      at(0, [a, b], both);
      expect(at(second, [b], unready)).toEqual(['2/2', '1/2, away a']);
      expect(at(31 * second, [b], unready)).toEqual(['1/1', '1/1']);
    });

    it('have nothing for sure once their pod was not ready and is ready again without them', () => {
      const unready = { endpoints: [endpoint('a', { isReady: false }), endpoint('b')] };
      at(0, [a, b], both);
      at(second, [b], unready);
      expect(at(2 * second, [b], both)).toEqual(['2/2', '1/2, away a']);
      expect(view.dueMs).toBe(3 * second);
      expect(at(3 * second, [b], both)).toEqual(['1/2, away a', '1/2, away a']);
      expect(at(4 * second, [a, b], both)).toEqual(['2/2', '1/2']);
    });

    it.each([
      [1, '1/2'],
      [2, '2/2'],
    ])('may be other processes if they left %s s after their pod was ready again', (leftS, inForce) => {
      const unready = { endpoints: [endpoint('a', { isReady: false }), endpoint('b')] };
      at(0, [a, b], both);
      at(second, [a, b], unready);
      at(2 * second, [a, b], both);
      at((2 + leftS) * second, [b], both);
      expect(at(9 * second, [b], both)[0]).toContain(inForce);
    });

    it('are those that terminate as long as they are connected', () => {
      const ending = { endpoints: [endpoint('a', { isTerminating: true }), endpoint('b')] };
      expect(at(0, [a, b], ending)).toEqual(['2/2', '1/2']);
      expect(at(second, [b], ending)).toEqual(['1/1', '1/1']);
    });

    it('are not those whose pod is gone', () => {
      at(0, [a, b], both);
      expect(at(second, [b], { endpoints: [endpoint('b')] })).toEqual(['1/1', '1/1']);
    });

    it('are known by name and address together if no token says the pod', () => {
      const plain = (address: string) => limiter('a', { acceptedVersion: 'v2', address });
      expect(at(2 * second, [plain('10.0.0.1'), b], both)).toEqual(['2/2', '2/2']);
      at(3 * second, [plain('10.0.0.2'), b], both);
      expect(at(4 * second, [plain('10.0.0.2'), b], both)).toEqual(['2/3, away a', '2/3, away a']);
    });

    it('are counted while none of them is connected', () => {
      at(0, [], both);
      at(second, [], both);
      expect(view.fleet('default').of(since(1))).toMatchObject({ total: 2, connected: 0 });
    });
  });
});
