/** Messages between the two halves of a capability, typed by an interface in its folder: each kind of message is a method of it. */

/** A message is one value that is copied between threads; so is the answer. */
type Message = (argument: never) => unknown;
type Argument<Kind> = Kind extends () => unknown
  ? undefined
  : Kind extends (argument: infer One) => unknown
    ? One
    : never;
type Answer<Kind> = Kind extends Message ? Awaited<ReturnType<Kind>> : never;

/** The threads that answer callers, as the main half of a capability talks to its other half. */
export interface ThreadsOf<Messages> {
  /** Workers of LIMITER_WORKERS; 0: the main thread serves callers itself. */
  readonly count: number;
  /** Of each thread that answers within a second. */
  ask<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<Answer<Messages[Kind]>[]>;
  /** Of one worker, from 1 on, for as long as it takes; undefined when it cannot answer. */
  askOne<Kind extends keyof Messages & string>(
    worker: number,
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<Answer<Messages[Kind]> | undefined>;
  /** The first answer of any thread, for as long as it takes; undefined when none can answer. */
  askAny<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<Answer<Messages[Kind]> | undefined>;
  /** To each thread, now and those that start later, which get the last one of each kind. Settles when all threads have it. */
  publish<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<void>;
}

/** A message as it passes from thread to thread. */
export interface SentMessage {
  readonly capability: string;
  readonly kind: string;
  readonly argument: unknown;
}

/** How messages reach the threads: in this one, or in workers. */
export interface MessageCarrier {
  readonly count: number;
  ask(message: SentMessage): Promise<unknown[]>;
  askOne(worker: number, message: SentMessage): Promise<unknown>;
  publish(message: SentMessage): Promise<void>;
}

export class Threads {
  readonly #carrier: MessageCarrier;
  readonly #capability: string;

  constructor(carrier: MessageCarrier, capability: string) {
    this.#carrier = carrier;
    this.#capability = capability;
  }

  /** `Messages`: what the `messages` of the thread half are. */
  of<Messages>(): ThreadsOf<Messages> {
    const carrier = this.#carrier;
    const capability = this.#capability;
    return {
      count: carrier.count,
      ask: async (kind, argument) =>
        (await carrier.ask({ capability, kind, argument })) as Answer<Messages[typeof kind]>[],
      askAny: async (kind, argument) =>
        (await firstAnswer(carrier, { capability, kind, argument })) as Answer<Messages[typeof kind]>,
      askOne: async (worker, kind, argument) =>
        (await carrier.askOne(worker, { capability, kind, argument })) as Answer<Messages[typeof kind]>,
      publish: (kind, argument) => carrier.publish({ capability, kind, argument }),
    };
  }
}

async function firstAnswer(carrier: MessageCarrier, message: SentMessage): Promise<unknown> {
  if (carrier.count === 0) return (await carrier.ask(message))[0];
  const answers = Array.from({ length: carrier.count }, async (_, index) => {
    const answer = await carrier.askOne(index + 1, message);
    if (answer === undefined) throw new Error('this worker cannot answer');
    return answer;
  });
  return Promise.any(answers).catch(() => undefined);
}
