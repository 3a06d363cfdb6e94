/** The stream between a limiter and a replica, in memory: it may be silent, and each side may stand still or end. */
import type { CallListener, DiscoveryCall } from '../../control-plane/xds/limiter-stream.ts';
import type {
  AdsStreamEvents,
  DiscoveryStream,
  StreamEnd,
} from '../../limiter/config-source/xds/ads-stream.ts';
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import type { SimulatedProcess, VirtualTime } from './virtual-time.ts';

export interface LinkOptions {
  time: VirtualTime;
  limiter: SimulatedProcess;
  replica: SimulatedProcess;
  /** As the replica sees it. */
  peer: string;
  events: AdsStreamEvents;
  /** Called when the replica knows whose stream it is. */
  known(): void;
}

const delayMs = 1;

export class MemoryLink implements DiscoveryStream {
  readonly options: LinkOptions;
  readonly call: DiscoveryCall;
  #listener: CallListener | undefined;
  /** Nothing passes, and nobody is notified. */
  #isSilent = false;
  readonly #held: (() => void)[] = [];
  #isPaused = false;
  readonly #paused: Uint8Array[] = [];
  #isOpen = false;
  #isKnown = false;
  /** Each side hears of one end. */
  #isOverForLimiter = false;
  #isOverForReplica = false;

  constructor(options: LinkOptions) {
    this.options = options;
    const { peer } = options;
    this.call = {
      peer,
      follow: (listener) => {
        this.#listener = listener;
      },
      send: (bytes, taken) => {
        options.time.after(0, () => options.replica.deliver(taken));
        this.#toLimiter(() => this.#receive(bytes));
      },
      end: () => {
        this.#endForLimiter({ code: GrpcCode.CANCELLED, message: 'the server ended the stream' });
        this.#closeForReplica(false);
      },
      fail: (status) => {
        this.#endForLimiter(status);
        this.#closeForReplica(false);
      },
      cut: () => this.break(),
      hold: () => {},
    };
  }

  /** Whether the replica has the stream and knows whose it is: before the first message it does not. */
  get isKnown(): boolean {
    return this.#isKnown && !this.#isOverForReplica;
  }

  get isOverForLimiter(): boolean {
    return this.#isOverForLimiter;
  }

  /** The replica has taken the connection. */
  opened(): void {
    this.#isOpen = true;
    this.#toLimiter(() => {
      if (!this.#isOverForLimiter) this.options.events.opened();
    });
  }

  /** There was no connection in time. */
  fail(reason: string): void {
    if (this.#isOpen || this.#isOverForLimiter) return;
    this.#isOverForLimiter = true;
    this.#ended(reason);
  }

  send(bytes: Uint8Array): void {
    if (this.#isOverForLimiter) return;
    this.#toReplica(() => {
      if (!this.#isKnown) this.options.known();
      this.#isKnown = true;
      this.#listener?.received(Buffer.from(bytes));
    });
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    for (const bytes of this.#paused.splice(0)) this.options.events.received(bytes);
  }

  closeAfter(bytes: Uint8Array): void {
    this.send(bytes);
    this.close();
  }

  close(): void {
    if (this.#isOverForLimiter) return;
    this.#isOverForLimiter = true;
    this.#toReplica(() => this.#closeForReplica(true));
  }

  /** Both sides lose the connection. */
  break(): void {
    this.breakForLimiter();
    this.breakForReplica();
  }

  breakForLimiter(): void {
    if (this.#isOverForLimiter) return;
    this.#isOverForLimiter = true;
    this.options.time.after(delayMs, () =>
      this.options.limiter.deliver(() => this.#ended('Connection dropped')),
    );
  }

  /** The limiter hears of it, too, once it listens. */
  breakForReplica(): void {
    const close = (): void => {
      this.#closeForReplica(true);
      this.breakForLimiter();
    };
    this.options.time.after(delayMs, () => this.options.replica.deliver(close));
  }

  silence(): void {
    this.#isSilent = true;
  }

  /** What was on its way arrives late, as TCP sends it again. */
  speak(): void {
    this.#isSilent = false;
    for (const pass of this.#held.splice(0)) pass();
  }

  #receive(bytes: Uint8Array): void {
    if (this.#isOverForLimiter) return;
    if (this.#isPaused) this.#paused.push(bytes);
    else this.options.events.received(bytes);
  }

  #ended(reason: string, code?: GrpcStatus['code']): void {
    const end: StreamEnd = {
      reason,
      tooManyPings: false,
      unauthenticated: code === GrpcCode.UNAUTHENTICATED,
      unimplemented: code === GrpcCode.UNIMPLEMENTED,
    };
    this.options.events.ended(end);
  }

  #endForLimiter({ code, message }: GrpcStatus): void {
    this.#toLimiter(() => {
      if (this.#isOverForLimiter) return;
      this.#isOverForLimiter = true;
      this.#ended(message, code);
    });
  }

  #closeForReplica(isGivenUp: boolean): void {
    if (this.#isOverForReplica) return;
    this.#isOverForReplica = true;
    const close = (): void => {
      if (isGivenUp) this.#listener?.givenUp();
      this.#listener?.closed();
    };
    if (isGivenUp) close();
    else this.options.time.after(delayMs, () => this.options.replica.deliver(close));
  }

  #toLimiter(act: () => void): void {
    this.#pass(() => this.options.limiter.deliver(act));
  }

  #toReplica(act: () => void): void {
    this.#pass(() =>
      this.options.replica.deliver(() => {
        if (!this.#isOverForReplica) act();
      }),
    );
  }

  #pass(arrive: () => void): void {
    const pass = (): void => {
      this.options.time.after(delayMs, () => {
        if (this.#isSilent) this.#held.push(pass);
        else arrive();
      });
    };
    if (this.#isSilent) this.#held.push(pass);
    else pass();
  }
}
