/** What can happen in a simulation: a row for each kind of change and of fault. */
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import type { Random } from '../fuzz/random.ts';
import type { SeenObject } from '../truth/oracle.ts';
import type { Fault } from './memory-api.ts';
import { fleets, randomAccess } from './simulated-fleets.ts';
import { domains, namespaces, overrideDomains } from './simulated-objects.ts';
import type { SimulatedReplica } from './simulated-replica.ts';
import type { Pod, Simulation } from './simulation.ts';

export interface Happening {
  /** How often it is chosen beside the others of its group. */
  weight: number;
  /**
   * Object changes happen all the time; storms disturb the leader or all of the control plane; the others leave a leader that must
   * keep statuses true.
   */
  group: 'change' | 'storm' | 'fault';
  /** Returns what ends it, and when; nothing for what is over at once; false where it cannot happen now. */
  happen(simulation: Simulation, random: Random): { afterMs: number; end(): void } | false | undefined;
}

const maxObjects = 16;
const maxOverrides = 4;

const chosen = <T>(list: readonly T[], random: Random): T | undefined => list[random.below(list.length)];
const between = (random: Random, minMs: number, maxMs: number) => minMs + random.below(maxMs - minMs);

function anObject(
  simulation: Simulation,
  random: Random,
  isFit: (object: SeenObject) => boolean = () => true,
): SeenObject | undefined {
  return chosen(
    simulation.seen.filter((object) => !object.isOverride && isFit(object)),
    random,
  );
}

/** A change of an object that fits. */
function change(
  weight: number,
  act: (simulation: Simulation, random: Random, object: SeenObject) => void,
  isFit?: (object: SeenObject) => boolean,
): Happening {
  return {
    weight,
    group: 'change',
    happen: (simulation, random) => {
      const object = anObject(simulation, random, isFit);
      if (object === undefined) return false;
      act(simulation, random, object);
      return undefined;
    },
  };
}

/** A change of a RateLimitFleet. */
function changeOfFleet(
  weight: number,
  act: (simulation: Simulation, fleet: string, random: Random) => void,
): Happening {
  return {
    weight,
    group: 'change',
    happen: (simulation, random) => {
      const fleet = chosen(simulation.fleets.names, random);
      if (fleet === undefined) return false;
      act(simulation, fleet, random);
      return undefined;
    },
  };
}

function aReplica(simulation: Simulation, random: Random, isStorm: boolean): SimulatedReplica | undefined {
  const fit = simulation.replicas.filter(
    (replica) =>
      replica.isWell &&
      simulation.nowMs > replica.seesAloneUntilMs &&
      (isStorm || (replica !== simulation.leader && isSpare(simulation, replica))),
  );
  return chosen(fit, random);
}

/** Another one beside the leader is well. */
function isSpare({ replicas, leader }: Simulation, replica: SimulatedReplica): boolean {
  return leader?.isWell === true && replicas.some((one) => one !== replica && one.isWell);
}

/** Something happens to one replica: in storms to any, else to one that does not lead. */
function ofReplica(
  options: { weight: number; minMs: number; maxMs: number },
  act: (simulation: Simulation, replica: SimulatedReplica, random: Random) => (() => void) | undefined,
): Record<'storm' | 'fault', Happening> {
  const row = (group: 'storm' | 'fault'): Happening => ({
    weight: group === 'storm' ? options.weight : options.weight / 6,
    group,
    happen: (simulation, random) => {
      const replica = aReplica(simulation, random, group === 'storm');
      if (replica === undefined) return false;
      const quiet = simulation.trouble(replica);
      const end = act(simulation, replica, random);
      return {
        afterMs: between(random, options.minMs, options.maxMs),
        end: () => {
          end?.();
          quiet();
        },
      };
    },
  });
  return { storm: row('storm'), fault: row('fault') };
}

