/** Calls about a reservation with counters in several places. */
import {
  copyOperation,
  failAll,
  newHold,
  newReservation,
  type Operation,
  type ReservationHold,
} from './operation.ts';

export interface ReservationPlaces {
  /** Returns equal values for counters that one call to a store can handle together. */
  readonly placeOf: (op: Operation) => unknown;
  /** Asks one place. */
  readonly submit: (ops: Operation[], done: () => void) => void;
}

/**
 * Each place decides on its own. A reserve asks one place after another, in the order of the counters. If one place rejects the amount,
 * the earlier places return what they charged. So nothing is overspent, but other calls may be rejected too early, and a crash leaves
 * amounts reserved until their TTL. Repeating a call completes a partial one.
 */
export function submitSpread(ops: readonly Operation[], places: ReservationPlaces, done: () => void): void {
  const parts = [...Map.groupBy(ops, places.placeOf).values()];
  if (parts.length === 1) {
    places.submit(parts[0]!, done);
    return;
  }
  const { verb } = ops[0]!;
  const asked =
    verb === 'reserve'
      ? reserve(ops, parts, places)
      : verb === 'commit'
        ? commit(ops, parts, places)
        : askAll(parts, {}, places);
  void asked.then(done);
}

function holdOf(ops: readonly Operation[]): ReservationHold {
  return ops[0]!.hold!;
}

/** Asks one place with these terms instead of those of the call, and passes on the answers. */
async function ask(
  part: Operation[],
  terms: Partial<ReservationHold['reservation']>,
  { submit }: ReservationPlaces,
): Promise<ReservationHold['reservation']> {
  const whole = holdOf(part).reservation;
  const own = newReservation({ ...whole, ...terms });
  for (const { hold } of part) hold!.reservation = own;
  await new Promise<void>((resolve) => submit(part, resolve));
  for (const { hold } of part) hold!.reservation = whole;
  return own;
}

async function askAll(
  parts: readonly Operation[][],
  terms: Partial<ReservationHold['reservation']>,
  places: ReservationPlaces,
): Promise<readonly ReservationHold['reservation'][]> {
  const answers = await Promise.all(parts.map((part) => ask(part, terms, places)));
  const failed = parts.flat().find(({ error }) => error !== undefined)?.error;
  if (failed !== undefined) failAll(parts.flat(), failed);
  return answers;
}

/**
 * Commits or releases in all places. Each place checks whether the call names all descriptors of the reservation. A place that does
 * not know the id cannot check it, so its counters are charged after no other place has objected.
 */
async function commit(
  ops: readonly Operation[],
  parts: readonly Operation[][],
  places: ReservationPlaces,
): Promise<void> {
  const call = holdOf(ops).reservation;
  const mayCharge = call.unknown === 'charge' && !call.isMarker;
  let answers = await askAll(parts, mayCharge ? { unknown: 'report' } : {}, places);
  const failed = ops.some(({ error }) => error !== undefined);
  if (mayCharge && !failed && answers.every(({ commitOutcome }) => commitOutcome !== 'partial')) {
    const unknown = parts.map((part) => part.filter(isUnknown)).filter((part) => part.length > 0);
    const expired = unknown.flat().map(({ hold }) => hold!.givenBack);
    const charged = await askAll(unknown, {}, places);
    const error = unknown.flat().find((op) => op.error !== undefined)?.error;
    if (error !== undefined) failAll(ops, error);
    for (const [i, { hold }] of unknown.flat().entries()) hold!.givenBack += expired[i]!;
    if (charged.length > 0)
      answers = [...answers.filter(({ commitOutcome }) => commitOutcome !== 'unknown'), ...charged];
  }
  const first = answers.find(({ commitOutcome }) => commitOutcome !== 'unknown') ?? answers[0]!;
  call.charged = first.charged;
  call.amount = first.amount;
  call.commitOutcome =
    firstOutcomes.find((one) => answers.some(({ commitOutcome }) => commitOutcome === one)) ?? 'unknown';
  call.reservedDescriptors = Math.max(...answers.map(({ reservedDescriptors }) => reservedDescriptors));
}

