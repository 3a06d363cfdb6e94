import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { fleetKind } from '../rules/language/kinds.ts';
import { configObject, configSpec, invalidSpec } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../test/support/manual-timers.ts';
import { publishedFields } from '../test/support/published-fields.ts';
import { ApiError } from './kubernetes/api.ts';
import type { ConfigObject, ConfigStatus, FollowedFleet } from './model/config-object.ts';
import type { LastAcceptedSpec } from './model/decision.ts';
import { unrestrictedOwners } from './model/domain-owners.ts';
import { watchKey } from './model/object-versions.ts';
import { Decider, noPolicy } from './reconcile/decide.ts';
import { countsFor, decide, firstRound, type Round, type RoundOptions, type RoundState } from './round.ts';
import { SchemaStore } from './source/schema-store.ts';
import { unknownWorld, type World } from './world.ts';

let timers: ManualTimers;
let objects: ConfigObject[];
/** Domains of the default fleet, by decision. */
let served: string[][];
/** Statuses of fleets. */
let reported: string[];
/** Statuses of objects to write. */
let offered: string[];
let round: Round;
let world: World;
/** Fields that decisions wait for. */
let doubted: (doubts: ReadonlySet<string>) => void;
let callOff: () => void;
let leads: boolean;
/** How far the wall clock is ahead. */
let aheadMs: number;

beforeEach(() => {
  timers = new ManualTimers();
  aheadMs = 0;
  objects = [];
  served = [];
  reported = [];
  offered = [];
  callOff = () => {};
  doubted = () => {};
  leads = false;
  start();
});

/** What is known from the start on is `news`. */
function start(options: Partial<RoundOptions> = {}, news: Partial<World> = { policy: noPolicy }): void {
  world = unknownWorld;
  round = firstRound({
    decider: new Decider({ mergeDomains: false, domainOwners: unrestrictedOwners }),
    controllerName: undefined,
    ...options,
  });
  learn(news);
}

function learn(news: Partial<World>): void {
  world = { ...world, ...news };
  next();
}

function moment(): RoundState {
  const { nowMs } = timers;
  return { wallMs: nowMs + aheadMs, monotonicMs: nowMs, leads, inFlight: new Set(), isGone: () => false };
}

/** Makes a round, and another one when time alone asks for it. */
function next(): void {
  callOff();
  callOff = () => {};
  const { round: made, outcome } = decide(world, round, moment());
  round = made;
  world = round.world;
  const { decided, doubts, waitMs, fleetStatuses, statuses } = outcome;
  for (const entry of statuses?.entries.values() ?? [])
    if (entry !== undefined) offered.push(`${entry.object.name} ${entry.status.conditions[0]?.reason}`);
  for (const entry of fleetStatuses?.values() ?? [])
    if (entry !== undefined) reported.push(`${entry.object.name} ${entry.status.limiters}`);
  if (decided !== undefined) {
    const resources = decided.decision.fleets.get('default')?.resources ?? [];
    served.push(resources.map(({ domain }) => domain));
  }
  if (doubts !== undefined) doubted(doubts);
  if (waitMs === undefined) return;
  // Timers hold no more.
  expect(waitMs).toBeLessThan(2 ** 31);
  callOff = timers.after(waitMs, next);
}

/** The source shows `objects`. */
function changed(): void {
  learn({ objects: new Map(objects.map((object) => [object.uid, object])) });
}

const shop = (generation: number, spec: unknown): ConfigObject =>
  configObject({ name: 'shop', uid: 'u1', generation, spec });

const known = { domain: {}, descriptors: {} };

