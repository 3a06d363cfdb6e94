import type { ControlPlaneView } from './control-plane-view.ts';
import type { FleetPage } from './snapshot-fleets.ts';
import type { LimiterRow, ObjectRow, ResourceRow } from './snapshot-rows.ts';

/** For people: a block for each fleet, a line for each entry. */
export function* snapshotText(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  yield `replica ${view.replica}, leader ${view.leader() ?? 'unknown'}`;
  if (view.decision() === undefined)
    yield 'the first complete list of RateLimitConfigs is not in: nothing is served';
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
  const { name, replica, isWeir, connectedSince, acceptedVersion, isCurrent, refusal } = row;
  const inForce =
    acceptedVersion === null ? 'nothing acknowledged' : `acknowledged ${plain(acceptedVersion)}`;
  const facts = [
    isCurrent ? `${inForce} (current)` : inForce,
    ...(refusal === null ? [] : [`refused ${refusal.version}: ${plain(refusal.message)}`]),
    isWeir ? 'Weir' : 'not Weir',
    `at ${replica} since ${connectedSince}`,
  ];
  return `  limiter ${plain(name)}: ${facts.join(', ')}`;
}

function objectLine({ name, generation, accepted, served, programmed }: ObjectRow): string {
  const facts = [
    accepted.status ? 'accepted' : `not accepted (${accepted.reason}: ${plain(accepted.message)})`,
    served === null
      ? 'not served'
      : `served as generation ${served.generation}, ${counted(served.rules, 'rule')}, hash ${served.hash}`,
    programmed === null ? 'programmed unknown' : programmedText(programmed),
  ];
  return `  object ${plain(name)}: generation ${generation}, ${facts.join(', ')}`;
}

function programmedText({ status, reason, message, limiters }: NonNullable<ObjectRow['programmed']>): string {
  const summary = limiters === null ? '' : ` ${limiters}`;
  if (status === 'True') return `programmed${summary}`;
  return `not programmed${summary} (${reason}: ${plain(message)})`;
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
