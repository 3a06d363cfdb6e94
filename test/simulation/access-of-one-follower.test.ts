import { expect, it } from 'vitest';
import { type Pod, Simulation } from './simulation.ts';

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

const selector = { matchExpressions: [{ key: 'limits', operator: 'NotIn' as const, values: ['no'] }] };

/** A limiter of the fleet `edge` that is connected to a replica that does not lead. */
async function limiterOfFollower(simulation: Simulation): Promise<Pod> {
  const pod = simulation.pods.find(
    ({ limiter: { options } }) => options.fleet === 'edge' && options.kind === 'delta',
  )!;
  for (let attempt = 0; attempt < 50; attempt += 1) {
    if (pod.home !== undefined && pod.home !== simulation.leader && pod.link?.isKnown) return pod;
    pod.link?.break();
    await simulation.advance(2_000);
  }
  throw new Error('the limiter reaches no follower');
}

it.each(['a RateLimitFleet', 'the labels of a namespace'])(
  'an object is not Ready if a follower alone saw that the right to it ended by %s, and was cut off then',
  async (by) => {
    const simulation = new Simulation({ seed: 1 });
    await simulation.begin();
    await simulation.advance(60_000);
    const { fleets } = simulation;
    const ofEdge = simulation.seen.find(({ fleet, isReady }) => fleet === 'edge' && isReady)!;
    const object = () => simulation.seen.find(({ uid }) => uid === ofEdge.uid)!;
    const [namespace = ''] = ofEdge.key.split('/');
    fleets.create('edge', { allowedNamespaces: { from: 'Selector', selector } });
    const pod = await limiterOfFollower(simulation);
    await simulation.advance(30_000);
    const follower = pod.home!;
    const end = simulation.showAccessOnlyTo(follower);
    const allow = by === 'a RateLimitFleet' ? fleets.deny('edge', ofEdge.domain) : fleets.exclude(namespace);
    while (pod.limiter.limits?.has(ofEdge.domain)) await simulation.advance(1);
    const calm = simulation.cutOff(follower);
    allow();
    end();
    await simulation.advance(2_000);
    expect([pod.limiter.limits?.has(ofEdge.domain), object().isReady]).toEqual([false, false]);
    calm();
    await simulation.settle();
    expect([simulation.violations, object().isReady]).toEqual([[], true]);
  },
);
