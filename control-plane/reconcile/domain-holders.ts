import { byAge } from '../model/config-object.ts';
import type { Claim } from './claim.ts';

/** Why a claim cannot stand beside those that hold the domain. */
export interface Clash {
  holder: Claim;
  /** The top-level rule that both have; undefined where a domain has one holder only. */
  key: string | undefined;
}

/** The claims that one domain of one fleet is given to: one, or with merging several without a common top-level rule. */
export class DomainHolders {
  readonly #isShared: boolean;
  #claims: Claim[] = [];
  /** Made when it is first asked for: most domains have one holder for good. */
  #holderOfKey: Map<string, Claim> | undefined;

  constructor(isShared: boolean) {
    this.#isShared = isShared;
  }

  /** In no order. */
  get claims(): readonly Claim[] {
    return this.#claims;
  }

  /** What another object holds that `claim` cannot stand beside; of several such objects the oldest. */
  clash(claim: Claim): Clash | undefined {
    const [first] = this.#claims;
    if (first === undefined) return undefined;
    if (!this.#isShared) return isOneObject(first, claim) ? undefined : { holder: first, key: undefined };
    this.#holderOfKey ??= holdersByKey(this.#claims);
    let clash: Clash | undefined;
    for (const key of claim.rules.topKeys) {
      const holder = this.#holderOfKey.get(key);
      if (holder === undefined || isOneObject(holder, claim)) continue;
      if (clash === undefined || byAge(holder.object, clash.holder.object) < 0) clash = { holder, key };
    }
    return clash;
  }

  /** For claims without a clash. */
  add(claim: Claim): void {
    this.#claims.push(claim);
    if (this.#holderOfKey === undefined) return;
    for (const key of claim.rules.topKeys) this.#holderOfKey.set(key, claim);
  }

  remove(claim: Claim): void {
    this.#claims = this.#claims.filter((one) => one !== claim);
    this.#holderOfKey = undefined;
  }
}

function holdersByKey(claims: readonly Claim[]): Map<string, Claim> {
  return new Map(claims.flatMap((claim) => claim.rules.topKeys.map((key) => [key, claim] as const)));
}

function isOneObject(a: Claim, b: Claim): boolean {
  return a.object.uid === b.object.uid;
}
