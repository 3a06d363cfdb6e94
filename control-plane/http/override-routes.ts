/** `GET /v1/overrides` of the control plane: the RateLimitOverrides of its cluster, with their status. */
import { type ApiRoute, domainOf } from '../../process/http/api-route.ts';
import { overrideJson } from '../../rules/override.ts';
import { decodeOverride } from '../../rules/reader/resource.ts';
import { type ConfigObject, type ConfigStatus, findCondition } from '../model/config-object.ts';
import type { ObjectOutcome } from '../model/decision.ts';
import { isEndReason } from '../model/reasons.ts';
import type { ControlPlaneView } from './listener.ts';

export interface OverrideRouteView extends Pick<ControlPlaneView, 'decision' | 'statusOf'> {
  nowMs(): number;
}

/** Chosen: for more overrides, use `kubectl get rlo`, or request one domain after the other. */
const maxListed = 10_000;

export function overrideRoutes(view: OverrideRouteView): ApiRoute[] {
  return [
    {
      method: 'GET',
      path: '/v1/overrides',
      right: 'read',
      parameters: ['domain'],
      answer: async (call) => {
        const wanted = call.query.has('domain') ? domainOf(call, 'read') : undefined;
        const decision = view.decision();
        const rows = [...(decision?.outcomes.values() ?? [])]
          .filter(({ object }) => object.kind !== undefined)
          .map((outcome) => ({ outcome, domain: domainIn(outcome) }))
          .filter(({ domain }) => (wanted === undefined || domain === wanted) && call.actor.mayRead(domain));
        const notes = [
          ...(decision === undefined ? ['the first complete list of objects is not read yet'] : []),
          ...(rows.length > maxListed
            ? [`${rows.length - maxListed} more are not listed: ask for one domain`]
            : []),
        ];
        const overrides = rows
          .slice(0, maxListed)
          .map(({ outcome }) => overrideRow(outcome, view.statusOf(outcome.object), view.nowMs()));
        return { body: { overrides, notes } };
      },
    },
  ];
}

/** Returns the domain of an object. If the object cannot be read, returns the domain in its spec. */
function domainIn({ served, object }: ObjectOutcome): string {
  return served?.domain ?? textIn(object, 'domain') ?? '';
}

/** Returns the row of one override: from the served override, or else from the spec, with the texts of the conditions in its status. */
function overrideRow(
  { object, accepted, served, override: reported }: ObjectOutcome,
  status: ConfigStatus | undefined,
  nowMs: number,
): Record<string, unknown> {
  const { namespace, name, uid, generation, createdMs, spec } = object;
  const decoded = served && decodeOverride(served.bytes).override;
  const ready = findCondition(status, 'Ready');
  const isOver = !accepted.status && isEndReason(accepted.reason);
  // A condition of an older generation does not describe the served override.
  const isReady = ready?.status === 'True' && ready.observedGeneration === generation;
  const standing = isOver ? 'Ended' : !accepted.status ? accepted.reason : isReady ? 'InForce' : 'Pending';
  const message = ready?.message ?? (accepted.status ? '' : accepted.message);
  const common = {
    id: uid,
    name: `${namespace}/${name}`,
    fleet: served?.fleet ?? textIn(object, 'fleet') ?? null,
    standing,
    message,
    ready: ready === undefined ? null : { status: ready.status, reason: ready.reason },
  };
  if (decoded !== undefined) return { ...overrideJson(decoded, nowMs), source: 'object', ...common };
  const endsMs = reported?.endsMs;
  return {
    ...(spec as Record<string, unknown>),
    source: 'object',
    createdAt: createdMs === 0 ? null : new Date(createdMs).toISOString(),
    endsAt: endsMs === undefined ? null : new Date(endsMs).toISOString(),
    secondsLeft: endsMs === undefined ? null : Math.max(0, Math.ceil((endsMs - nowMs) / 1000)),
    createdBy: '',
    ...common,
  };
}

function textIn({ spec }: ConfigObject, field: 'domain' | 'fleet'): string | undefined {
  const value = (spec as Record<string, unknown> | null | undefined)?.[field];
  return typeof value === 'string' ? value : undefined;
}
