/** Messages between the two halves of a capability. An interface in its folder gives their types: each kind of message is a method. */

/** A message and its answer are values that are copied between threads. */
type Message = (argument: never) => unknown;
type Argument<Kind> = Kind extends () => unknown
  ? undefined
  : Kind extends (argument: infer One) => unknown
    ? One
    : never;
type MessageAnswer<Kind> = Kind extends Message ? Awaited<ReturnType<Kind>> : never;

/** The threads that answer callers, as seen by the main half of a capability. */
export interface ThreadsOf<Messages> {
  /** The number of workers (LIMITER_WORKERS); 0: the main thread serves callers itself. */
  readonly count: number;
  /** Returns the answers of threads that answer within a second. */
  ask<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<MessageAnswer<Messages[Kind]>[]>;
  /** Asks one worker, from 1 on, without a timeout; undefined if it cannot answer. */
  askOne<Kind extends keyof Messages & string>(
    worker: number,
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<MessageAnswer<Messages[Kind]> | undefined>;
  /** Returns the first answer of any thread, without a timeout; undefined if none can answer. */
  askAny<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<MessageAnswer<Messages[Kind]> | undefined>;
  /** Sends a message to each thread. Returns the answers of all that serve, once all have answered, without a timeout. */
  reach<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<MessageAnswer<Messages[Kind]>[]>;
  /** Sends a message to each thread. Threads that start later get the last one of each kind. Resolves when all threads have it. */
  publish<Kind extends keyof Messages & string>(
    kind: Kind,
    argument: Argument<Messages[Kind]>,
  ): Promise<void>;
}

/** A message between threads. */
export interface SentMessage {
  /** The name of a capability, or that of the messages of the process itself. */
  readonly capability: string;
  readonly kind: string;
  readonly argument: unknown;
}

/** Carries messages to the threads: to this one, or to workers. */
export interface MessageCarrier {
  readonly count: number;
  ask(message: SentMessage): Promise<unknown[]>;
  askOne(worker: number, message: SentMessage): Promise<unknown>;
  reach(message: SentMessage): Promise<unknown[]>;
  publish(message: SentMessage): Promise<void>;
}

export class Threads {
  readonly #carrier: MessageCarrier;
  readonly #capability: string;

  constructor(carrier: MessageCarrier, capability: string) {
    this.#carrier = carrier;
    this.#capability = capability;
  }

  /** `Messages`: the type of the thread half's `messages`. */
  of<Messages>(): ThreadsOf<Messages> {
    const carrier = this.#carrier;
    const capability = this.#capability;
    return {
      count: carrier.count,
      ask: async (kind, argument) =>
        (await carrier.ask({ capability, kind, argument })) as MessageAnswer<Messages[typeof kind]>[],
      askAny: async (kind, argument) =>
        (await firstAnswer(carrier, { capability, kind, argument })) as MessageAnswer<Messages[typeof kind]>,
      askOne: async (worker, kind, argument) =>
        (await carrier.askOne(worker, { capability, kind, argument })) as MessageAnswer<
          Messages[typeof kind]
        >,
      reach: async (kind, argument) =>
        (await carrier.reach({ capability, kind, argument })) as MessageAnswer<Messages[typeof kind]>[],
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
