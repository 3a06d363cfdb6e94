import type { ControlPlaneView } from '../../control-plane/http/listener.ts';
import { type ConfigObject, type ConfigStatus, objectKey } from '../../control-plane/model/config-object.ts';
import type {
  Acceptance,
  ClusterDecision,
  ObjectOutcome,
  ServedConfig,
} from '../../control-plane/model/decision.ts';
import {
  fleetSnapshot,
  hashOf,
  type LimiterReport,
  type Resource,
} from '../../control-plane/model/fleet-snapshot.ts';
import type { Capabilities } from '../../rules/language/capabilities.ts';

/** One object as a decision has it: accepted and served as it is, unless said otherwise. */
export interface DecidedObject {
  name: string;
  fleet?: string;
  generation?: number;
  /** Undefined where there is none: nothing is served. */
  servedGeneration?: number | undefined;
  rules?: number;
  /** Size of its resource. */
  bytes?: number;
  accepted?: Acceptance;
  needs?: Capabilities;
  /** The generation that limiters get that do not support it. */
  fallback?: number;
  status?: ConfigStatus;
}

/** A decision in which every object of namespace `team` has a resource of its own. */
export function decisionOf(objects: readonly DecidedObject[]): ClusterDecision {
  const resources = new Map<string, Resource[]>();
  const outcomes = new Map<string, ObjectOutcome>();
  for (const decided of objects) {
    const outcome = outcomeOf(decided);
    outcomes.set(outcome.object.uid, outcome);
    if (outcome.served === undefined) continue;
    const { fleet, domain, resource: name, hash, needs } = outcome.served;
    const bytes = new Uint8Array(decided.bytes ?? 100);
    const ofFleet = resources.get(fleet) ?? [];
    ofFleet.push({ name, domain, bytes, hash, needs });
    resources.set(fleet, ofFleet);
  }
  const fleets = new Map([...resources].map(([fleet, all]) => [fleet, fleetSnapshot(fleet, all)]));
  return { fleets, outcomes, holders: new Map() };
}

function outcomeOf(decided: DecidedObject): ObjectOutcome {
  const { name, fleet = 'default', generation = 1, status } = decided;
  const object: ConfigObject = {
    namespace: 'team',
    name,
    uid: `uid-${name}`,
    generation,
    createdMs: 0,
    spec: { fleet },
    status,
  };
  const servedGeneration = 'servedGeneration' in decided ? decided.servedGeneration : generation;
  const served: ServedConfig | undefined =
    servedGeneration === undefined
      ? undefined
      : {
          fleet,
          domain: name,
          generation: servedGeneration,
          hash: hashOf(`${name} ${servedGeneration}`),
          resource: objectKey(object),
          rules: decided.rules ?? 1,
          ownFields: [],
          spec: {},
          needs: decided.needs ?? [],
          fallback:
            decided.fallback === undefined
              ? undefined
              : { generation: decided.fallback, spec: {}, needs: [] },
          bytes: new Uint8Array(),
        };
  return { object, accepted: decided.accepted ?? { status: true }, served };
}

export function limiterReport(report: Partial<LimiterReport>): LimiterReport {
  return {
    id: 'replica-a/1',
    instance: undefined,
    name: 'limiter',
    fleet: 'default',
    isWeir: true,
    countsCompatibly: true,
    capabilities: [],
    connectedMs: Date.UTC(2026, 0, 2, 3, 4, 5),
    acceptedVersion: undefined,
    refusal: undefined,
    ...report,
  };
}

export const noList = 'the first complete list of RateLimitConfigs is not read yet';

/** Of replica `replica-a`, without limiters and before the first list, unless said otherwise. */
export function viewOf(view: Partial<ControlPlaneView>): ControlPlaneView {
  return {
    replica: 'replica-a',
    className: 'weir',
    controllerName: 'weir-system/weir-control-plane',
    leader: () => undefined,
    decision: () => undefined,
    missing: () => (view.decision === undefined ? [noList] : []),
    reports: () => [],
    statusOf: ({ status }) => status,
    ...view,
  };
}
