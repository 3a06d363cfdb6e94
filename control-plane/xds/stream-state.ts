export type StreamPhase = 'waiting' | 'settled' | 'in flight';

/**
 * Decides the next response of a limiter's stream, and interprets its requests. Pure: it works on versions.
 *
 *   waiting ──subscribe──> settled ──send──> in flight ──accept──> settled
 *                             ^                  └──────reject───────┘
 *
 * - One response is in flight at a time. Versions that are offered meanwhile replace each other: only the newest one is due.
 * - Nothing is due before a version was offered, because an empty response would mean no limits.
 * - A version is due once. A rejected version becomes due again only after another one was sent, or when the limiter requests it.
 * - A request is an answer only if it has the nonce of the response in flight. Other nonces belong to older responses or to another stream
 *   (clients repeat the last one when they reconnect), or the request changes the subscription.
 */
export class DiscoveryStreamState {
  readonly #noncePrefix: string;
  #phase: StreamPhase = 'waiting';
  #offered: string | undefined;
  #sent: { version: string; nonce: string } | undefined;
  #sends = 0;
  #isAskedFor = false;

  /** `noncePrefix` must be different for every stream of every replica. */
  constructor(noncePrefix: string) {
    this.#noncePrefix = noncePrefix;
  }

  get phase(): StreamPhase {
    return this.#phase;
  }

  /** The version of the response in flight, or of the last one. */
  get sentVersion(): string | undefined {
    return this.#sent?.version;
  }

  /** Returns whether the version that was offered last must be sent now. */
  get isDue(): boolean {
    if (this.#phase !== 'settled' || this.#offered === undefined) return false;
    return this.#isAskedFor || this.#offered !== this.#sent?.version;
  }

  /** Handles the first request for our type, regardless of its version and nonce. */
  subscribe(): void {
    if (this.#phase !== 'waiting') throw new Error('the stream is subscribed already');
    this.#phase = 'settled';
  }

  /** Sets the version that the limiter should have in force from now on. */
  offer(version: string): void {
    this.#offered = version;
  }

  /** The limiter requests the offered version, even if it was sent that version before. */
  ask(): void {
    this.#isAskedFor = true;
  }

  /** Sends the due version, which is then in flight. */
  send(): { version: string; nonce: string } {
    if (!this.isDue) throw new Error('nothing is due');
    this.#sends++;
    this.#isAskedFor = false;
    this.#sent = { version: this.#offered as string, nonce: `${this.#noncePrefix}.${this.#sends}` };
    this.#phase = 'in flight';
    return this.#sent;
  }

  /** Handles a further request for our type. Returns the version that it answers. Undefined if it answers no response. */
  answer(nonce: string): string | undefined {
    if (this.#phase !== 'in flight' || this.#sent?.nonce !== nonce) return undefined;
    this.#phase = 'settled';
    return this.#sent.version;
  }
}
