import type { ConfigObject, StatusObject } from '../../control-plane/model/config-object.ts';
import {
  type StatusWrite,
  type WriteEnd,
  WriteLedger,
  type WriteObservation,
} from '../../control-plane/model/write-ledger.ts';
import { sameStatus } from '../../control-plane/reconcile/conditions.ts';
import type { Clock } from '../../process/time/clock.ts';

/** A RateLimitConfig of its first generation with one rule, `key`, for the domain `shop`; other traits as given. */
export function configObject(traits: Partial<ConfigObject> & { name: string }): ConfigObject {
  const namespace = traits.namespace ?? 'default';
  return {
    namespace,
    uid: `uid-${namespace}-${traits.name}`,
    generation: 1,
    createdMs: 0,
    spec: configSpec(),
    status: undefined,
    ...traits,
  };
}

/** Writes of statuses, with the newest ledger of them. */
export class ConfigWrites {
  readonly #clock: Clock;
  ledger = WriteLedger.empty<StatusObject>(sameStatus);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends a write. Call the returned function with its outcome. */
  begin(write: StatusWrite<ConfigObject>): (end: WriteEnd) => void {
    this.ledger = this.ledger.begun(write);
    return (end) => {
      this.ledger = this.ledger.ended(write, end, this.#clock.nowMs());
    };
  }

  look(shown: ConfigObject): { known: ConfigObject; found?: WriteObservation<ConfigObject> } {
    const { writes, ...seen } = this.ledger.look(shown, this.#clock.nowMs());
    this.ledger = writes;
    return seen;
  }

  mayWrite(known: ConfigObject): boolean {
    return this.ledger.mayWrite(known, this.#clock.nowMs());
  }
}

export interface SpecTraits {
  domain?: string;
  fleet?: string;
  /** Keys of the rules on the top level. */
  keys?: string[];
  requestsPerUnit?: number;
  /** Of all its limits. */
  algorithm?: 'SlidingWindow';
}

/** A valid spec, as it comes from the API server. */
export function configSpec(traits: SpecTraits = {}): Record<string, unknown> {
  const { domain = 'shop', fleet, keys = ['key'], requestsPerUnit = 10, algorithm } = traits;
  const rateLimit = { unit: 'minute', requestsPerUnit, ...(algorithm && { algorithm }) };
  const descriptors = keys.map((key) => ({ key, rateLimit }));
  return { ...(fleet === undefined ? {} : { fleet }), domain, descriptors };
}

/** A spec without the domain that it needs. */
export function invalidSpec(): Record<string, unknown> {
  return { descriptors: [{ key: '' }] };
}
