/** Warns at each load which rules cannot be assigned to quota clients, before a client asks for them. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Logger } from '../../process/log/logger.ts';
import { passesAll, whyUnassignable } from '../../rules/bucket-id.ts';
import type { Rule } from '../../rules/model.ts';
import { lines } from './lines.ts';

/** Chosen: there may be 100,000 rules, and callers wait meanwhile. */
const rulesOfTurn = 500;

/** Rules as a table lists them; the row of a domain has no rule. */
interface ListedRules {
  listedRules(): Iterable<{ readonly path: string; readonly rule: Rule | undefined }>;
}

export class UnassignedRules {
  readonly #log: Logger;
  /** The answer of quota clients to requests for these rules. */
  readonly #answer: 'allow' | 'deny';
  /** Why no rule can be assigned. */
  readonly #whyNone: string | undefined;
  #current: object | undefined;
  /** The last warning; it is not repeated. */
  #logged = '';

  constructor(log: Logger, answer: 'allow' | 'deny', whyNone: string | undefined) {
    this.#log = log;
    this.#answer = answer;
    this.#whyNone = whyNone;
  }

  /** Looks for such rules in turns, until they are replaced. */
  async warn(table: ListedRules): Promise<void> {
    this.#current = table;
    let [count, looked] = [0, 0];
    let first: { path: string; why: string } | undefined;
    for (const { path, rule } of table.listedRules()) {
      if (++looked % rulesOfTurn === 0) await nextTurn();
      if (this.#current !== table) return;
      if (rule === undefined || rule.limits.length === 0) continue;
      const why = whyUnassignable(rule)?.why ?? (passesAll(rule) ? undefined : this.#whyNone);
      if (why === undefined) continue;
      count += 1;
      first ??= { path, why };
    }
    const warning = first === undefined ? '' : `${count} ${first.path} ${first.why}`;
    if (first !== undefined && warning !== this.#logged) {
      const { path, why } = first;
      lines.rulesNotAssigned(this.#log, { why, rules: count, first: path, answer: this.#answer });
    }
    this.#logged = warning;
  }
}
