/** The note that a store keeps under a reservation's id, for callers that settle it without descriptors. */
import type { BudgetRequest, RecalledReservation, ReserveRequest } from './budgets.ts';
import { sha256 } from './reservation-id.ts';

interface ReservationNote extends BudgetRequest {
  readonly unlimited?: undefined;
}

/** The note of a reservation to which no limit applies. */
interface UnlimitedNote {
  readonly domain: string;
  readonly unlimited: {
    /** The hash of question, amount and TTL, which is the same for the same reservation. */
    readonly hash: string;
    readonly expiresAtMs: number;
  };
}

export function reservationNoteOf({ domain, descriptors }: BudgetRequest): string {
  return JSON.stringify({
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit })),
  });
}

/** Returns a note whose size does not depend on the question. */
export function unlimitedNoteOf(
  question: Pick<ReserveRequest, 'domain' | 'descriptors' | 'amounts' | 'amount'>,
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

/** Returns undefined if the text is not a note, but written by another program. */
function noteFrom(text: string): ReservationNote | UnlimitedNote | undefined {
  try {
    const note = JSON.parse(text);
    if (typeof note?.domain !== 'string') return undefined;
    return Array.isArray(note.descriptors) || typeof note.unlimited?.hash === 'string' ? note : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the original question, without descriptors if no limit applied. */
export function recalledFrom(text: string): RecalledReservation | undefined {
  const note = noteFrom(text);
  if (note === undefined) return undefined;
  if (note.unlimited !== undefined) return { domain: note.domain, descriptors: [], isUnlimited: true };
  const withoutHits = { hitsAddend: undefined, isNegativeHits: false };
  return {
    domain: note.domain,
    descriptors: note.descriptors.map(({ entries, limit }) => ({ entries, limit, ...withoutHits })),
    isUnlimited: false,
  };
}

/**
 * Returns the end of the reservation of the note `known` if `note` is for the same one and no limit applied to it; otherwise undefined.
 */
export function endOfSame(known: string, note: string): number | undefined {
  const former = noteFrom(known);
  const asked = noteFrom(note);
  if (former?.unlimited === undefined || asked?.unlimited === undefined) return undefined;
  const isSame = former.domain === asked.domain && former.unlimited.hash === asked.unlimited.hash;
  return isSame ? former.unlimited.expiresAtMs : undefined;
}