/** Whether no reservation of the id was found on its counter. */
function isUnknown({ hold }: Operation): boolean {
  return hold!.outcome === 'untouched' && hold!.amount !== undefined;
}

async function reserve(
  ops: readonly Operation[],
  parts: readonly Operation[][],
  places: ReservationPlaces,
): Promise<void> {
  const call = holdOf(ops).reservation;
  const made: { part: Operation[]; isNew: boolean }[] = [];
  const otherQuotaPasses = call.otherQuotaPasses || ops.some(mayBeOverQuota);
  let expiresAtMs = 0;
  let isRejected = false;
  for (const part of parts) {
    const note = made.length === 0 ? call.note : undefined;
    const answer = await ask(part, { otherQuotaPasses, note }, places);
    const { error } = part[0]!;
    call.outcome = answer.outcome;
    call.full = answer.full;
    isRejected = error !== undefined || (answer.outcome !== 'reserved' && answer.outcome !== 'repeated');
    if (isRejected) break;
    if (made.length === 0) expiresAtMs = answer.expiresAtMs;
    made.push({ part, isNew: answer.outcome === 'reserved' });
  }
  if (!isRejected && !call.otherQuotaPasses && noQuotaPasses(ops)) {
    call.outcome = 'refused';
    isRejected = true;
  }
  if (!isRejected) {
    call.outcome = made.some(({ isNew }) => isNew) ? 'reserved' : 'repeated';
    call.expiresAtMs = expiresAtMs;
    return;
  }
  call.expiresAtMs = 0;
  const rejecting = parts[made.length];
  const error = rejecting?.[0]?.error;
  await Promise.all(made.map(({ part, isNew }) => (isNew ? undo(part, places) : undefined)));
  if (error !== undefined) {
    failAll(ops, error);
    return;
  }
  // All of these places read their counters, and the commit of a marker must charge nothing there either.
  const { outcome } = call;
  await Promise.all(
    parts.map((part) => {
      if (part === rejecting) return undefined;
      if (outcome === 'conflict') return look(part, places);
      // These places already remember this for a marker that they left out.
      const asked = call.isMarker ? part.filter(({ hold }) => hold!.outcome !== 'left-out') : part;
      if (asked.length === 0) return undefined;
      return ask(asked, { note: undefined, isOverLimitElsewhere: true }, places);
    }),
  );
}

async function look(part: Operation[], places: ReservationPlaces): Promise<void> {
  for (const op of part) op.verb = 'look';
  await ask(part, {}, places);
  for (const op of part) op.verb = 'reserve';
}

/** Undoes what a call just reserved in all of its places. */
export async function undoSpread(ops: readonly Operation[], places: ReservationPlaces): Promise<void> {
  await Promise.all([...Map.groupBy(ops, places.placeOf).values()].map((part) => undo(part, places)));
}

/** Undoes a part, but not earlier reservations: if a marker was left out, its youngest reservation does not belong to this call. */
async function undo(part: readonly Operation[], places: ReservationPlaces): Promise<void> {
  const { isMarker } = holdOf(part).reservation;
  const charged = isMarker ? part.filter(({ hold }) => hold!.outcome === 'charged') : part;
  if (charged.length === 0) return;
  const undoing = charged.map((op) => {
    const copy = copyOperation(op, 'commit', 0);
    copy.hold = newHold({ ...op.hold!, amount: 0 });
    return copy;
  });
  await ask(undoing, { unknown: 'report', undoes: true }, places);
}

const firstOutcomes = ['partial', 'settled', 'late', 'repeated'] as const;

function mayBeOverQuota({ hold }: Operation): boolean {
  return hold!.isQuota && !hold!.isShadow;
}

function noQuotaPasses(ops: readonly Operation[]): boolean {
  const quotas = ops.filter(mayBeOverQuota);
  return quotas.length > 0 && quotas.every(({ hold }) => hold!.outcome === 'left-out');
}
