/** The note that a store keeps of a reservation under its id, for callers that settle it without descriptors. */
import type { BudgetQuestion, RecalledReservation, ReserveQuestion } from './budgets.ts';
import { sha256 } from './reservation-id.ts';

interface ReservationNote extends BudgetQuestion {
  readonly unlimited?: undefined;
}

/** The note of a reservation that no limit holds. */
interface UnlimitedNote {
  readonly domain: string;
  readonly unlimited: {
    /** Of question, amount and TTL: the same reservation has the same hash. */
    readonly hash: string;
    readonly expiresAtMs: number;
  };
}

export function reservationNoteOf({ domain, descriptors }: BudgetQuestion): string {
  return JSON.stringify({
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit })),
  });
}

/** Its size does not depend on the question. */
export function unlimitedNoteOf(
  question: Pick<ReserveQuestion, 'domain' | 'descriptors' | 'amounts' | 'amount'>,
  { ttlMs, expiresAtMs }: { ttlMs: number; expiresAtMs: number },
): string {
  const { amount, amounts } = question;
  const asked = JSON.stringify([
    reservationNoteOf(question),
    amount,
    ttlMs,
    ...(amounts === undefined ? [] : [amounts]),
  ]);
  const note: UnlimitedNote = {
    domain: question.domain,
    unlimited: { hash: sha256(asked, 'base64url'), expiresAtMs },
  };
  return JSON.stringify(note);
}

/** Undefined where the text is no note: something else wrote it. */
function noteFrom(text: string): ReservationNote | UnlimitedNote | undefined {
  try {
    const note = JSON.parse(text);
    if (typeof note?.domain !== 'string') return undefined;
    return Array.isArray(note.descriptors) || typeof note.unlimited?.hash === 'string' ? note : undefined;
  } catch {
    return undefined;
  }
}

/** Gives the question as it was asked; without descriptors where no limit held it. */
export function recalledFrom(text: string): RecalledReservation | undefined {
  const note = noteFrom(text);
  if (note === undefined) return undefined;
  if (note.unlimited !== undefined) return { domain: note.domain, descriptors: [], isUnlimited: true };
  const unsaid = { hitsAddend: undefined, isNegativeHits: false };
  return {
    domain: note.domain,
    descriptors: note.descriptors.map(({ entries, limit }) => ({ entries, limit, ...unsaid })),
    isUnlimited: false,
  };
}

/** When the reservation of the note `known` ends, if `note` is of the same one and no limit held it; else undefined. */
export function endOfSame(known: string, note: string): number | undefined {
  const former = noteFrom(known);
  const asked = noteFrom(note);
  if (former?.unlimited === undefined || asked?.unlimited === undefined) return undefined;
  const isSame = former.domain === asked.domain && former.unlimited.hash === asked.unlimited.hash;
  return isSame ? former.unlimited.expiresAtMs : undefined;
}
