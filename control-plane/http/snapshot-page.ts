/** `/snapshot`: text, or JSON with `?format=json` or `Accept: application/json`; `?fleet=` shows one fleet alone. */
import type { HttpCall } from '../../process/http/http-server.ts';
import { sendError, sendLines } from '../../process/http/text-response.ts';
import type { ControlPlaneView } from './listener.ts';
import { type FleetPage, fleetPages } from './snapshot-fleets.ts';
import type { LimiterRow, ObjectRow, ResourceRow } from './snapshot-rows.ts';

/** One JSON document, an entry a line, so that it is written in slices. */
function* snapshotJson(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  const leader = view.leader() ?? null;
  const { replica, className, controllerName = null } = view;
  const head = { replica, leader, controllerName, className, listed: view.decision() !== undefined };
  yield `${JSON.stringify(head).slice(0, -1)},"fleets":[`;
  let separator = '';
  for (const { head, ...rows } of fleets) {
    yield `${separator}${JSON.stringify(head).slice(0, -1)}`;
    for (const [name, entries] of Object.entries(rows)) yield* jsonArray(name, entries);
    yield '}';
    separator = ',';
  }
  yield ']}';
}

/** The next field of an object that is open. */
function* jsonArray(name: string, entries: Iterable<unknown>): Generator<string> {
  yield `,${JSON.stringify(name)}:[`;
  let separator = ' ';
  for (const entry of entries) {
    yield `${separator}${JSON.stringify(entry)}`;
    separator = ',';
  }
  yield ']';
}

/** For people: a block for each fleet, a line for each entry. */
function* snapshotText(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  const { replica, className, controllerName } = view;
  const name = controllerName === undefined ? '' : ` of ${controllerName}`;
  yield `replica ${replica}${name}, class ${className}, leader ${view.leader() ?? 'unknown'}`;
  if (view.decision() === undefined) yield `nothing is served: ${plain(view.missing().join('; '))}`;
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
  const {
    name,
    replica,
    isWeir,
    capabilities,
    isTooOld,
    connectedSince,
    acceptedVersion,
    isCurrent,
    refusal,
  } = row;
  const inForce =
    acceptedVersion === null ? 'nothing acknowledged' : `acknowledged ${plain(acceptedVersion)}`;
  const facts = [
    isCurrent ? `${inForce} (current)` : inForce,
    ...(refusal === null ? [] : [`refused ${refusal.version}: ${plain(refusal.message)}`]),
    isWeir ? 'Weir' : 'not Weir',
    `${isTooOld ? 'too old for all rules, ' : ''}supports ${capabilities.length === 0 ? 'no capabilities' : capabilities.join(' ')}`,
    `at ${replica} since ${connectedSince}`,
  ];
  return `  limiter ${plain(name)}: ${facts.join(', ')}`;
}

function objectLine({ name, generation, accepted, served, programmed }: ObjectRow): string {
  const facts = [
    accepted.status ? 'accepted' : `not accepted (${accepted.reason}: ${plain(accepted.message)})`,
    served === null
      ? 'not served'
      : `served as generation ${served.generation}, ${counted(served.rules, 'rule')}, hash ${served.hash}${needsText(served)}`,
    programmed === null ? 'programmed unknown' : programmedText(programmed),
  ];
  return `  object ${plain(name)}: generation ${generation}, ${facts.join(', ')}`;
}

function needsText({ needs, fallbackGeneration }: NonNullable<ObjectRow['served']>): string {
  if (needs.length === 0) return '';
  return `, needs ${needs.join(' ')}, other limiters get ${fallbackGeneration === null ? 'nothing' : `generation ${fallbackGeneration}`}`;
}

function programmedText({ status, reason, message }: NonNullable<ObjectRow['programmed']>): string {
  return status === 'True' ? 'programmed' : `not programmed (${reason}: ${plain(message)})`;
}

function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

/** Names and messages come from outside: nothing in them moves a terminal's cursor, fakes a line or turns text around. */
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
  const fleets = fleetPages(view, wanted ?? undefined);
  if (wanted !== null && fleets.length === 0) {
    sendError(response, 404, `fleet ${JSON.stringify(wanted)} has neither limiters nor RateLimitConfigs`);
  } else if (format === 'json') await sendLines(response, snapshotJson(view, fleets), 'application/json');
  else await sendLines(response, snapshotText(view, fleets));
}

/** JSON for who names it, text for browsers and any type. RFC 9110, section 12.5.1; weights other than 0 do not matter. */
function acceptedFormat(accept: string): 'json' | 'text' {
  const namesJson = accept
    .split(',')
    .some((range) => /^\s*application\/json\s*(;|$)/i.test(range) && !/;\s*q=0(\.0*)?\s*(;|$)/i.test(range));
  return namesJson ? 'json' : 'text';
}
