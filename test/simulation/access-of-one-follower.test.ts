import { expect, it } from 'vitest';
import { Simulation } from './simulation.ts';

it.each([
  ['a generation that is not accepted', false],
  ['a generation that is accepted', true],
])(
  'a follower that alone sees that the right to a domain ends for a moment serves what the others do, with %s',
  async (_, isValid) => {
    const simulation = new Simulation({ seed: 1 });
    await simulation.begin();
    await simulation.advance(60_000);
    const { objects, fleets, leader } = simulation;
    const object = simulation.seen.find(({ fleet, isReady }) => fleet === 'edge' && isReady)!;
    objects.change(object, { isValid });
    await simulation.advance(5_000);
    const follower = simulation.replicas.find((replica) => replica !== leader)!;
    const servedBy = (replica: typeof follower) => replica.loop!.decision!.outcomes.get(object.uid)?.served;
    const before = servedBy(leader!);
    fleets.create('edge', {});
    await simulation.advance(1_000);
    const end = simulation.showAccessOnlyTo(follower);
    const allow = fleets.deny('edge', object.domain);
    await simulation.advance(150);
    expect([servedBy(follower), servedBy(leader!)]).toEqual([undefined, before]);
    allow();
    end();
    await simulation.settle();
    expect(simulation.violations).toEqual([]);
    expect(simulation.replicas.map(servedBy)).toEqual([before, before, before]);
  },
);
