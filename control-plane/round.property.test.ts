/** A round is a value: what follows from it in one future does not depend on another future of the same round. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { configObject, configSpec, invalidSpec } from '../test/support/config-object-builder.ts';
import { caseCount } from '../test/support/property-cases.ts';
import type { ConfigObject } from './model/config-object.ts';
import { unrestrictedOwners } from './model/domain-owners.ts';
import type { LimiterReport } from './model/fleet-snapshot.ts';
import { VersionedMap } from './model/versioned-map.ts';
import type { StatusWrite, WriteEnd } from './model/write-ledger.ts';
import { Decider, noPolicy } from './reconcile/decide.ts';
import { decide, firstRound, type Round, type RoundResult } from './round.ts';
import { unknownWorld, type World } from './world.ts';

const controllerName = 'ns/b';
const specs = [
  configSpec({ domain: 'x' }),
  configSpec({ domain: 'y' }),
  configSpec({ domain: 'x', requestsPerUnit: 5 }),
  configSpec({ domain: 'y', algorithm: 'SlidingWindow' }),
  invalidSpec(),
];
const waitsMs = [100, 1_000, 10_000, 20_000, 20_000];

const step = fc.record({
  is: fc.constantFrom('edit', 'delete', 'overwrite', 'show', 'write', 'answer', 'limiters', 'lead', 'wait'),
  name: fc.constantFrom('a', 'b', 'c'),
  choice: fc.nat(4),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;
/** A status is written. Its answer may be lost. */
const write = step.map((one): Step[] => [
  { ...one, is: 'wait' },
  { ...one, is: 'write' },
  { ...one, is: 'answer' },
]);
const steps = (maxLength: number) =>
  fc
    .array(fc.oneof({ weight: 3, arbitrary: step.map((one) => [one]) }, { weight: 1, arbitrary: write }), {
      minLength: 1,
      maxLength,
    })
    .map((parts) => parts.flat());

/** One history of a replica and its API server. */
interface Play {
  readonly round: Round;
  readonly world: World;
  readonly nowMs: number;
  readonly version: number;
  /** The objects of the API server by uid, which the watch shows later. */
  readonly stored: VersionedMap<ConfigObject>;
  readonly waiting: ReadonlyMap<string, StatusWrite<ConfigObject>>;
  readonly sending: StatusWrite<ConfigObject> | undefined;
  readonly results: readonly unknown[];
}

function begin(): Play {
  const decider = new Decider({ mergeDomains: false, domainOwners: unrestrictedOwners, controllerName });
  const round = firstRound({ decider, controllerName, removals: { max: 5, forgetAfterMs: 60_000 } });
  const stored = VersionedMap.of<ConfigObject>();
  const known = { objects: stored, policy: noPolicy, acceptedSpecs: new Map(), leads: true };
  const world = { ...unknownWorld, ...known };
  return {
    ...{ round, world, stored },
    ...{ nowMs: 0, version: 1, waiting: new Map(), sending: undefined, results: [] },
  };
}

function put(play: Play, uid: string, object: ConfigObject | undefined): Play {
  const version = play.version + 1;
  const next = object && { ...object, resourceVersion: String(version) };
  return { ...play, version, stored: play.stored.with(new Map([[uid, next]])) };
}

function learn(play: Play, news: Partial<World>): Play {
  return { ...play, world: { ...play.world, ...news } };
}

function shown(play: Play): Play {
  return learn(play, { objects: play.stored });
}

function limiters({ round }: Play, choice: number): LimiterReport[] {
  const version = round.decision?.fleets.get('default')?.version;
  const traits = {
    fleet: 'default',
    isWeir: true,
    countsCompatibly: false,
    capabilities: [],
    connectedMs: 0,
  };
  const limiter = {
    id: '1',
    instance: 'i',
    name: 'l',
    ...traits,
    acceptedVersion: version,
    refusal: undefined,
  };
  const refusal = { version: version ?? '', message: 'no' };
  const other = { ...limiter, id: '2', instance: 'j', name: 'm', acceptedVersion: undefined };
  return [[limiter], [], [{ ...limiter, refusal }], [limiter, other], [{ ...limiter, acceptedVersion: 'v' }]][
    choice
  ]!;
}

/** So often did it happen in all histories. */
const seen = { decisions: 0, statuses: 0, written: 0, overwritten: 0, lost: 0 };

/**
 * The API server applies the write under way if its object is unchanged. Its answer may be lost. Another attempt then comes too late.
 */
function answered(play: Play, write: StatusWrite<ConfigObject>, choice: number): Play {
  const { uid, resourceVersion } = write.object;
  const stored = play.stored.get(uid);
  const isApplied = stored?.resourceVersion === resourceVersion;
  const after = isApplied ? put(play, uid, { ...stored!, status: write.status }) : play;
  seen.written += Number(isApplied);
  const ended = (ledger: World['writes'], end: WriteEnd) => ledger.ended(write, end, play.nowMs);
  const { writes } = play.world;
  const news =
    isApplied && choice < 3
      ? ended(writes, { is: 'written', version: String(after.version) })
      : ended(ended(writes, { is: 'failed' }).begun(write), { is: 'outdated' });
  return learn({ ...after, sending: undefined }, { writes: news });
}

