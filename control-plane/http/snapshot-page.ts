/**
 * `/snapshot`: text, or JSON with `?format=json` or `Accept: application/json`. `?fleet=` shows only one fleet. It is ordered by
 * fleet: the served rules, the limiters that get them, and the status of each object.
 */
import type { HttpCall } from '../../process/http/http-server.ts';
import { sendError, sendLines } from '../../process/http/text-response.ts';
import { defaultFleet } from '../../rules/language/kinds.ts';
import { type Condition, findCondition, objectKey, textIn } from '../model/config-object.ts';
import {
  acceptedRow,
  type ClusterDecision,
  type ObjectOutcome,
  type ServedConfig,
} from '../model/decision.ts';
import { emptySnapshot, type FleetSnapshot, type LimiterReport } from '../model/fleet-snapshot.ts';
import { rulesOfLimiter } from '../model/supported-rules.ts';
import type { ControlPlaneView } from './listener.ts';

/** Yields one JSON document, with a line for each entry, so that it can be written in slices. */
function* snapshotJson(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  const leader = view.leader() ?? null;
  const { replica, className, controllerName = null } = view;
  const head = { replica, leader, controllerName, className, listed: view.decision() !== undefined };
  yield `${JSON.stringify(head).slice(0, -1)},"fleets":[`;
  let separator = '';
  for (const { head, ...rows } of fleets) {
    yield `${separator}${JSON.stringify(head).slice(0, -1)}`;
    for (const [name, entries] of Object.entries(rows))
      yield* jsonArray(`,${JSON.stringify(name)}:`, entries);
    yield '}';
    separator = ',';
  }
  yield ']}';
}

/** Yields a JSON array after `start`, with a line for each entry. */
export function* jsonArray(start: string, entries: Iterable<unknown>): Generator<string> {
  yield `${start}[`;
  let separator = ' ';
  for (const entry of entries) {
    yield `${separator}${JSON.stringify(entry)}`;
    separator = ',';
  }
  yield ']';
}

/** Yields text for people: a block for each fleet, and a line for each entry. */
function* snapshotText(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  const { replica, className, controllerName } = view;
  const name = controllerName === undefined ? '' : ` of ${controllerName}`;
  yield `replica ${replica}${name}, class ${className}, leader ${view.leader() ?? 'unknown'}`;
  if (view.decision() === undefined) yield `no limiter gets rules: ${plain(view.missing().join('; '))}`;
  for (const { head, resources, limiters, objects } of fleets) {
    const { fleet, version, rules, bytes } = head;
    yield '';
    yield `fleet ${plain(fleet)}: ${version === null ? 'nothing served' : `version ${version}`}, ${counted(rules, 'rule')}, ${bytes} bytes`;
    for (const row of resources) yield resourceLine(row);
    for (const row of limiters) yield limiterLine(row);
    for (const row of objects) yield objectLine(row);
  }
}

function resourceLine({ name, domain, rules, hash, bytes }: ResourceRow): string {
  return `  resource ${plain(name)}: domain ${plain(domain)}, ${counted(rules, 'rule')}, ${bytes} bytes, hash ${hash}`;
}

function limiterLine(row: LimiterRow): string {
  const { acceptedVersion: version, refusal, capabilities } = row;
  const inForce = version === null ? 'nothing acknowledged' : `acknowledged ${plain(version)}`;
  const facts = [
    row.isCurrent ? `${inForce} (current)` : inForce,
    ...(refusal === null ? [] : [`rejected ${refusal.version}: ${plain(refusal.message)}`]),
    row.isWeir ? 'Weir' : 'not Weir',
    `${row.isTooOld ? 'does not support all rules, ' : ''}supports ${capabilities.length === 0 ? 'no capabilities' : capabilities.join(' ')}`,
    `at ${row.replica} since ${row.connectedSince}`,
  ];
  return `  limiter ${plain(row.name)}: ${facts.join(', ')}`;
}