describe('decide', () => {
  it('serves nothing before the first complete list', () => {
    learn({ acceptedSpecs: new Map() });
    timers.advance(10_000);
    expect(served).toEqual([]);
    changed();
    timers.advance(10_000);
    expect(served).toEqual([[]]);
  });

  it('has decided versions of objects once all edits until then are decided', () => {
    const all = watchKey(undefined);
    const shown = (version: number, traits: Partial<ConfigObject>) => {
      const object = { ...shop(1, configSpec()), resourceVersion: `${version}`, ...traits };
      learn({ objects: new Map([[object.uid, object]]), objectVersions: { [all]: `${version}` } });
      return round.decidedVersions[all];
    };
    const since = () => round.ledger.since('u1')?.number;
    const status = { observedGeneration: 1, conditions: [] };
    expect(shown(1, {})).toBeUndefined();
    learn({ acceptedSpecs: new Map() });
    timers.advance(1_000);
    expect([round.decidedVersions, since()]).toEqual([{ [all]: '1' }, 1]);
    // A status is no edit.
    expect([shown(2, { status }), since()]).toEqual(['2', 1]);
    const found = [3, 4].map((version) => {
      const before = shown(version, { status, generation: version });
      timers.advance(1_000);
      return [
        before,
        round.decidedVersions[all],
        since(),
        round.ledger.decidedAt({ [all]: `${version - 1}` }),
      ];
    });
    expect(found).toEqual([
      ['2', '3', 2, 1],
      ['3', '4', 3, 2],
    ]);
    // Labels may have changed, and changed back.
    shown(5, { status, generation: 4 });
    timers.advance(1_000);
    expect(since()).toBe(4);
  });

  it('has nothing left to do once it has decided', () => {
    learn({ acceptedSpecs: new Map(), fleets: [] });
    changed();
    timers.advance(50);
    expect([served, timers.size]).toEqual([[[]], 0]);
  });

  it('reports on fleets while this replica leads, at most once a second', () => {
    const fleet = (count: number): FollowedFleet => ({
      object: {
        ...{ kind: fleetKind, namespace: 'weir-system', name: 'edge', uid: 'u' },
        ...{ generation: 1, status: undefined },
        spec: { count, disconnectedGraceSeconds: 30, onDisconnected: 'Unknown' },
      },
      problem: undefined,
    });
    learn({ acceptedSpecs: new Map(), fleets: [fleet(1)] });
    changed();
    timers.advance(5_000);
    expect(reported).toEqual([]);
    leads = true;
    for (const count of [2, 3, 4]) {
      learn({ leads, fleets: [fleet(count)] });
      timers.advance(300);
    }
    timers.advance(5_000);
    expect(reported).toEqual(['edge 0/2', 'edge 0/4']);
  });

  it('serves nothing before it knows what has to stay in force', () => {
    objects = [shop(2, invalidSpec())];
    changed();
    timers.advance(10_000);
    expect(served).toEqual([]);
    learn({ acceptedSpecs: new Map([['u1', { generation: 1, spec: configSpec({ domain: 'shop' }) }]]) });
    timers.advance(10_000);
    expect(served).toEqual([['shop']]);
  });

  it('serves nothing before it knows which namespaces may use which domains', () => {
    start({}, {});
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(10_000);
    expect(served).toEqual([]);
    learn({ policy: noPolicy });
    timers.advance(100);
    expect(served).toEqual([[]]);
  });

  it('serves nothing that newer schemas may say otherwise', () => {
    const doubts: string[] = [];
    doubted = (found) => doubts.push(...found);
    const schemas = new Map([['RateLimitConfig', { properties: known }]]);
    start({}, { acceptedSpecs: new Map(), confirmed: new Set(), policy: { ...noPolicy, schemas } });
    objects = [shop(1, { ...configSpec({ domain: 'shop' }), plain: true })];
    changed();
    timers.advance(10_000);
    expect([served, round.decision]).toEqual([[], undefined]);
    expect(doubts).toEqual(['RateLimitConfig spec.plain']);
    learn({ confirmed: new Set(doubts), policy: { ...noPolicy, schemas } });
    timers.advance(100);
    expect(served).toEqual([['shop']]);
  });

  it.each([
    ['has no default', () => publishedFields({ ...known, plain: {} }), 3],
    ['is not published', () => publishedFields(known), 0],
    ['cannot be looked up', () => new ApiError({ status: 503, reason: '', message: 'away' }), 0],
  ])(
    'decides on all objects at its pace while one is edited over and over whose unknown field %s',
    async (_, answer, first) => {
      const waitFor = (ms: number) => new Promise<void>((resolve) => void timers.after(ms, resolve));
      const request = async () => {
        await waitFor(15);
        const given = answer();
        if (given instanceof ApiError) throw given;
        return given;
      };
      const schemas: SchemaStore = new SchemaStore({
        ...recordedTelemetry(),
        client: { request: request as never, denied: undefined },
        clock: { monotonicMs: () => timers.nowMs },
        timers,
        changed: () => learn({ policy: policy(), confirmed: schemas.confirmed }),
      });
      const policy = () => schemas.schemas && { ...noPolicy, schemas: schemas.schemas };
      doubted = (doubts) => schemas.confirm(doubts);
      start({}, { confirmed: schemas.confirmed });
      learn({ acceptedSpecs: new Map() });
      changed();
      schemas.start();
      const spec = { ...configSpec({ domain: 'shop' }), plain: true };
      const run = async (ms: number, edit: () => void) => {
        for (const endMs = timers.nowMs + ms; timers.nowMs < endMs; ) {
          if (timers.nowMs % 60 === 0) edit();
          timers.advance(5);
          await turn();
        }
      };
      await run(60, () => {});
      const edit = (others: ConfigObject[]) => () => {
        objects = [shop(timers.nowMs, spec), ...others];
        changed();
      };
      await run(240, edit([]));
      expect(served.length).toBeGreaterThan(first);
      await run(960, edit([]));
      const before = served.length;
      const mail = configObject({ name: 'mail', uid: 'u2', spec: configSpec({ domain: 'mail' }) });
      await run(1_200, edit([mail]));
      expect(served.length - before).toBeGreaterThanOrEqual(11);
      expect(served.at(-1)).toEqual(['mail', 'shop']);
      schemas.close();
    },
  );

  it('decides again when an override ends, also after longer than timers hold', () => {
    const days = 86_400_000;
    const decider = new Decider({ mergeDomains: false, domainOwners: unrestrictedOwners });
    const ending = Object.assign(decider, {
      decide: (...args: Parameters<Decider['decide']>) => ({
        ...Decider.prototype.decide.apply(decider, args),
        dueMs: timers.nowMs < 30 * days ? 30 * days : undefined,
      }),
    });
    start({ decider: ending });
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(30 * days - 1);
    expect(served).toHaveLength(1);
    timers.advance(100);
    expect(served).toHaveLength(2);
    timers.advance(2_000);
    expect(timers.size).toBe(0);
  });

  it('lets a new leader wait no longer for limiters because its clock is set back', () => {
    const object = shop(1, configSpec({ domain: 'shop' }));
    const lead = (status?: ConfigObject['status']): void => {
      leads = true;
      objects = [{ ...object, status }];
      start({ controllerName: 'ours' }, { policy: noPolicy, acceptedSpecs: new Map(), leads: true });
      changed();
      timers.advance(1_000);
    };
    lead();
    const { hash, fleet, domain } = round.decision!.outcomes.get('u1')!.served!;
    const accepted = round.board.evaluated.get('u1')!.status.conditions[0]!;
    const programmed = { ...accepted, type: 'Programmed', reason: 'AllLimiters', message: '' } as const;
    aheadMs = 3_600_000;
    offered = [];
    lead({
      ...{ observedGeneration: 1, controllerName: 'ours', domain, fleet, rules: 1 },
      ...{ servedVersion: hash, servedGeneration: 1, conditions: [accepted, programmed] },
    });
    expect(offered).toEqual([]);
    aheadMs = 0;
    timers.advance(13_000);
    expect(offered).toEqual([]);
    timers.advance(2_000);
    expect(offered).toEqual(['shop Valid']);
  });

  it('takes objects for the newest a second after they are reachable', () => {
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(100);
    learn({ isWatchCut: true });
    expect(round.isCutOff).toBe(true);
    learn({ isWatchCut: false });
    timers.advance(999);
    learn({ isWatchCut: true });
    learn({ isLeaseCut: true });
    timers.advance(10_000);
    learn({ isWatchCut: false });
    timers.advance(10_000);
    expect(round.isCutOff).toBe(true);
    learn({ isLeaseCut: false });
    timers.advance(999);
    expect(round.isCutOff).toBe(true);
    expect(served).toHaveLength(1);
    timers.advance(200);
    expect(round.isCutOff).toBe(false);
    expect(served).toHaveLength(2);
  });

  it('serves what is stored again that it forgot by old objects, once it has the newest', () => {
    const holder = configObject({
      name: 'mail',
      uid: 'u2',
      createdMs: -1,
      spec: configSpec({ domain: 'shop' }),
    });
    learn({ acceptedSpecs: new Map() });
    objects = [holder, shop(3, configSpec({ domain: 'shop' }))];
    changed();
    timers.advance(100);
    learn({ isWatchCut: true });
    learn({ acceptedSpecs: new Map([['u1', { generation: 3, spec: configSpec({ domain: 'shop' }) }]]) });
    timers.advance(100);
    expect(round.specs.persisted.size).toBe(0);
    objects = [shop(4, invalidSpec())];
    changed();
    learn({ isWatchCut: false });
    timers.advance(1_200);
    expect(served.at(-1)).toEqual(['shop']);
    expect(round.specs.persisted.get('u1')?.generation).toBe(3);
  });

  it('leaves the last accepted rules in force', () => {
    learn({ acceptedSpecs: new Map() });
    objects = [shop(1, configSpec({ domain: 'shop' }))];
    changed();
    timers.advance(100);
    objects = [shop(2, invalidSpec())];
    changed();
    timers.advance(100);
    expect(served).toEqual([['shop'], ['shop']]);
    expect(round.specs.persisted.get('u1')?.generation).toBe(1);
    objects = [];
    changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual([]);
    expect(round.specs.persisted.size).toBe(0);
  });

  it('keeps what is stored of an object that is read later, or was read at an older generation', () => {
    learn({ acceptedSpecs: new Map([['u1', { generation: 2, spec: configSpec({ domain: 'two' }) }]]) });
    const show = (...now: ConfigObject[]): void => {
      objects = now;
      changed();
      timers.advance(100);
    };
    changed();
    show();
    show(shop(1, configSpec({ domain: 'one' })));
    show(shop(1, configSpec({ domain: 'one' })));
    show(shop(3, invalidSpec()));
    expect(served.at(-1)).toEqual(['two']);
    show(shop(4, configSpec({ domain: 'four' })));
    show(shop(5, invalidSpec()));
    expect(served.at(-1)).toEqual(['four']);
  });

  it('serves what is stored of an object of which it alone accepted a newer generation', () => {
    learn({ acceptedSpecs: new Map() });
    objects = [shop(1, configSpec({ domain: 'one' }))];
    changed();
    timers.advance(100);
    const status = {
      observedGeneration: 1,
      domain: 'two',
      fleet: 'default',
      servedGeneration: 1,
      conditions: [],
    };
    const mail = configObject({ name: 'mail', uid: 'u2', generation: 2, spec: invalidSpec(), status });
    objects = [shop(3, configSpec({ domain: 'two' })), mail];
    changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual(['two']);
    const stored = { u1: { generation: 2, spec: configSpec({ domain: 'one' }) } };
    const ofMail = { generation: 1, spec: configSpec({ domain: 'two' }) };
    learn({ acceptedSpecs: new Map([...Object.entries(stored), ['u2', ofMail]]) });
    timers.advance(100);
    expect(served.slice(2)).toEqual([['two', 'one']]);
    expect(round.specs.persisted.get('u1')?.generation).toBe(2);
  });

  describe('of an object that is in force by its status, at a generation whose spec is not stored', () => {
    const status = (controllerName: string, servedGeneration: number) => ({
      ...{ observedGeneration: servedGeneration, controllerName, domain: 'shop', fleet: 'default' },
      ...{ servedGeneration, conditions: [] },
    });
    const begin = (
      written: ReturnType<typeof status> | undefined,
      stored: World['acceptedSpecs'] = new Map(),
    ): void => {
      start({ controllerName: 'ours' });
      objects = [{ ...shop(3, invalidSpec()), status: written }];
      learn({ acceptedSpecs: stored });
      changed();
      timers.advance(29_000);
    };

    it('waits for a replica that knows it', () => {
      begin(status('ours', 2));
      expect([served, round.decision]).toEqual([[], undefined]);
      learn({ acceptedSpecs: new Map([['u1', { generation: 2, spec: configSpec({ domain: 'shop' }) }]]) });
      timers.advance(100);
      expect(served).toEqual([['shop']]);
      timers.advance(2_000);
      expect(timers.size).toBe(0);
    });

    it('does not replace it by an earlier generation, which is its stored fallback, while it waits', () => {
      const fallback = { generation: 1, spec: configSpec({ domain: 'shop' }) };
      const generation = () => round.decision?.outcomes.get('u1')?.served?.generation;
      begin(status('ours', 2), new Map([['u1', fallback]]));
      expect(generation()).toBeUndefined();
      const known = {
        generation: 2,
        spec: configSpec({ domain: 'shop', algorithm: 'SlidingWindow' }),
        fallback,
      };
      learn({ acceptedSpecs: new Map([['u1', known]]) });
      timers.advance(100);
      expect(generation()).toBe(2);
      begin(status('ours', 2), new Map([['u1', fallback]]));
      timers.advance(2_000);
      expect(generation()).toBe(1);
    });

    it('waits for half a minute at most, once', () => {
      begin(status('ours', 2));
      timers.advance(2_000);
      expect(served).toEqual([[]]);
      objects = [{ ...shop(4, invalidSpec()), status: status('ours', 2) }];
      changed();
      timers.advance(100);
      expect(served).toEqual([[], []]);
    });

    it('remembers what is accepted while it waits', () => {
      begin(status('ours', 2));
      const mail = configObject({ name: 'mail', uid: 'u2', spec: configSpec({ domain: 'mail' }) });
      objects = [...objects, mail];
      changed();
      timers.advance(100);
      objects = [objects[0]!, { ...mail, generation: 2, spec: invalidSpec() }];
      changed();
      timers.advance(2_000);
      expect(served).toEqual([['mail']]);
    });

    it.each([
      ['by nobody', undefined],
      ['by another control plane', status('theirs', 2)],
      ['at this generation', status('ours', 3)],
    ])('waits for nothing if it is in force %s', (_, written) => {
      begin(written);
      expect(served).toEqual([[]]);
    });
  });

  it('keeps what is stored of an object that was not accepted at the generation that was read before', () => {
    learn({ acceptedSpecs: new Map() });
    objects = [shop(1, invalidSpec())];
    changed();
    timers.advance(100);
    learn({ acceptedSpecs: new Map([['u1', { generation: 2, spec: configSpec({ domain: 'two' }) }]]) });
    timers.advance(100);
    objects = [shop(3, invalidSpec())];
    changed();
    timers.advance(100);
    expect(served.at(-1)).toEqual(['two']);
  });

  describe('of an object that left and came back unseen', () => {
    const noStatus = { observedGeneration: 4, controllerName: 'ours', conditions: [] };
    const stored = new Map([['u1', { generation: 2, spec: configSpec({ domain: 'shop' }) }]]);
    const show = (object: ConfigObject): void => {
      objects = [object];
      changed();
      timers.advance(200);
    };
    const returned = (status: ConfigStatus | undefined) => ({ ...shop(4, invalidSpec()), status });
    const store = (kept: typeof stored): void => {
      learn({ acceptedSpecs: kept });
      timers.advance(200);
    };
    beforeEach(() => {
      start({ controllerName: 'ours' });
      learn({ acceptedSpecs: stored });
      show(shop(3, invalidSpec()));
      expect(served).toEqual([['shop']]);
    });

    it.each(['last', 'first'])(
      'forgets its spec as others have, which deleted the stored one %s',
      (order) => {
        if (order === 'first') store(new Map());
        else show(returned(noStatus));
        expect(served.at(-1)).toEqual(['shop']);
        if (order === 'first') show(returned(noStatus));
        else store(new Map());
        expect([served.at(-1), round.specs.known.size, round.specs.persisted.size]).toEqual([[], 0, 0]);
        expect(round.specs.differences.size).toBe(0);
      },
    );

    it.each<[string, ConfigStatus | undefined]>([
      ['has no status', undefined],
      ['is another control plane’s by its status', { ...noStatus, controllerName: 'theirs' }],
      ['has a status of an earlier generation', { ...noStatus, observedGeneration: 3 }],
      ['is in force by its status', { ...noStatus, servedGeneration: 2 }],
    ])('remembers the spec that is stored no longer if the object %s', (_, status) => {
      store(new Map());
      show(returned(status));
      expect([served.at(-1), round.specs.persisted.get('u1')?.generation]).toEqual([['shop'], 2]);
    });

    it('remembers a spec that is newer than the stored one was', () => {
      show(shop(4, configSpec({ domain: 'newer' })));
      store(new Map());
      show({ ...shop(5, invalidSpec()), status: { ...noStatus, observedGeneration: 5 } });
      expect([served.at(-1), round.specs.persisted.get('u1')?.generation]).toEqual([['newer'], 4]);
    });

    it('remembers a spec that is stored again', () => {
      store(new Map());
      store(stored);
      show(returned(noStatus));
      expect([served.at(-1), round.specs.persisted.get('u1')?.generation]).toEqual([['shop'], 2]);
    });
  });

  it.each([
    ['stored', 3, invalidSpec()],
    ['stored later', 2, configSpec({ domain: 'shop' })],
  ])(
    'serves the %s spec of an object that left and came back if the leader did not see that',
    (_, generation, spec) => {
      const stored = new Map([['u1', { generation: 2, spec: configSpec({ domain: 'shop' }) }]]);
      const isStored = generation === 3;
      learn({ acceptedSpecs: isStored ? stored : new Map() });
      for (const shown of [[shop(generation, spec)], [], [shop(4, invalidSpec())]]) {
        objects = shown;
        changed();
        timers.advance(200);
      }
      if (!isStored) {
        expect(served.at(-1)).toEqual([]);
        learn({ acceptedSpecs: stored });
        timers.advance(200);
      }
      expect(served).toEqual([['shop'], [], ...(isStored ? [] : [[]]), ['shop']]);
      expect(round.specs.persisted.get('u1')?.generation).toBe(2);
    },
  );

  describe('of an object whose fallback changed unseen', () => {
    const plain = (requestsPerUnit: number) => configSpec({ domain: 'shop', requestsPerUnit });
    const sliding = configSpec({ domain: 'shop', algorithm: 'SlidingWindow' });
    const decided = { observedGeneration: 4, controllerName: 'ours', conditions: [] };
    const first = { generation: 1, spec: plain(1) };
    const show = (object: ConfigObject): void => {
      objects = [object];
      changed();
      timers.advance(200);
    };
    const store = (...kept: LastAcceptedSpec[]): void => {
      learn({ acceptedSpecs: new Map(kept.map((spec) => ['u1', spec])) });
      timers.advance(200);
    };
    const fallback = () => round.decision?.outcomes.get('u1')?.served?.fallback?.generation;
    const returned = (status: ConfigStatus | undefined = decided) => ({ ...shop(4, sliding), status });
    beforeEach(() => {
      start({ controllerName: 'ours' });
      learn({ acceptedSpecs: new Map() });
      show(shop(1, plain(1)));
      show(shop(2, sliding));
      store(first);
      expect([fallback(), round.specs.persisted.get('u1')?.generation]).toEqual([1, 1]);
    });

    it.each(['last', 'first'])('serves the fallback of the others, which stored it %s', (order) => {
      const stored = { generation: 3, spec: plain(3) };
      if (order === 'first') store(stored);
      show(returned());
      if (order === 'last') store(stored);
      expect([fallback(), round.specs.persisted.get('u1')?.generation]).toEqual([3, 3]);
    });

    it.each(['last', 'first'])('drops the fallback as others have, which deleted it %s', (order) => {
      if (order === 'first') store();
      show(returned());
      if (order === 'last') store();
      expect(fallback()).toBe(1);
      timers.advance(5_000);
      expect([fallback(), round.specs.persisted.size]).toEqual([undefined, 0]);
      expect([round.specs.known.get('u1')?.generation, served.at(-1)]).toEqual([4, ['shop']]);
    });

    it.each<[string, ConfigStatus | undefined]>([
      ['has no status', undefined],
      ['is another control plane’s by its status', { ...decided, controllerName: 'theirs' }],
      ['has a status of an earlier generation', { ...decided, observedGeneration: 3 }],
    ])('retains the fallback that is no longer stored while the object %s', (_, status) => {
      store();
      show({ ...shop(4, sliding), status });
      timers.advance(20_000);
      expect(fallback()).toBe(1);
      show(returned());
      timers.advance(5_000);
      expect(fallback()).toBeUndefined();
    });

    it('retains a fallback that is stored again soon', () => {
      show(returned());
      store();
      timers.advance(4_000);
      store(first);
      timers.advance(20_000);
      expect(fallback()).toBe(1);
    });

    it('retains a fallback that is newer than the one that is no longer stored', () => {
      store();
      show(shop(3, plain(3)));
      show(returned());
      timers.advance(20_000);
      expect(fallback()).toBe(3);
    });

    it('retains the fallback of a leader, which stores it again', () => {
      leads = true;
      show(returned());
      store();
      timers.advance(20_000);
      expect(fallback()).toBe(1);
    });

    it('has no fallback if another replica stored the same generation without one', () => {
      show(returned());
      show(shop(5, invalidSpec()));
      expect(fallback()).toBe(1);
      store({ generation: 4, spec: sliding });
      expect([fallback(), round.specs.persisted.get('u1')?.fallback]).toEqual([undefined, undefined]);
    });
  });

  it('does not return to what another replica stored earlier', () => {
    learn({ acceptedSpecs: new Map() });
    objects = [shop(3, configSpec({ domain: 'shop' }))];
    changed();
    timers.advance(100);
    objects = [shop(4, invalidSpec())];
    learn({ acceptedSpecs: new Map([['u1', { generation: 1, spec: configSpec({ domain: 'old' }) }]]) });
    timers.advance(100);
    expect(served.at(-1)).toEqual(['shop']);
  });

  it('decides a storm of changes ten times a second once two of them were decided at once', () => {
    learn({ acceptedSpecs: new Map() });
    changed();
    for (let i = 0; i < 1_000; i++) {
      objects = [shop(i, configSpec())];
      changed();
      timers.advance(1);
    }
    timers.advance(1_000);
    expect(served).toHaveLength(13);
  });

  it('decides on a status that somebody else wrote, and not on its own', () => {
    start({ controllerName: 'ours' });
    learn({ acceptedSpecs: new Map() });
    const object = { ...shop(1, configSpec()), resourceVersion: '1' };
    const show = (status: ConfigStatus, resourceVersion: string): void => {
      objects = [{ ...object, status, resourceVersion }];
      changed();
      timers.advance(500);
    };
    objects = [object];
    changed();
    timers.advance(500);
    const write = { object, status: { observedGeneration: 1, controllerName: 'ours', conditions: [] } };
    learn({ writes: world.writes.begun(write) });
    show(write.status, '2');
    expect(served).toHaveLength(1);
    show({ ...write.status, controllerName: 'theirs' }, '3');
    expect(served).toHaveLength(2);
  });

  it('reports that an object is no longer watched, although no other object changes', () => {
    start({ controllerName: 'ours' });
    leads = true;
    learn({ leads, acceptedSpecs: new Map() });
    changed();
    timers.advance(60_000);
    expect(offered).toEqual([]);
    const status = { observedGeneration: 1, controllerName: 'ours', conditions: [] };
    learn({ left: [{ ...shop(1, configSpec()), resourceVersion: '1', status }] });
    timers.advance(200);
    expect(offered).toEqual(['shop NotWatched']);
  });

  it('leaves the round before as it was, so that another future may follow from it', () => {
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(1_000);
    const before = { ...round, rhythms: { ...round.rhythms } };
    const at = moment();
    const news = { ...world, objects: new Map([['u1', shop(1, configSpec())]]) };
    const one = decide(news, round, at);
    expect(round).toEqual(before);
    expect(one.round.rhythms.snapshots.dueMs).toBe(timers.nowMs + 5);
    // Nothing has happened in this future, and the same in that one.
    expect(decide(world, round, at).round.rhythms.snapshots.dueMs).toBeUndefined();
    const other = decide(news, round, at);
    expect(other.outcome).toEqual(one.outcome);
    const later = { ...at, monotonicMs: at.monotonicMs + 5, wallMs: at.wallMs + 5 };
    expect(decide(news, one.round, later).outcome.decided).toBeDefined();
    expect(decide(news, other.round, later).outcome.decided).toBeDefined();
  });

  it('decides the same again from the same round, and also with an empty cache', () => {
    const options = { mergeDomains: false, domainOwners: unrestrictedOwners };
    const spec = (domain: string) => configSpec({ domain });
    const mail = configObject({ name: 'mail', uid: 'u2', spec: spec('mail') });
    const reportOf = (acceptedVersion: string | undefined) => {
      const traits = {
        isWeir: true,
        countsCompatibly: true,
        capabilities: [],
        connectedMs: 0,
        refusal: undefined,
      };
      const limiter = { id: '1', instance: 'a', name: 'a', fleet: 'default', acceptedVersion, ...traits };
      return [{ replica: 'r', limiters: [limiter] }];
    };
    const summary = ({ round: made, outcome }: ReturnType<typeof decide>) => ({
      isDecided: outcome.decided !== undefined,
      versions: [...(made.decision?.fleets ?? [])].map(([fleet, { version }]) => [fleet, version]),
      outcomes: [...(made.decision?.outcomes ?? [])]
        .map(([uid, { accepted, served }]) => [uid, accepted, served?.generation, made.ledger.since(uid)])
        .sort(),
      specs: [[...made.specs.known], [...made.specs.persisted]],
      standing: made.limiters.fleet('default').of({ number: 1, ms: 0, needs: [] }),
    });
    const show = (...list: ConfigObject[]): Partial<World> => ({
      objects: new Map(list.map((object) => [object.uid, object])),
    });
    const steps: (() => Partial<World>)[] = [
      () => ({ acceptedSpecs: new Map(), ...show(shop(1, spec('shop')), mail) }),
      () => ({ reports: reportOf(undefined) }),
      () => ({ reports: reportOf(round.decision?.fleets.get('default')?.version) }),
      () => show(shop(2, invalidSpec()), mail),
      () => show(shop(3, spec('mail')), mail),
      () => show(shop(4, spec('shop')), { ...mail, spec: spec('other'), generation: 2 }),
      () => ({ acceptedSpecs: new Map([['u2', { generation: 3, spec: spec('late') }]]) }),
      () => show(shop(4, spec('shop'))),
      () => ({ reports: [] }),
    ];
    let decisions = 0;
    for (const step of steps) {
      world = { ...world, ...step() };
      for (let i = 0; i < 3; i++) {
        const at = moment();
        const before = summary({ round, outcome: { isEdited: false, shared: {}, waitMs: undefined } });
        const first = decide(world, round, at);
        const again = decide(world, round, at);
        const emptied = { ...round, options: { ...round.options, decider: new Decider(options) } };
        expect(summary(again)).toEqual(summary(first));
        expect(summary(decide(world, emptied, at))).toEqual(summary(first));
        expect(summary({ round, outcome: { isEdited: false, shared: {}, waitMs: undefined } })).toEqual(
          before,
        );
        decisions += Number(first.outcome.decided !== undefined);
        round = first.round;
        timers.advance(150);
      }
    }
    expect(decisions).toBe(6);
  });

  it('counts a limiter that rejects a part of a snapshot for the objects in that part', () => {
    objects = [shop(1, configSpec({ domain: 'one' }))];
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(1_000);
    const { outcomes, fleets } = round.decision!;
    const { version } = fleets.get('default')!;
    const reportOf = (name: string) => ({
      ...{ id: '1', instance: 'a', name: 'a', fleet: 'default', isWeir: true, countsCompatibly: true },
      ...{ capabilities: [], connectedMs: 0, acceptedVersion: undefined },
      refusal: { version, message: 'no', resources: [{ name, message: 'no' }] },
    });
    const counts = [outcomes.get('u1')!.served!.resource, 'another'].map((name) => {
      learn({ reports: [{ replica: 'r', limiters: [reportOf(name)] }] });
      timers.advance(1_000);
      return countsFor(round, objects[0]!);
    });
    expect(counts).toEqual([
      { inForce: 0, refused: 1, total: 1 },
      { inForce: 1, refused: 0, total: 1 },
    ]);
  });

  it('keeps joined specs with the round that joined them', () => {
    learn({ acceptedSpecs: new Map() });
    changed();
    timers.advance(1_000);
    const at = moment();
    const kept = new Map([['u9', { generation: 2, spec: configSpec({ domain: 'two' }) }]]);
    const { round: joined } = decide({ ...world, acceptedSpecs: kept }, round, at);
    expect([[...round.specs.known.keys()], [...joined.specs.known.keys()]]).toEqual([[], ['u9']]);
    const later = { ...at, monotonicMs: at.monotonicMs + 5 };
    const { round: decided } = decide({ ...world, acceptedSpecs: kept }, joined, later);
    expect([[...joined.specs.known.keys()], [...decided.specs.known.keys()]]).toEqual([['u9'], []]);
  });
});
