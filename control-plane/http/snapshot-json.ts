import type { ControlPlaneView } from './control-plane-view.ts';
import type { FleetPage } from './snapshot-fleets.ts';

/** One JSON document, an entry a line, so that it is written in slices. */
export function* snapshotJson(view: ControlPlaneView, fleets: Iterable<FleetPage>): Generator<string> {
  const leader = view.leader() ?? null;
  const head = { replica: view.replica, leader, listed: view.decision() !== undefined };
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