function objectLine({ name, generation, accepted, served, programmed }: ObjectRow): string {
  const facts = [
    accepted.status ? 'accepted' : `not accepted (${accepted.reason}: ${plain(accepted.message)})`,
    served === null
      ? 'not served'
      : `served as generation ${served.generation}, ${counted(served.rules, 'rule')}, hash ${served.hash}`,
    ...(served === null || served.needs.length === 0
      ? []
      : [
          `needs ${served.needs.join(' ')}`,
          `other limiters get ${served.fallbackGeneration === null ? 'nothing' : `generation ${served.fallbackGeneration}`}`,
        ]),
    programmed === null
      ? 'programmed unknown'
      : programmed.status === 'True'
        ? 'programmed'
        : `not programmed (${programmed.reason}: ${plain(programmed.message)})`,
  ];
  return `  object ${plain(name)}: generation ${generation}, ${facts.join(', ')}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Cleans external names and messages, so that they cannot move a terminal's cursor, fake a line or reverse text. */
function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    if (character === '\n') return '\\n';
    const code = character.codePointAt(0) as number;
    return `\\u${code.toString(16).padStart(4, '0')}`;
  });
}

export async function answerSnapshot(call: HttpCall, view: ControlPlaneView): Promise<void> {
  const { target, request, response } = call;
  response.setHeader('Vary', 'Accept');
  const format = target.query.get('format') ?? acceptedFormat(request.headers.accept ?? '');
  if (format !== 'json' && format !== 'text') {
    sendError(response, 400, `format must be text or json, not ${JSON.stringify(format)}`);
    return;
  }
  const wanted = target.query.get('fleet');
  const fleets = fleetPages(view, wanted);
  if (wanted !== null && fleets.length === 0) {
    sendError(response, 404, `fleet ${JSON.stringify(wanted)} has neither limiters nor RateLimitConfigs`);
  } else if (format === 'json') await sendLines(response, snapshotJson(view, fleets), 'application/json');
  else await sendLines(response, snapshotText(view, fleets));
}

/**
 * Returns JSON if the header names it, and text for browsers and any type. RFC 9110, section 12.5.1. Weights other than 0 have no
 * effect.
 */
function acceptedFormat(accept: string): 'json' | 'text' {
  const namesJson = accept
    .split(',')
    .some((range) => /^\s*application\/json\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range));
  return namesJson ? 'json' : 'text';
}

interface Fleet {
  name: string;
  outcomes: ObjectOutcome[];
  limiters: { replica: string; limiter: LimiterReport }[];
}

/** Returns fleets by name; `wanted` selects one. An object of which nothing is served is listed in the fleet that it names. */
function fleetPages(view: ControlPlaneView, wanted: string | null): FleetPage[] {
  const decision = view.decision();
  const fleets = new Map<string, Fleet>();
  const fleetOf = (name: string): Fleet => {
    const fleet = fleets.get(name) ?? { name, outcomes: [], limiters: [] };
    fleets.set(name, fleet);
    return fleet;
  };
  for (const name of decision?.fleets.keys() ?? []) fleetOf(name);
  for (const outcome of decision?.outcomes.values() ?? []) {
    const name = outcome.served?.fleet ?? textIn(outcome.object.spec, 'fleet');
    fleetOf(name || defaultFleet).outcomes.push(outcome);
  }
  for (const { replica, limiters } of view.reports()) {
    for (const limiter of limiters) fleetOf(limiter.fleet).limiters.push({ replica, limiter });
  }
  return [...fleets.values()]
    .filter(({ name }) => wanted === null || name === wanted)
    .sort((a, b) => compare(a.name, b.name))
    .map((fleet) => fleetPage(fleet, decision, view));
}

type FleetPage = ReturnType<typeof fleetPage>;

/** Returns a fleet. Its rows are created while they are read, so that a page can be written in slices. */
function fleetPage(fleet: Fleet, decision: ClusterDecision | undefined, view: ControlPlaneView) {
  const snapshot = decision && (decision.fleets.get(fleet.name) ?? emptySnapshot);
  const rules = new Map<string, number>();
  for (const { served } of fleet.outcomes) {
    if (served !== undefined) rules.set(served.resource, (rules.get(served.resource) ?? 0) + served.rules);
  }
  return {
    /** The totals of the following rows; `version` is null before the first complete list. */
    head: {
      fleet: fleet.name,
      version: snapshot?.version ?? null,
      rules: sum(rules.values()),
      bytes: sum(snapshot?.resources.map(({ bytes }) => bytes.length) ?? []),
    },
    resources: resourceRows(snapshot, rules),
    limiters: limiterRows(fleet, decision),
    objects: objectRows(fleet, view),
  };
}

function* resourceRows(snapshot: FleetSnapshot | undefined, rules: ReadonlyMap<string, number>) {
  for (const { name, domain, hash, bytes } of snapshot?.resources ?? []) {
    yield { name, domain, rules: rules.get(name) ?? 0, hash, bytes: bytes.length };
  }
}

function* limiterRows({ limiters }: Fleet, decision: ClusterDecision | undefined) {
  limiters.sort((a, b) => compare(a.limiter.name, b.limiter.name) || compare(a.replica, b.replica));
  for (const { replica, limiter } of limiters) {
    const { name, isWeir, capabilities, connectedMs, acceptedVersion = null, refusal = null } = limiter;
    const { isTooOld = false, isCurrent = false } = rulesOfLimiter(limiter, decision) ?? {};
    yield {
      ...{ name, replica, isWeir, capabilities, isTooOld },
      connectedSince: new Date(connectedMs).toISOString(),
      /** Null if it has accepted nothing. */
      acceptedVersion,
      isCurrent,
      refusal,
    };
  }
}

function* objectRows({ outcomes }: Fleet, view: ControlPlaneView) {
  const keyed = outcomes.map((outcome) => ({ key: objectKey(outcome.object), outcome }));
  keyed.sort((a, b) => compare(a.key, b.key));
  for (const { key, outcome } of keyed) {
    const { object, accepted, served } = outcome;
    const programmed = findCondition(view.statusOf(object), 'Programmed');
    yield {
      name: key,
      generation: object.generation,
      accepted: acceptedRow(accepted),
      served: served === undefined ? null : servedRow(served),
      /** Null before the first status of the object. */
      programmed: programmed === undefined ? null : conditionRow(programmed),
    };
  }
}

function servedRow({ generation, domain, resource, rules, hash, needs, fallback }: ServedConfig) {
  /** The generation for limiters with fewer capabilities. Null: none, or the same one. */
  const fallbackGeneration = fallback?.generation ?? null;
  return { generation, domain, resource, rules, hash, needs, fallbackGeneration };
}

function conditionRow({ status, reason, message }: Condition) {
  return { status, reason, message };
}

type RowOf<Rows> = Rows extends Iterable<infer Row> ? Row : never;
type ResourceRow = RowOf<FleetPage['resources']>;
type LimiterRow = RowOf<FleetPage['limiters']>;
export type ObjectRow = RowOf<FleetPage['objects']>;

function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
