/** What a store keeps of a reservation by its id, for who settles it without domain and descriptors. */
import type { BudgetQuestion, RecalledReservation } from './budgets.ts';

/** Of a reservation that no limit holds: nothing else is kept of it. */
interface Unheld {
  readonly amount: number;
  readonly ttlMs: number;
  readonly expiresAtMs: number;
}

interface Note extends BudgetQuestion {
  readonly unheld?: Unheld;
}

export function noteOf({ domain, descriptors }: BudgetQuestion, unheld?: Unheld): string {
  return JSON.stringify({
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit })),
    unheld,
  });
}

/** Undefined: nobody's note; somebody else wrote it where notes are kept. */
function noteFrom(text: string): Note | undefined {
  try {
    const note = JSON.parse(text);
    return typeof note?.domain === 'string' && Array.isArray(note.descriptors) ? note : undefined;
  } catch {
    return undefined;
  }
}

/** The question as it was asked. */
export function recalledFrom(text: string): RecalledReservation | undefined {
  const note = noteFrom(text);
  if (note === undefined) return undefined;
  const { domain, descriptors, unheld } = note;
  const unsaid = { hitsAddend: undefined, isNegativeHits: false };
  return {
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit, ...unsaid })),
    isUnheld: unheld !== undefined,
  };
}

/** When the reservation that `known` is the note of ends, if `note` asks for the same and no limit held it; else undefined. */
export function endOfSame(known: string, note: string): number | undefined {
  const former = noteFrom(known);
  const asked = noteFrom(note)?.unheld;
  if (former?.unheld === undefined || asked === undefined) return undefined;
  const { unheld, ...question } = former;
  const { expiresAtMs } = unheld;
  return noteOf(question, { ...unheld, expiresAtMs: asked.expiresAtMs }) === note ? expiresAtMs : undefined;
}
