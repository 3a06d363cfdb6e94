/** Two rule sets side by side: requests that one of them refuses and the other does not. */
import { Offenders } from './offenders.ts';
import type { RefusingHit, ReplayedRules } from './replayed-rules.ts';
import { newTimes, note, type Times } from './times.ts';

/** Requests on one side of the difference. */
export interface ChangedRequests {
  readonly requests: Times;
  /** Requests by the path of a rule that refused them. */
  readonly byRule: Map<string, number>;
  readonly offenders: Offenders;
}

export class RuleSetsDifference {
  /** Refused by the rules, and not by those that they are held against. */
  readonly newlyLimited = noChangedRequests();
  /** The other way round. */
  readonly noLongerLimited = noChangedRequests();

  /** Both have decided the same request. */
  compare(timeMs: number, rules: ReplayedRules, against: ReplayedRules): void {
    const [now, before] = [rules.refusing.length > 0, against.refusing.length > 0];
    if (now && !before) noteChanged(this.newlyLimited, rules.refusing, timeMs);
    if (before && !now) noteChanged(this.noLongerLimited, against.refusing, timeMs);
  }
}

function noChangedRequests(): ChangedRequests {
  return { requests: newTimes(), byRule: new Map(), offenders: new Offenders() };
}

function noteChanged(changed: ChangedRequests, refusing: readonly RefusingHit[], timeMs: number): void {
  note(changed.requests, timeMs);
  for (const path of new Set(refusing.map(({ tally }) => tally.path))) {
    changed.byRule.set(path, (changed.byRule.get(path) ?? 0) + 1);
  }
  const rules = new Map(refusing.map(({ counter, tally }) => [counter, tally.path]));
  for (const [counter, rule] of rules) changed.offenders.note(counter, rule, timeMs);
}
