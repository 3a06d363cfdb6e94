import { expect, it } from 'vitest';
import type { SimulatedReplica } from './simulated-replica.ts';
import { type Pod, Simulation } from './simulation.ts';

/** A limiter that is connected to a replica that does not lead. */
async function limiterOfFollower(simulation: Simulation): Promise<{ follower: SimulatedReplica; pod: Pod }> {
  const pod = simulation.pods.find(
    ({ limiter: { options } }) => options.fleet === 'default' && options.kind === 'delta',
  )!;
  for (let attempt = 0; attempt < 50; attempt += 1) {
    if (pod.home !== undefined && pod.home !== simulation.leader && pod.link?.isKnown)
      return { follower: pod.home, pod };
    pod.link?.break();
    await simulation.advance(2_000);
  }
  throw new Error('the limiter reaches no follower');
}

/** Of what a limiter has, the leader knows only what a follower reports, and the follower stops before it reports more. */
async function skippedVersion(hasReported: boolean): Promise<object> {
  const simulation = new Simulation({ seed: 1 });
  await simulation.begin();
  await simulation.advance(60_000);
  const { objects, leader } = simulation;
  const { follower, pod } = await limiterOfFollower(simulation);
  await simulation.advance(10_000);
  const ofFleet = () => simulation.seen.filter(({ fleet, isReady }) => fleet === 'default' && isReady);
  const { uid } = ofFleet()[0]!;
  const object = () => simulation.seen.find((one) => one.uid === uid)!;
  const first = object();
  // The first report after a while is written at once, and the next one not before 250 ms.
  if (!hasReported) {
    objects.change(ofFleet()[1]!, { isValid: true });
    await simulation.advance(100);
  }
  leader!.isSilent = true;
  objects.change(object(), { isValid: true });
  while (pod.limiter.limits?.get(first.domain) !== object().number) await simulation.advance(1);
  if (hasReported) await simulation.advance(50);
  simulation.freezeReplica(follower);
  simulation.silencePod(pod);
  objects.change(object(), { isReverted: true });
  leader!.isSilent = false;
  // Its watch shows two edits of the object at once.
  objects.change(ofFleet()[1] ?? object(), { isValid: true });
  const { number } = object();
  await simulation.advance(4_000);
  const { limits } = pod.limiter;
  return {
    isWrong: limits !== undefined && limits.get(first.domain) !== number,
    says: object().says,
    violations: simulation.violations.map(({ kind, what }) => `${kind}: ${what}`),
  };
}

it.each([
  ['before it reported that', false],
  ['after it reported that', true],
])(
  'an object is not Ready while a limiter has a version that only a follower served, which stopped %s',
  async (_, hasReported) => {
    expect(await skippedVersion(hasReported)).toEqual({
      isWrong: true,
      says: expect.stringMatching(/^Ready=(Unknown|False) /),
      violations: [],
    });
  },
);
