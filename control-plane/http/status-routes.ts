/**
 * The `/v1` pages of the control plane: fleets with their limiters, objects and overrides with their statuses, and the errors in
 * the limiters' own words.
 */
import { type ApiRoute, domainOf } from '../../process/http/api-route.ts';
import { defaultFleet } from '../../rules/language/kinds.ts';
import { overrideJson } from '../../rules/override.ts';
import { decodeOverride } from '../../rules/reader/resource.ts';
import { type ConfigStatus, findCondition, kindOf, objectKey, textIn } from '../model/config-object.ts';
import { acceptedRow, type ClusterDecision, type ObjectOutcome } from '../model/decision.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { isEndReason } from '../model/reasons.ts';
import { rulesOfLimiter } from '../model/supported-rules.ts';
import type { ControlPlaneView } from './listener.ts';
import { jsonArray } from './snapshot-page.ts';

export interface StatusRoutesParts {
  view: ControlPlaneView;
  version: string;
}

export function statusRoutes(parts: StatusRoutesParts): ApiRoute[] {
  const { view } = parts;
  const get = (path: string, parameters: readonly string[], answer: ApiRoute['answer']): ApiRoute => ({
    ...{ method: 'GET', path, right: 'read', parameters, answer },
  });
  return [
    get('/v1/status', [], async () => ({ body: statusJson(parts) })),
    get('/v1/rules', ['domain', 'fleet'], async ({ query }) => ({
      lines: listLines('objects', objectRows(view, query.get('domain'), query.get('fleet'))),
    })),
    get('/v1/refusals', ['fleet'], async ({ query }) => ({
      lines: listLines('refusals', rejectionRows(view, query.get('fleet'))),
    })),
  ];
}

/** One line for each entry, so that the list can be written in slices. */
function* listLines(name: string, rows: Iterable<object>): Generator<string> {
  yield* jsonArray(`{${JSON.stringify(name)}:`, rows);
  yield '}';
}

function statusJson({ view, version }: StatusRoutesParts): object {
  const { replica, className, controllerName = null } = view;
  const decision = view.decision();
  const limiters = view
    .reports()
    .flatMap((report) => report.limiters.map((one) => ({ replica: report.replica, one })));
  const names = new Set([...(decision?.fleets.keys() ?? []), ...limiters.map(({ one }) => one.fleet)]);
  const lacks = view.missing();
  return {
    ...{ replica, version, leader: view.leader() ?? null, className, controllerName },
    ...{ listed: decision !== undefined, ready: lacks.length === 0, missing: lacks },
    fleets: [...names].sort().map((fleet) => {
      const served = decision?.fleets.get(fleet);
      return {
        ...{ fleet, version: served?.version ?? null, resources: served?.resources.length ?? 0 },
        limiters: limiters.filter(({ one }) => one.fleet === fleet).map((row) => limiterJson(row, decision)),
      };
    }),
  };
}

function limiterJson(
  { replica, one }: { replica: string; one: LimiterReport },
  decision: ClusterDecision | undefined,
): object {
  const { name, instance = null, address = null, isWeir, capabilities, connectedMs } = one;
  const { acceptedVersion: accepted = null, sentVersion: sent = null, refusal = null } = one;
  const { isCurrent = false, isTooOld = false } = rulesOfLimiter(one, decision) ?? {};
  return {
    ...{ name, instance, address, replica, isWeir, accepted },
    /** The version that was sent, but neither accepted nor rejected yet. */
    sent,
    ...{ isCurrent, isTooOld },
    refusal,
    capabilities,
    connectedAt: new Date(connectedMs).toISOString(),
  };
}

function* objectRows(view: ControlPlaneView, domain: string | null, fleet: string | null): Generator<object> {
  const outcomes = [...(view.decision()?.outcomes.values() ?? [])];
  const keyed = outcomes.map((outcome) => ({ key: objectKey(outcome.object), outcome }));
  for (const { outcome } of keyed.sort((a, b) => (a.key < b.key ? -1 : 1))) {
    const claim = { domain: textOf(outcome, 'domain'), fleet: textOf(outcome, 'fleet') };
    if ((domain !== null && claim.domain !== domain) || (fleet !== null && claim.fleet !== fleet)) continue;
    yield objectJson(outcome, claim, view);
  }
}

function objectJson(
  { object, accepted, served }: ObjectOutcome,
  claim: object,
  view: ControlPlaneView,
): object {
  const { namespace, name, generation } = object;
  return {
    ...{ kind: kindOf(object).kind, namespace, name, ...claim, generation },
    servedGeneration: served?.generation ?? null,
    rules: served?.rules ?? 0,
    accepted: acceptedRow(accepted),
    conditions: view.statusOf(object)?.conditions ?? [],
  };
}

/** Returns a field of the served spec, or else of the object's spec, which may have any form. */
function textOf({ served, object: { spec } }: ObjectOutcome, field: 'domain' | 'fleet'): string | null {
  return (served?.[field] ?? textIn(spec, field)) || (field === 'fleet' ? defaultFleet : null);
}

function* rejectionRows(view: ControlPlaneView, wanted: string | null): Generator<object> {
  for (const { replica, limiters } of view.reports()) {
    for (const { name, instance, fleet, refusal } of limiters) {
      if (refusal === undefined || (wanted !== null && fleet !== wanted)) continue;
      const { version, message, resources = null } = refusal;
      yield { limiter: name, instance: instance ?? null, fleet, replica, version, message, resources };
    }
  }
}

export interface OverrideRouteView extends Pick<ControlPlaneView, 'decision' | 'statusOf'> {
  nowMs(): number;
}

/** Chosen: for more overrides, use `kubectl get rlo`, or request one domain after the other. */
const maxListed = 10_000;

/** `GET /v1/overrides`: the RateLimitOverrides of the cluster, with their status. */
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
function domainIn({ served, object: { spec } }: ObjectOutcome): string {
  return served?.domain ?? textIn(spec, 'domain') ?? '';
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
  const idle = accepted.status && isReady ? reported?.idle : undefined;
  const stateIfServed = !isReady ? 'Pending' : idle === undefined ? 'InForce' : 'NoRule';
  const state = accepted.status ? stateIfServed : isOver ? 'Ended' : accepted.reason;
  const message = idle ?? ready?.message ?? (accepted.status ? '' : accepted.message);
  const common = {
    id: uid,
    name: `${namespace}/${name}`,
    fleet: served?.fleet ?? textIn(spec, 'fleet') ?? null,
    state,
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