function acted(play: Play, { is, name, choice }: Step): Play {
  const uid = `uid-${name}`;
  const object = play.stored.get(uid) ?? configObject({ name, uid, generation: 0 });
  const [next] = play.waiting.values();
  if (is === 'edit') {
    const edited = { ...object, generation: object.generation + 1, spec: specs[choice] };
    return shown(put(play, uid, edited));
  }
  if (is === 'delete' && choice < 2) return shown(put(play, uid, undefined));
  const ours = [...play.stored.values()].find(({ status }) => status?.controllerName === controllerName);
  if (is === 'overwrite' && ours !== undefined) {
    const status = { observedGeneration: 1, controllerName: 'ns/a', conditions: [] };
    return shown(put(play, ours.uid, { ...ours, status }));
  }
  if (is === 'write' && play.sending === undefined && next !== undefined) {
    const sent = { ...play, sending: next, waiting: without(play.waiting, next.object.uid) };
    return learn(sent, { writes: play.world.writes.begun(next) });
  }
  if (is === 'answer' && play.sending !== undefined) return answered(play, play.sending, choice);
  if (is === 'show') return learn(play, { objects: play.stored });
  if (is === 'limiters')
    return learn(play, { reports: [{ replica: 'r', limiters: limiters(play, choice) }] });
  if (is === 'lead' && choice < 2) return learn(play, { leads: !play.world.leads });
  return { ...play, nowMs: play.nowMs + waitsMs[choice]! };
}

function without<T>(map: ReadonlyMap<string, T>, key: string): Map<string, T> {
  return new Map([...map].filter(([one]) => one !== key));
}

/** Everything that a replica does, without the values that are the same objects for good. */
function resultOf({ decided, statuses, shared, ...rest }: RoundResult): unknown {
  const outcomes = [...(decided?.decision.outcomes ?? [])].map(([uid, { accepted, served }]) => ({
    ...{ uid, accepted },
    served: served && { ...served, bytes: undefined },
  }));
  return {
    ...rest,
    isDecided: decided !== undefined,
    outcomes: outcomes.sort((a, b) => (a.uid < b.uid ? -1 : 1)),
    fleets: [...(decided?.decision.fleets.values() ?? [])].map(({ fleet, version }) => `${fleet} ${version}`),
    entries: [...(statuses?.entries ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)),
    found: statuses?.found,
    stored: [...(shared.acceptedSpecs ?? [])].sort(([a], [b]) => (a < b ? -1 : 1)),
    removed: shared.removed,
  };
}

function played(play: Play, one: Step): Play {
  const next = acted({ ...play, nowMs: play.nowMs + 30 }, one);
  const { nowMs, sending, stored } = next;
  const inFlight = new Set(sending && [sending.object.uid]);
  const at = { wallMs: nowMs, monotonicMs: nowMs, leads: next.world.leads, inFlight };
  const { round, outcome } = decide(next.world, next.round, { ...at, isGone: ({ uid }) => !stored.has(uid) });
  seen.decisions += Number(outcome.decided !== undefined);
  seen.statuses += outcome.statuses?.entries.size ?? 0;
  for (const { news } of outcome.statuses?.found ?? []) {
    seen.overwritten += Number(news.is !== 'written');
    seen.lost += Number(news.is === 'written');
  }
  const waiting = outcome.lead === 'ends' ? new Map() : new Map(next.waiting);
  for (const [uid, entry] of outcome.statuses?.entries ?? []) {
    if (entry === undefined) waiting.delete(uid);
    else waiting.set(uid, entry);
  }
  return { ...next, round, world: round.world, waiting, results: [...next.results, resultOf(outcome)] };
}

/** The other history makes the process decide an object again of which it had remembered the decision. */
const decidedAgain: [Step[], Step[], Step[], boolean] = [
  [
    { is: 'edit', name: 'a', choice: 0 },
    { is: 'edit', name: 'a', choice: 4 },
    { is: 'edit', name: 'b', choice: 0 },
  ],
  [
    { is: 'edit', name: 'b', choice: 0 },
    { is: 'wait', name: 'a', choice: 1 },
  ],
  [
    { is: 'edit', name: 'a', choice: 0 },
    { is: 'wait', name: 'a', choice: 0 },
  ],
  false,
];

it('has the same successors for the same worlds, whichever others it has', () => {
  fc.assert(
    fc.property(steps(30), steps(6), steps(6), fc.boolean(), (past, first, second, isByTurns) => {
      const alone = [first, second].map((future) => [...past, ...future].reduce(played, begin()).results);
      const fork = past.reduce(played, begin());
      let [one, other] = [fork, fork];
      if (isByTurns)
        for (let turn = 0; turn < Math.max(first.length, second.length); turn++) {
          if (turn < second.length) other = played(other, second[turn]!);
          if (turn < first.length) one = played(one, first[turn]!);
        }
      else [other, one] = [second.reduce(played, fork), first.reduce(played, fork)];
      expect([one.results, other.results]).toEqual(alone);
    }),
    { numRuns: caseCount(200), examples: [decidedAgain] },
  );
  for (const [what, times] of Object.entries(seen)) expect.soft(times, what).toBeGreaterThan(0);
});
