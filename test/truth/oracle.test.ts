import { describe, expect, it } from 'vitest';
import { Oracle, type SeenLimiter, type SeenObject, type Sight, unsettled } from './oracle.ts';

const ownName = 'weir-system/weir-control-plane';

function object(traits: Partial<SeenObject> = {}): SeenObject {
  return {
    isOverride: false,
    endsMs: undefined,
    key: 'team-a/shop',
    uid: 'u1',
    age: '1',
    generation: 2,
    fleet: 'default',
    domain: 'shop',
    number: 7,
    isOurs: true,
    isValid: true,
    isReady: true,
    says: 'Ready=True Ready',
    controllerName: ownName,
    changedMs: 0,
    claimsSinceMs: 0,
    ...traits,
  };
}

const waiting: Partial<SeenObject> = { isReady: false, says: 'Ready=False Pending' };

function limiter(number: number | undefined, traits: Partial<SeenLimiter> = {}): SeenLimiter {
  const answers = new Map(number === undefined ? [] : [['shop', number]]);
  return {
    name: 'lim-0',
    fleet: 'default',
    isExpected: true,
    isHeard: true,
    answers,
    stoppedMs: undefined,
    aloneMs: undefined,
    ...traits,
  };
}

const still: Partial<SeenLimiter> = { answers: undefined, isHeard: false };

/** The same for so many seconds; what is wrong at the end of them. */
function after(seconds: number, sight: Partial<Sight>, perSecond: Partial<Sight> = {}): string[] {
  const oracle = new Oracle(ownName);
  let found: string[] = [];
  for (let atMs = 0; atMs <= seconds * 1_000; atMs += 1_000) {
    const stalledMs = ((perSecond.stalledMs ?? 0) * atMs) / 1_000;
    const whole = {
      objects: [object()],
      limiters: [limiter(7)],
      graceUntilMs: -1,
      ...sight,
      atMs,
      stalledMs,
    };
    found = oracle.look(whole).map(({ what }) => what);
  }
  return found;
}

describe('the oracle of the truth test', () => {
  it('finds an override that outlives its end by over 2 s, whichever replica leads', () => {
    const ended = object({ isOverride: true, endsMs: 10_000, isReady: false, says: 'Ready=False Expired' });
    expect(after(12, { objects: [ended], graceUntilMs: 60_000 })).toEqual([]);
    expect(after(13, { objects: [ended], graceUntilMs: 60_000 })).toEqual([
      'ended 3.0 s ago, but lim-0 has it',
    ]);
    expect(after(60, { objects: [ended], limiters: [limiter(undefined)] })).toEqual([]);
    const believed = { ...ended, isReady: true, says: 'Ready=True Ready' };
    expect(after(13, { objects: [believed], limiters: [limiter(undefined)] })).toHaveLength(1);
  });

  it('judges no override that has ended by the clock of a replica, before its end', () => {
    const ending = object({ isOverride: true, endsMs: 10_000 });
    const early = { objects: [ending], limiters: [limiter(8, { latestMs: 11_000 })] };
    expect(after(9, early)).toEqual([]);
    expect(after(13, early)).toHaveLength(1);
    expect(after(9, { ...early, limiters: [limiter(8, { latestMs: 9_999 })] })).toHaveLength(1);
    const next = object({ isOverride: true, ...waiting });
    const ahead = { objects: [next], limiters: [limiter(7, { latestMs: 11_000 })] };
    expect(after(9, ahead)).toEqual([]);
    expect(after(20, ahead)).toHaveLength(1);
  });

  it('finds it although the end is reckoned a little differently at each look', () => {
    const oracle = new Oracle(ownName);
    const found = Array.from({ length: 5 }, (_, index) => {
      const objects = [object({ isOverride: true, endsMs: 500 + index / 10, isReady: false })];
      const sight = { objects, limiters: [limiter(7)], graceUntilMs: -1, stalledMs: 0 };
      return oracle.look({ ...sight, atMs: 1_000 * (index + 1) }).length;
    });
    expect(found).toEqual([0, 0, 0, 1, 1]);
  });

  it.each([
    ['by a limiter that is alone', [7, 7, undefined, undefined], 500, 1],
    ['not by one that hears of it', [7, 7, undefined], undefined, 0],
    ['not by one that never had it', [undefined, undefined, undefined], 500, 0],
    ['not before the end', [7, undefined, undefined], 500, 0],
    ['not while it goes on', [7, 7, 7], 500, 0],
  ] as const)('counts the end of an override %s', (_, numbers, aloneMs, count) => {
    const oracle = new Oracle(ownName);
    const objects = [object({ isOverride: true, endsMs: 2_500 })];
    for (const [index, number] of numbers.entries()) {
      const limiters = [limiter(number, { aloneMs })];
      oracle.look({ atMs: 1_000 * (index + 1), objects, limiters, graceUntilMs: -1, stalledMs: 0 });
    }
    expect(oracle.looks.endedAlone).toBe(count);
  });

  it('finds an override wrong that has ended and does not say so, when all is healed', () => {
    const sight = (traits: Partial<SeenObject>, number?: number): Sight => ({
      ...{ atMs: 10_000, graceUntilMs: 0, stalledMs: 0 },
      objects: [object({ isOverride: true, endsMs: 9_000, isReady: false, ...traits })],
      limiters: [limiter(number)],
    });
    const found = (one: Sight) => unsettled(one, new Map(), () => 'u1').join();
    expect(found(sight({ says: 'Ready=False Expired' }))).toBe('');
    expect(found(sight({ says: 'Ready=False Expired' }, 7))).toContain('has ended, and limiters have it');
    expect(found(sight({ says: 'Ready=Unknown Disconnected' }))).toContain('has ended, and is Ready=Unknown');
  });

  it('finds Ready=True wrong when a limiter decides differently for over 2 s', () => {
    expect(after(2, { limiters: [limiter(6)] })).toEqual([]);
    expect(after(3, { limiters: [limiter(7), limiter(6, { name: 'lim-1' })] })).toEqual([
      'Ready=True of generation 2 (shop: 7) for 3.0 s, but lim-1 has 6',
    ]);
    expect(after(3, { limiters: [limiter(undefined)] })[0]).toContain('lim-0 has no limit');
    expect(after(60, { limiters: [limiter(7)] })).toEqual([]);
  });

  it('asks nothing of a limiter that is not expected, of another fleet, or that does not answer', () => {
    for (const traits of [{ isExpected: false }, { fleet: 'edge' }, still])
      expect(after(60, { limiters: [limiter(6, traits)] })).toEqual([]);
  });

  it('treats a replica that is paused as one without anything newer', () => {
    const limiters = [limiter(7, { ...still, stoppedMs: 5 })];
    expect(after(60, { limiters })).toEqual([]);
    expect(after(3, { limiters, objects: [object({ changedMs: 6 })] })[0]).toContain(
      'lim-0 stood still before',
    );
  });

  it('finds a status late when all limiters that are expected run the present rules for over 5 s', () => {
    const objects = [object(waiting)];
    expect(after(5, { objects })).toEqual([]);
    expect(after(6, { objects })).toEqual([
      'Ready=False Pending, although lim-0 have generation 2 (shop: 7) for 6.0 s',
    ]);
    for (const traits of [{ isOurs: false }, { controllerName: 'another/one' }])
      expect(after(60, { objects: [object({ ...waiting, ...traits })] })).toEqual([]);
    const unready = limiter(undefined, { name: 'lim-1', isExpected: false });
    for (const limiters of [
      [],
      [limiter(6)],
      [limiter(7), unready],
      [limiter(7), limiter(7, { isHeard: false })],
    ])
      expect(after(60, { objects, limiters })).toEqual([]);
  });

  it('counts neither the time in which there may be no leader, nor its own stalls', () => {
    const wrong = { limiters: [limiter(6)] };
    expect(after(22, { ...wrong, graceUntilMs: 20_000 })).toEqual([]);
    expect(after(23, { ...wrong, graceUntilMs: 20_000 })).toHaveLength(1);
    expect(after(4, wrong, { stalledMs: 500 })).toEqual([]);
    expect(after(5, wrong, { stalledMs: 500 })).toHaveLength(1);
  });
});

