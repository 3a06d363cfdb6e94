/** The ids of reservations: those made by Weir, those chosen by callers, and their form in a store. */
import { createHash } from 'node:crypto';

/** The form of an id in a request. */
export const reservationIdForm = /^[\x21-\x7e]{1,255}$/;

/** The prefix of ids made by Weir. Callers may not choose such ids. */
const madePrefix = 'w1.';
/** The prefix for reservations that hold nothing: there is nothing to settle, and no store is asked. */
const nothingPrefix = 'w0.';

const firstCharacter = madePrefix.charCodeAt(0);

const domainHexDigits = 8;
/** 132 bits, so that different domains have different scopes, even if an attacker chooses the domains. */
const scopeCharacters = 22;
/** Chosen: the number of domains whose hashes are stored. */
const maxDomains = 1_000;

/** Returns the kind of an id: `made` and `nothing` are Weir's own. */
export function kindOfId(id: string): 'made' | 'nothing' | 'chosen' {
  // Most ids of callers differ in the first character, which is cheaper to compare.
  if (id.charCodeAt(0) !== firstCharacter) return 'chosen';
  if (id.startsWith(madePrefix)) return 'made';
  return id.startsWith(nothingPrefix) ? 'nothing' : 'chosen';
}

interface DomainHash {
  /** The hash of a domain in ids. */
  readonly hex: string;
  /** The prefix of ids that callers choose. */
  readonly scope: string;
}

/** Creates and scopes ids. Hashes each domain once. */
export class ReservationIds {
  /** Returns 128 random bits as 32 hexadecimal digits. */
  readonly #random: () => string;
  readonly #hashes = new Map<string, DomainHash>();

  constructor(random: () => string) {
    this.#random = random;
  }

  make(domain: string): string {
    return `${madePrefix}${this.#hashOf(domain).hex}.${this.#random()}`;
  }

  /** `chosen`: the caller's id, from which the result is always the same. */
  makeForNothing(domain: string, chosen: string | undefined): string {
    const { hex, scope } = this.#hashOf(domain);
    const rest = chosen === undefined ? this.#random() : sha256(`${scope}${chosen}`, 'hex').slice(0, 32);
    return `${nothingPrefix}${hex}.${rest}`;
  }

  /** Returns the id for the store, in which equal ids that callers choose in two domains differ. */
  inStore(domain: string, id: string): string {
    return kindOfId(id) === 'made' ? id : this.#hashOf(domain).scope + id;
  }

  #hashOf(domain: string): DomainHash {
    const known = this.#hashes.get(domain);
    if (known !== undefined) return known;
    const digest = createHash('sha256').update(domain).digest();
    const hash = {
      hex: digest.toString('hex').slice(0, domainHexDigits),
      scope: digest.toString('base64url').slice(0, scopeCharacters),
    };
    if (this.#hashes.size >= maxDomains) this.#hashes.clear();
    this.#hashes.set(domain, hash);
    return hash;
  }
}

export function sha256(text: string, encoding: 'hex' | 'base64url'): string {
  return createHash('sha256').update(text).digest(encoding);
}