/** Requests of one replica, or of all, fare like this for a while. */
function ofRequests(
  options: { weight: number; group: 'storm' | 'fault'; minMs: number; maxMs: number },
  faultOf: (request: ApiRequest, random: Random) => Fault | undefined,
): Happening {
  const { weight, group, minMs, maxMs } = options;
  return {
    weight,
    group,
    happen: (simulation, random) => {
      const isStorm = group === 'storm';
      const replicas =
        isStorm && random.below(2) === 0 ? simulation.replicas : [chosen(simulation.replicas, random)!];
      const trouble = (request: ApiRequest) => faultOf(request, random);
      const calms = isStorm ? replicas.map((replica) => simulation.trouble(replica)) : [];
      for (const replica of replicas) {
        if (isStorm) replica.troubles.add(trouble);
        else replica.glitches.add(trouble);
      }
      return {
        afterMs: between(random, minMs, maxMs),
        end: () => {
          for (const replica of replicas) {
            replica.troubles.delete(trouble);
            replica.glitches.delete(trouble);
          }
          for (const quiet of calms) quiet();
        },
      };
    },
  };
}

const isStatusWrite = ({ method, path }: ApiRequest) => method === 'PATCH' && path.endsWith('/status');
const isWrite = ({ method = 'GET' }: ApiRequest) => method !== 'GET';
const refused = (status: number, reason: string, retryAfterSeconds?: number): Fault => ({
  refused: { status, reason, ...(retryAfterSeconds !== undefined && { retryAfterSeconds }) },
});

function ofPod(
  options: { weight: number; minMs: number; maxMs: number },
  isFit: (pod: Pod) => boolean,
  act: (simulation: Simulation, pod: Pod, random: Random) => (() => void) | undefined,
): Happening {
  return {
    weight: options.weight,
    group: 'fault',
    happen: (simulation, random) => {
      const pod = chosen(
        simulation.pods.filter((one) => isWell(one) && isFit(one)),
        random,
      );
      if (pod === undefined) return false;
      const end = act(simulation, pod, random);
      if (end === undefined) return undefined;
      return { afterMs: between(random, options.minMs, options.maxMs), end };
    },
  };
}

function isWell({ limiter, isSilent, stoppedMs }: Pod): boolean {
  return limiter.process.isRunning && !isSilent && stoppedMs === undefined && !limiter.refuses;
}

/** Returns what makes it what it was. */
function changeAccess({ fleets }: Simulation, random: Random): (() => void) | undefined {
  const fleet = chosen(fleets.names, random);
  if (fleet === undefined || random.below(3) === 0) return fleets.label(chosen(namespaces, random)!, random);
  return fleets.changeAccess(fleet, random);
}

const kills = ofReplica({ weight: 24, minMs: 500, maxMs: 15_000 }, (simulation, replica) => {
  simulation.killReplica(replica);
  return () => replica.start(0);
});
const stops = ofReplica({ weight: 22, minMs: 7_000, maxMs: 15_000 }, (simulation, replica) => {
  void simulation.stopReplica(replica);
  return () => {
    simulation.killReplica(replica);
    replica.start(0);
  };
});
const freezes = ofReplica({ weight: 24, minMs: 500, maxMs: 25_000 }, (simulation, replica) => {
  simulation.freezeReplica(replica);
  return () => simulation.thawReplica(replica);
});
const cuts = ofReplica({ weight: 20, minMs: 1_000, maxMs: 20_000 }, (_, replica) => {
  const trouble = (): Fault => ({ unreached: true });
  replica.troubles.add(trouble);
  replica.api?.close();
  return () => replica.troubles.delete(trouble);
});
const silences = ofReplica({ weight: 20, minMs: 1_000, maxMs: 20_000 }, (_, replica) => {
  replica.isSilent = true;
  return () => {
    replica.isSilent = false;
    // The connections have died meanwhile.
    replica.api?.close();
  };
});
const skews = ofReplica({ weight: 22, minMs: 5_000, maxMs: 20_000 }, (_, { process }, random) => {
  process.skewMs = between(random, -60_000, 60_000);
  return () => {
    process.skewMs = 0;
  };
});

