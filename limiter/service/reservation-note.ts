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

/** The question as it was asked. */
export function recalledFrom(note: string): RecalledReservation {
  const { domain, descriptors, unheld } = JSON.parse(note) as Note;
  const unsaid = { hitsAddend: undefined, isNegativeHits: false };
  return {
    domain,
    descriptors: descriptors.map(({ entries, limit }) => ({ entries, limit, ...unsaid })),
    isUnheld: unheld !== undefined,
  };
}

/** When the reservation that `known` is the note of ends, if `note` asks for the same and no limit held it; else undefined. */
export function endOfSame(known: string, note: string): number | undefined {
  const { unheld, ...question } = JSON.parse(known) as Note;
  const { unheld: asked } = JSON.parse(note) as Note;
  if (unheld === undefined || asked === undefined) return undefined;
  const { expiresAtMs } = unheld;
  return noteOf(question, { ...unheld, expiresAtMs: asked.expiresAtMs }) === note ? expiresAtMs : undefined;
}
