/** The allocator before Envoys that do what they were measured to do: what it promises, in short. The long form is nightly. */
import { describe, expect, it } from 'vitest';
import { seededRandom } from '../../bench/zipf.ts';
import { Grants } from '../../limiter/allocate/grants.ts';
import { propertySeed } from '../support/property-cases.ts';
import {
  disorder,
  Envoy,
  equalRates,
  evenly,
  expectWithinLimit,
  jainIndex,
  stepMs,
  World,
} from './envoy-world.ts';

/** What is equal or used up is a matter of luck, which these have. */
const lucky = () => seededRandom(7);

describe('shares of a limit', () => {
  it.each(['exact', 'refilling'] as const)(
    'never exceed it in the %s form, whatever is lost, late or dead',
    (form) => {
      const windowSeconds = form === 'exact' ? 60 : 10;
      // The last seed: a client with too many hits was sent a part of a hit.
      for (const [direct, hasPings, seed] of [
        [0, false, propertySeed],
        [5, true, propertySeed],
        [0, false, 1_316_627_814],
      ] as const) {
        const rates = equalRates(40, 1_500 / windowSeconds);
        const world = new World({
          ...disorder,
          random: seededRandom(seed),
          form,
          requests: 1_000,
          windowSeconds,
          rates,
          direct,
          hasPings,
        });
        world.run(200);
        expectWithinLimit(world, 1_000);
        expect(world.overReported).toBe(0);
      }
    },
  );

  it.each(['exact', 'refilling'] as const)(
    'never exceed it in the %s form when the only streams to a limiter break and come back',
    (form) => {
      const random = seededRandom(propertySeed);
      const windowSeconds = form === 'exact' ? 60 : 10;
      const often = { ...disorder, limiters: 1, deaths: 0, breaks: 0.05 };
      for (const clients of [1, 2, 1, 2, 1, 2]) {
        const rates = equalRates(clients, 300 / windowSeconds);
        const world = new World({ ...often, random, form, requests: 100, windowSeconds, rates });
        world.run(240);
        expectWithinLimit(world, 100);
      }
    },
  );

  it('are equal among equals, and use the limit up', () => {
    const rates = equalRates(6, (3_000 * 1.5) / 60);
    const world = new World({
      ...evenly,
      random: lucky(),
      form: 'exact',
      requests: 3_000,
      windowSeconds: 60,
      rates,
    });
    world.run(60);
    const before = world.envoys.map(({ passed }) => passed);
    world.run(240);
    const got = world.envoys.map(({ passed }, i) => passed - before[i]!);
    expect(jainIndex(got)).toBeGreaterThan(0.98);
    expectWithinLimit(world, 3_000);
    expect(world.usedFrom(2)).toBeGreaterThan(0.97);
  });

  it.each([
    [3_000, false],
    [3_000, true],
    [60_000, false],
    [60_000, true],
  ])('use up at least 97 percent of %i in each window, at random times: %s', (requests, isPoisson) => {
    for (let seed = 1; seed <= 10; seed += 1) {
      const random = seededRandom(seed);
      const rates = [0.8, 0.15, 0.05].map((part) => (part * requests * 1.5) / 60);
      const options = {
        ...evenly,
        isPoisson,
        random,
        form: 'exact',
        requests,
        windowSeconds: 60,
        rates,
      } as const;
      const world = new World(options);
      // The first window is not whole.
      world.nowMs += stepMs * Math.floor(random() * 240);
      world.run(60 * 5);
      expectWithinLimit(world, requests);
      expect(world.minFrom(2)).toBeGreaterThan(0.97);
    }
  });

  it('are left alone if there is enough for all', () => {
    const rates = [0.8, 0.15, 0.05].map((part) => (part * 3_000 * 0.8) / 60);
    const options = {
      ...evenly,
      random: lucky(),
      form: 'exact',
      requests: 3_000,
      windowSeconds: 60,
      rates,
    } as const;
    const world = new World(options);
    world.run(60);
    const starved = world.starved;
    world.run(240);
    expect(world.starved - starved).toBeLessThan(2);
  });

  it('are by need: a client that needs less than an equal share has it, and others divide the rest', () => {
    const rates = [1_200, 225, 75];
    const world = new World({
      ...evenly,
      random: lucky(),
      form: 'exact',
      requests: 60_000,
      windowSeconds: 60,
      rates,
    });
    world.run(60);
    const before = world.envoys.map(({ passed }) => passed);
    world.run(240);
    const [, second = 0, third = 0] = world.envoys.map(({ passed }, i) => (passed - before[i]!) / 240);
    expect(world.usedFrom(2)).toBeGreaterThan(0.97);
    expect(second).toBeGreaterThan(0.85 * 225);
    expect(third).toBeGreaterThan(0.85 * 75);
  });

  it('flow all the time in the refilling form', () => {
    const rates = equalRates(5, (1_000 * 1.5) / 20);
    const world = new World({
      ...evenly,
      random: lucky(),
      form: 'refilling',
      requests: 1_000,
      windowSeconds: 20,
      rates,
    });
    world.run(60);
    const starved = world.starved;
    world.run(100);
    expect(world.starved).toBe(starved);
    expectWithinLimit(world, 1_000);
    expect(world.usedFrom(4)).toBeGreaterThan(0.9);
  });

  it('flow all the time in the refilling form while the store fails for some seconds', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const world = refilling(seed);
      world.run(45);
      const starved = world.starved;
      // Assignments live for 15 s, and messages may take 6 s, so that they last for 4 s more at a report.
      world.failsUntilMs = world.nowMs + (seed % 2 === 0 ? 3_500 : 6_000);
      world.run(100);
      if (seed % 2 === 0) expect(world.starved, `seed ${seed}`).toBe(starved);
      else expect(world.starved - starved, `seed ${seed}`).toBeLessThan(2);
      expectWithinLimit(world, 1_000);
    }
  });

  it('use as much in each window of the refilling form', () => {
    for (let seed = 1; seed <= 30; seed += 1) {
      const world = refilling(seed);
      world.run(200);
      expect(world.minFrom(2), `seed ${seed}`).toBeGreaterThan(0.92);
      expectWithinLimit(world, 1_000);
    }
  });

  it('bound what passes in the refilling form, however often buckets shrink and grow', () => {
    const grants = new Grants(true, 0);
    const envoy = new Envoy(1, 0);
    let passed = 0;
    for (let n = 0; n < 40; n += 1) {
      const tokens = n % 2 === 0 ? 10 : 1;
      const bucket = { tokens, perFill: 4, fillSeconds: 1, isFresh: n === 0 };
      grants.send(bucket, n * stepMs, 21_000);
      envoy.apply(bucket, 0, n * stepMs);
      // The small bucket is full when the large one follows, which is then full, too.
      if (tokens === 10) passed += envoy.use(10, n * stepMs);
    }
    expect(passed).toBeGreaterThan(100);
    expect(passed).toBeLessThanOrEqual(grants.mayUseIn(0, 10_000));
  });

  it('are there for those who come later, before a window has ended', () => {
    for (let seed = 1; seed <= 5; seed += 1) {
      const world = new World({
        ...evenly,
        random: seededRandom(seed),
        form: 'refilling',
        requests: 1_000,
        windowSeconds: 20,
        rates: [60, 11, 4],
      });
      // All have reported by 5 s, the first one when nobody else was there.
      world.run(8);
      for (const { passed } of world.envoys) expect(passed).toBeGreaterThan(0);
      world.run(30);
      expectWithinLimit(world, 1_000);
    }
  });

  it('cost the rest of its TTL when a limiter dies', () => {
    const rates = equalRates(6, (3_000 * 1.5) / 60);
    const world = new World({
      ...evenly,
      random: lucky(),
      form: 'exact',
      requests: 3_000,
      windowSeconds: 60,
      rates,
    });
    world.run(150);
    world.kill(0);
    world.run(210);
    expectWithinLimit(world, 3_000);
    expect(world.usedFrom(4)).toBeGreaterThan(0.95);
  });
});

/** Equals that ask for more than the limit of 20 s. */
function refilling(seed: number): World {
  return new World({
    ...{ ...evenly, random: seededRandom(seed), form: 'refilling' },
    ...{ requests: 1_000, windowSeconds: 20, rates: equalRates(3, (1_000 * 1.5) / 20) },
  });
}