export const happenings = {
  create: {
    weight: 6,
    group: 'change',
    happen: (simulation, random) => {
      if (simulation.seen.length >= maxObjects) return false;
      simulation.objects.create(chosen(namespaces, random)!, chosen(domains, random)!);
      return undefined;
    },
  },
  change: change(30, ({ objects }, _, object) => objects.change(object, { isValid: true })),
  'change to what is invalid': change(8, ({ objects }, _, object) =>
    objects.change(object, { isValid: false }),
  ),
  'change to what it was': change(5, ({ objects }, _, object) =>
    objects.change(object, { isReverted: true }),
  ),
  'change of domain': change(4, ({ objects }, random, object) =>
    objects.change(object, { domain: chosen(domains, random)! }),
  ),
  'change of class': change(2, ({ objects }, _, object) =>
    objects.change(object, { isOfOtherClass: object.isOurs }),
  ),
  'change of labels': change(2, ({ objects }, _, object) => objects.change(object, { isOut: object.isOurs })),
  delete: change(4, ({ objects }, _, object) => objects.delete(object)),
  override: {
    weight: 3,
    group: 'change',
    happen: (simulation, random) => {
      const count = simulation.seen.filter(({ isOverride }) => isOverride).length;
      if (count >= maxOverrides) return false;
      const lastsMs = random.below(2) === 0 ? undefined : between(random, 5_000, 30_000);
      simulation.objects.override(chosen(namespaces, random)!, chosen(overrideDomains, random)!, lastsMs);
      return undefined;
    },
  },
  'end of an override': {
    weight: 3,
    group: 'change',
    happen: (simulation, random) => {
      const object = chosen(
        simulation.seen.filter(({ isOverride }) => isOverride),
        random,
      );
      if (object === undefined) return false;
      simulation.objects.delete(object);
      return undefined;
    },
  },
  'new fleet': {
    weight: 3,
    group: 'change',
    happen: ({ fleets: simulated }, random) => {
      const missing = fleets.filter((name) => !simulated.names.includes(name) && name !== 'default');
      const fleet = chosen(missing, random);
      if (fleet === undefined) return false;
      simulated.create(fleet, randomAccess(random));
      return undefined;
    },
  },
  'change of access': {
    weight: 3,
    group: 'change',
    happen: (simulation, random) => {
      changeAccess(simulation, random);
      return undefined;
    },
  },
  'change of a fleet': changeOfFleet(2, (simulation, fleet, random) =>
    simulation.fleets.changeGrace(fleet, random),
  ),
  'deletion of a fleet': changeOfFleet(1, ({ fleets: simulated }, fleet) => simulated.delete(fleet)),

  'kill of a replica': kills.storm,
  'kill of a follower': kills.fault,
  'end of a replica': stops.storm,
  'end of a follower': stops.fault,
  'freeze of a replica': freezes.storm,
  'freeze of a follower': freezes.fault,
  'cut of a replica': cuts.storm,
  'cut of a follower': cuts.fault,
  'silence of a replica': silences.storm,
  'silence of a follower': silences.fault,
  'clock skew': skews.storm,
  'clock skew of a follower': skews.fault,
  'late write of a leader': {
    weight: 64,
    group: 'storm',
    happen: (simulation, random) => {
      const { leader, time } = simulation;
      if (leader?.isWell !== true) return false;
      const quiet = simulation.trouble(leader);
      const { podName } = leader;
      const isEnd = random.below(2) === 0;
      // Half of the time of a request passes on its way, whatever becomes of the leader, while another one leads.
      const delayMs = 2 * between(random, 1_000, 60_000);
      let isStopped = false;
      const stop = (): void => {
        if (isStopped || leader.podName !== podName || !leader.isRunning) return;
        isStopped = true;
        if (isEnd) simulation.killReplica(leader);
        else simulation.freezeReplica(leader);
      };
      const hold = (request: ApiRequest): Fault | undefined => {
        if (!isStatusWrite(request)) return undefined;
        time.after(0, stop);
        return { delayMs };
      };
      leader.glitches.add(hold);
      return {
        afterMs: between(random, 5_000, 30_000),
        end: () => {
          leader.glitches.delete(hold);
          if (isStopped && isEnd) leader.start(0);
          else if (isStopped) simulation.thawReplica(leader);
          quiet();
        },
      };
    },
  },
  'right to write statuses granted late': ofRequests(
    { weight: 16, group: 'storm', minMs: 1_000, maxMs: 15_000 },
    (request) => (isStatusWrite(request) ? refused(403, 'Forbidden') : undefined),
  ),
  'right to read granted late': ofRequests(
    { weight: 12, group: 'storm', minMs: 1_000, maxMs: 15_000 },
    (request) => (isWrite(request) ? undefined : refused(403, 'Forbidden')),
  ),
  'token not known': ofRequests({ weight: 15, group: 'storm', minMs: 500, maxMs: 10_000 }, () =>
    refused(401, 'Unauthorized'),
  ),
  throttled: ofRequests({ weight: 12, group: 'storm', minMs: 1_000, maxMs: 10_000 }, (_, random) =>
    random.below(2) === 0 ? refused(429, 'TooManyRequests', 1) : undefined,
  ),
  'API server overloaded': ofRequests(
    { weight: 13, group: 'storm', minMs: 1_000, maxMs: 10_000 },
    (_, random) =>
      random.below(3) === 0 ? refused(503, 'ServiceUnavailable') : { delayMs: 200 + random.below(800) },
  ),
  'newer definition': {
    weight: 20,
    group: 'storm',
    happen: (simulation, random) => {
      if (simulation.objects.hasNovelty) return false;
      const quiet = simulation.trouble();
      simulation.skewSchemas(true);
      return {
        afterMs: between(random, 3_000, 20_000),
        end: () => {
          simulation.skewSchemas(false);
          quiet();
        },
      };
    },
  },

  'lost answers': ofRequests({ weight: 8, group: 'fault', minMs: 100, maxMs: 2_000 }, (request, random) =>
    isWrite(request) && random.below(4) === 0 ? { lost: true } : undefined,
  ),
  'repeated requests': ofRequests(
    { weight: 6, group: 'fault', minMs: 100, maxMs: 3_000 },
    (request, random) => (isWrite(request) && random.below(2) === 0 ? { repeated: true } : undefined),
  ),
  'slow answers': ofRequests({ weight: 6, group: 'fault', minMs: 100, maxMs: 3_000 }, (_, random) => ({
    delayMs: random.below(150),
  })),
  'errors of the server': ofRequests(
    { weight: 6, group: 'fault', minMs: 100, maxMs: 1_000 },
    (request, random) =>
      isWrite(request) && random.below(4) === 0 ? refused(500, 'InternalError') : undefined,
  ),
  'watches broken': {
    weight: 6,
    group: 'fault',
    happen: (simulation, random) => {
      chosen(simulation.replicas, random)!.breakWatches();
      return undefined;
    },
  },
  'history forgotten': {
    weight: 4,
    group: 'fault',
    happen: (simulation, random) => {
      simulation.cluster.compact();
      chosen(simulation.replicas, random)!.breakWatches();
      return undefined;
    },
  },
  'status written by somebody': {
    weight: 5,
    group: 'fault',
    happen: (simulation, random) => {
      const object = anObject(simulation, random, ({ isOurs }) => isOurs);
      if (object === undefined) return false;
      simulation.objects.spoil(object, random.below(2) === 0 ? 'True' : 'False');
      return undefined;
    },
  },
  'status of a fleet written by somebody': {
    weight: 4,
    group: 'fault',
    happen: ({ fleets: simulated }, random) => {
      const fleet = chosen(simulated.names, random);
      if (fleet === undefined) return false;
      simulated.spoil(fleet, random.below(2) === 0 ? 'True' : 'False');
      return undefined;
    },
  },
  'access changed and changed back': {
    weight: 6,
    group: 'fault',
    happen: (simulation, random) => {
      const end = changeAccess(simulation, random);
      return { afterMs: random.below(300), end: () => end?.() };
    },
  },
  'access changed for one follower': {
    weight: 6,
    group: 'fault',
    happen: (simulation, random) => {
      const { leader } = simulation;
      const follower = chosen(
        simulation.replicas.filter((replica) => replica !== leader && replica.isWell),
        random,
      );
      if (leader === undefined || follower === undefined) return false;
      const end = simulation.showAccessOnlyTo(follower);
      const back = changeAccess(simulation, random);
      return {
        afterMs: between(random, 10, 200),
        end: () => {
          back?.();
          end();
        },
      };
    },
  },
  'access changed for one follower, which is cut off': {
    weight: 5,
    group: 'fault',
    happen: (simulation, random) => {
      const { leader, time } = simulation;
      const follower = aReplica(simulation, random, false);
      if (leader === undefined || follower === undefined) return false;
      const end = simulation.showAccessOnlyTo(follower);
      const back = changeAccess(simulation, random);
      let calm = (): void => {};
      let isOver = false;
      const { podName } = follower;
      time.after(between(random, 5, 60), () => {
        // All faults may have been ended meanwhile.
        if (!isOver && follower.podName === podName && follower.isWell) calm = simulation.cutOff(follower);
        back?.();
        end();
      });
      return {
        afterMs: between(random, 1_000, 15_000),
        end: () => {
          isOver = true;
          calm();
        },
      };
    },
  },
  'mistake in a fleet': {
    weight: 4,
    group: 'fault',
    happen: ({ fleets: simulated }, random) => {
      const fleet = chosen(simulated.names, random);
      if (fleet === undefined) return false;
      return { afterMs: between(random, 100, 8_000), end: simulated.mistake(fleet) };
    },
  },
  'limiter refuses': ofPod(
    { weight: 8, minMs: 1_000, maxMs: 8_000 },
    () => true,
    (_, pod) => {
      pod.limiter.refuses = true;
      return () => {
        pod.limiter.refuses = false;
        // What was rejected is sent again over a new stream only, unless something changes.
        pod.link?.break();
      };
    },
  ),
  'limiter killed': ofPod(
    { weight: 8, minMs: 500, maxMs: 8_000 },
    () => true,
    (simulation, pod) => {
      simulation.killPod(pod);
      return () => simulation.startPod(pod);
    },
  ),
  'limiter stands still': ofPod(
    { weight: 8, minMs: 500, maxMs: 20_000 },
    () => true,
    (simulation, pod) => {
      simulation.freezePod(pod);
      return () => simulation.thawPod(pod);
    },
  ),
  'limiter cut off': ofPod(
    { weight: 8, minMs: 500, maxMs: 20_000 },
    () => true,
    (simulation, pod) => {
      simulation.silencePod(pod);
      return () => simulation.speakPod(pod);
    },
  ),
  'limiter cut off while it loads': ofPod(
    { weight: 6, minMs: 3_000, maxMs: 40_000 },
    () => true,
    (simulation, pod, random) => {
      simulation.killPod(pod);
      pod.isCutWhenLoaded = true;
      let isStarted = false;
      const start = (): void => {
        if (!isStarted) simulation.startPod(pod);
        isStarted = true;
      };
      // A container takes a moment to start again.
      simulation.time.after(between(random, 500, 1_500), start);
      return () => {
        start();
        simulation.speakPod(pod);
      };
    },
  ),
  'stream lost': ofPod(
    { weight: 8, minMs: 0, maxMs: 1 },
    ({ link }) => link !== undefined,
    (_, { link }) => {
      link?.break();
      return undefined;
    },
  ),
} as const satisfies Record<string, Happening>;

export type HappeningName = keyof typeof happenings;