describe('a quiet moment', () => {
  const at = (objects: SeenObject[], limiters: SeenLimiter[], former: SeenObject[] = []): string[] => {
    const sight = { atMs: 0, objects, limiters, graceUntilMs: 0, stalledMs: 0 };
    const uids = new Map([
      [6, 'u1'],
      [7, 'u1'],
      [8, 'u2'],
    ]);
    return unsettled(sight, new Map(former.map((one) => [one.uid, one])), (number) => uids.get(number));
  };
  const loser = object({
    ...waiting,
    key: 'team-b/shop',
    uid: 'u2',
    number: 8,
    says: 'Ready=False DomainConflict',
  });

  it('is one when each domain is its holder’s, and the others say so', () => {
    expect(at([object(), loser], [limiter(7), limiter(7, { name: 'lim-1' })])).toEqual([]);
  });

  it('is none while something is missing, left over, or somebody else’s', () => {
    expect(at([object()], [limiter(7), limiter(undefined, { name: 'lim-1' })])).toHaveLength(1);
    expect(at([object()], [limiter(7, still)])).toContain('lim-0 does not answer');
    expect(at([object(waiting)], [limiter(7)])[0]).toContain('is Ready=False Pending');
    expect(at([object({ isOurs: false, isReady: false })], [limiter(7)])).toHaveLength(2);
    expect(at([object(), loser], [limiter(8)]).length).toBeGreaterThan(0);
    expect(at([], [limiter(7)])).toEqual(['lim-0 has 7 for shop, of u1']);
    expect(at([object({ isValid: false, ...waiting })], [limiter(6)])[0]).toContain('is invalid');
    expect(at([loser], [limiter(undefined)])[0]).toContain('DomainConflict');
  });

  it('is none when a holder lost its domain to another one', () => {
    const winner = object({ key: 'team-b/shop', uid: 'u2', number: 8 });
    const former = object();
    const now = object({ isReady: false, says: 'Ready=False DomainConflict' });
    expect(at([now, winner], [limiter(8)])).toEqual([]);
    expect(at([now, winner], [limiter(8)], [former])[0]).toContain('lost its domain');
    expect(at([{ ...now, claimsSinceMs: 5 }, winner], [limiter(8)], [former])).toEqual([]);
  });

  it('is none when an override lost its place to an older one, and one when to a younger one', () => {
    const traits = { isOverride: true, age: '2' };
    const lost = object({ ...traits, isReady: false, says: 'Ready=False Conflicted' });
    const ofAge = (age: string) => object({ ...traits, age, key: 'team-b/shop', uid: 'u2', number: 8 });
    expect(at([lost, ofAge('1')], [limiter(8)], [object(traits)])).toEqual([]);
    expect(at([lost, ofAge('3')], [limiter(8)], [object(traits)])[0]).toContain('lost its domain');
  });
});
