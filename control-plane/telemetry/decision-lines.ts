import type { Logger } from '../../process/log/logger.ts';
import { objectKey } from '../model/config-object.ts';
import type { Decision, Verdict } from '../model/decision.ts';
import * as lines from './log-lines.ts';

/** Logs what is news in a decision: fleets that are served something else, and objects that are turned down. */
export class DecisionLines {
  readonly #log: Logger;
  #last: Decision | undefined;

  constructor(log: Logger) {
    this.#log = log;
  }

  /** Returns how many fleets are served something else now. */
  decided(decision: Decision, durationMs: number): number {
    const last = this.#last;
    this.#last = decision;
    const changedFleets = changedNames(decision, last);
    if (last === undefined || changedFleets > 0) {
      const { verdicts, fleets } = decision;
      lines.decided(this.#log, { objects: verdicts.size, fleets: fleets.size, changedFleets, durationMs });
    }
    for (const [uid, verdict] of decision.verdicts) this.#verdict(verdict, last?.verdicts.get(uid));
    return changedFleets;
  }

  #verdict({ object, accepted, served }: Verdict, last: Verdict | undefined): void {
    if (accepted.status) {
      if (last?.accepted.status === false)
        lines.objectAccepted(this.#log, objectKey(object), object.generation);
      return;
    }
    const { reason, message } = accepted;
    const before = last?.accepted;
    if (before?.status === false && before.message === message) return;
    const { generation } = object;
    lines.objectRejected(this.#log, {
      object: objectKey(object),
      generation,
      inForce: served?.generation,
      reason,
      message,
    });
  }
}

function changedNames({ fleets }: Decision, last: Decision | undefined): number {
  const names = new Set([...fleets.keys(), ...(last?.fleets.keys() ?? [])]);
  return [...names].filter((name) => fleets.get(name)?.version !== last?.fleets.get(name)?.version).length;
}
