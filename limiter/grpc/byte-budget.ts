/** Where bytes that are held come from, and go back to. */
export interface ByteAllowance {
  /** False, and nothing is taken, when there is not so much left. */
  take(bytes: number): boolean;
  give(bytes: number): void;
}

/** Bytes that may be held. Pure. */
export class ByteBudget implements ByteAllowance {
  #leftBytes: number;

  constructor(maxBytes: number) {
    this.#leftBytes = maxBytes;
  }

  get leftBytes(): number {
    return this.#leftBytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#leftBytes) return false;
    this.#leftBytes -= bytes;
    return true;
  }

  give(bytes: number): void {
    this.#leftBytes += bytes;
  }
}

/** A budget of which nobody gets more than a share. */
export class SharedByteBudget {
  readonly #whole: ByteBudget;
  readonly #shareBytes: number;
  readonly #shares = new WeakMap<object, BudgetShare>();

  constructor({ maxBytes, shareBytes }: { maxBytes: number; shareBytes: number }) {
    this.#whole = new ByteBudget(maxBytes);
    this.#shareBytes = shareBytes;
  }

  /** The same for the same owner. */
  shareOf(owner: object): ByteAllowance {
    let share = this.#shares.get(owner);
    if (share === undefined) {
      share = new BudgetShare(this.#whole, this.#shareBytes);
      this.#shares.set(owner, share);
    }
    return share;
  }
}

class BudgetShare implements ByteAllowance {
  readonly #whole: ByteBudget;
  readonly #own: ByteBudget;

  constructor(whole: ByteBudget, shareBytes: number) {
    this.#whole = whole;
    this.#own = new ByteBudget(shareBytes);
  }

  take(bytes: number): boolean {
    if (!this.#own.take(bytes)) return false;
    if (this.#whole.take(bytes)) return true;
    this.#own.give(bytes);
    return false;
  }

  give(bytes: number): void {
    this.#own.give(bytes);
    this.#whole.give(bytes);
  }
}
