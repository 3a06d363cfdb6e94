/** The note that a store keeps of a reservation under its id, for callers that settle it without descriptors. */
import type { BudgetQuestion, RecalledReservation, ReserveQuestion } from './budgets.ts';
import { sha256 } from './reservation-id.ts';

interface HeldNote extends BudgetQuestion {
  readonly unheld?: undefined;
}

/** The note of a reservation that no limit holds. */
interface UnheldNote {
  readonly domain: string;
  readonly unheld: {
    /** Of question, amount and TTL: the same reservation has the same hash. */
    readonly hash: string;
    readonly expiresAtMs: number;
  };
}

export function heldNoteOf({ domain, descriptors }: BudgetQuestion): string {
  return JSON.stringify({
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit })),
  });
}

/** Its size does not depend on the question. */
export function unheldNoteOf(
  question: Pick<ReserveQuestion, 'domain' | 'descriptors' | 'amounts' | 'amount'>,
  { ttlMs, expiresAtMs }: { ttlMs: number; expiresAtMs: number },
): string {
  const { amount, amounts } = question;
  const asked = JSON.stringify([
    heldNoteOf(question),
    amount,
    ttlMs,
    ...(amounts === undefined ? [] : [amounts]),
  ]);
  const note: UnheldNote = {
    domain: question.domain,
    unheld: { hash: sha256(asked, 'base64url'), expiresAtMs },
  };
  return JSON.stringify(note);
}

/** Undefined where the text is no note: something else wrote it. */
function noteFrom(text: string): HeldNote | UnheldNote | undefined {
  try {
    const note = JSON.parse(text);
    if (typeof note?.domain !== 'string') return undefined;
    return Array.isArray(note.descriptors) || typeof note.unheld?.hash === 'string' ? note : undefined;
  } catch {
    return undefined;
  }
}

/** Gives the question as it was asked; without descriptors where no limit held it. */
export function recalledFrom(text: string): RecalledReservation | undefined {
  const note = noteFrom(text);
  if (note === undefined) return undefined;
  if (note.unheld !== undefined) return { domain: note.domain, descriptors: [], isUnheld: true };
  const unsaid = { hitsAddend: undefined, isNegativeHits: false };
  return {
    domain: note.domain,
    descriptors: note.descriptors.map(({ entries, limit }) => ({ entries, limit, ...unsaid })),
    isUnheld: false,
  };
}

/** When the reservation of the note `known` ends, if `note` is of the same one and no limit held it; else undefined. */
export function endOfSame(known: string, note: string): number | undefined {
  const former = noteFrom(known);
  const asked = noteFrom(note);
  if (former?.unheld === undefined || asked?.unheld === undefined) return undefined;
  const isSame = former.domain === asked.domain && former.unheld.hash === asked.unheld.hash;
  return isSame ? former.unheld.expiresAtMs : undefined;
}
