import type { Operation } from '../operation.ts';
import type { StoreError } from '../store-error.ts';
import type { Part, PartKind, PlainCommands } from './count-parts.ts';
import { pushSection, severalSections } from './lua/program.ts';
import type { RedisErrors } from './wire/redis-error.ts';
import type { Arguments } from './wire/resp.ts';

/** More would hold up Redis's other users: it does nothing else while a script runs. */
export const maxKeysPerCall = 512;

/** One `submit`, until every call that carries a part of it is answered. */
export interface PendingRequest {
  callsLeft: number;
  done: () => void;
}

/** What goes out in one call of the program: what arrived in one turn, whatever it mixes, a part for each kind. */
export class Batch {
  /** A piece of one that has the place: of a call that was refused, or for one slot. */
  readonly isSplit: boolean;
  readonly requests: PendingRequest[] = [];
  readonly #newPart: (kind: PartKind) => Part;
  #parts: Part[];

  constructor(newPart: (kind: PartKind) => Part, parts?: Part[]) {
    this.#newPart = newPart;
    this.isSplit = parts !== undefined;
    this.#parts = parts ?? [];
  }

  /** Adds neighbouring operations of a request that go together, from `first` to before `end`. False when the keys would be too many. */
  add(
    ops: readonly Operation[],
    first: number,
    end: number,
    kind: PartKind,
    request: PendingRequest,
  ): boolean {
    const isFirst = this.#parts.length === 0;
    const known = this.#partOf(kind, ops, first, end);
    if (known?.add(ops, first, end, this.#room()) !== true) {
      const part = this.#newPart(kind);
      // One call takes any reservation, however many counters that has.
      const room = isFirst ? Number.POSITIVE_INFINITY : this.#room();
      if (!part.add(ops, first, end, room)) return false;
      this.#parts.push(part);
    }
    if (this.requests.at(-1) !== request) {
      this.requests.push(request);
      request.callsLeft += 1;
    }
    return true;
  }

  /** Several parts are in it, so that it may be refused for one of them. */
  get isMixed(): boolean {
    return this.#parts.length > 1;
  }

  get hasLeases(): boolean {
    return this.#parts.some((part) => part.hasLeases);
  }

  dropLeases(): void {
    for (const part of this.#parts) part.dropLeases();
  }

  /** A batch for each part. */
  split(): Batch[] {
    return this.#parts.map((part) => this.with(part));
  }

  /** A piece of it. */
  with(part: Part): Batch {
    return new Batch(this.#newPart, [part]);
  }

  /** A batch for each place that needs a script, of all that is there, and the parts that are in no such place. */
  spread(placeOf: (key: string) => unknown): { placed: Batch[]; rest: Part[] } {
    const scripted = new Set(this.#parts.flatMap((part) => part.scriptedKeys()).map(placeOf));
    if (scripted.size === 0) return { placed: [], rest: this.#parts };
    const places = new Map<unknown, Batch>();
    const rest: Part[] = [];
    for (const part of this.#parts) {
      const own = part.spread(placeOf, scripted);
      if (own.rest !== undefined) rest.push(own.rest);
      for (const [place, one] of own.placed)
        places.getOrInsertComputed(place, () => new Batch(this.#newPart, [])).#parts.push(one);
    }
    return { placed: [...places.values()], rest };
  }

  /** One of its keys. */
  get key(): string {
    return this.#parts[0]!.key;
  }

  /** Asked right before it is sent: answers the ops whose callers gave up, and drops them. False when none is left. */
  leaveOutAbandoned(): boolean {
    this.#parts = this.#parts.filter((part) => part.leaveOutAbandoned());
    return this.#parts.length > 0;
  }

  /** Hands over the arguments after the program itself: the number of keys, the keys, the rest. */
  pushArguments(args: Arguments): void {
    let keys = 0;
    for (const part of this.#parts) keys += part.keys;
    args.push(String(keys));
    for (const part of this.#parts) part.pushKeys(args);
    if (this.#parts.length === 1) {
      const part = this.#parts[0]!;
      part.pushArguments(args);
      pushSection(args, part.section);
      return;
    }
    let sections = '';
    for (const part of this.#parts) {
      const own: string[] = [];
      part.pushArguments(own);
      for (const argument of own) args.push(argument);
      sections += `${part.section} ${part.keys} ${own.length} `;
    }
    args.push(sections);
    args.push(severalSections);
  }

  /** Writes the answers; false when the reply is not what the program gives: what was written means nothing then. */
  answer(reply: unknown, errors: RedisErrors): boolean {
    if (this.#parts.length === 1) return this.#parts[0]!.answer(reply, errors);
    if (!Array.isArray(reply) || reply.length !== this.#parts.length) return false;
    let isRead = true;
    for (const [i, part] of this.#parts.entries()) if (!part.answer(reply[i], errors)) isRead = false;
    return isRead;
  }

  fail(error: StoreError): void {
    for (const part of this.#parts) part.fail(error);
  }

  /** Counts and answers without a script. Never rejects. */
  async countPlainly(plain: PlainCommands): Promise<void> {
    await Promise.all(this.#parts.map((part) => part.countPlainly(plain)));
  }

  #room(): number {
    let room = maxKeysPerCall;
    for (const part of this.#parts) room -= part.keys;
    return room;
  }

  /** The part that takes them: none where another one behind it is about the same counter, as that comes first. */
  #partOf(kind: PartKind, ops: readonly Operation[], first: number, end: number): Part | undefined {
    for (let at = this.#parts.length - 1; at >= 0; at -= 1) {
      const part = this.#parts[at]!;
      if (part.kind === kind) return part;
      for (let i = first; i < end; i += 1) if (part.has(ops[i]!.key)) return undefined;
    }
    return undefined;
  }
}

/** Reports to those requests that wait for nothing else any more: all of them, even when one throws, which is thrown then. */
export function settle(batch: Batch): void {
  let thrown: { error: unknown } | undefined;
  for (const request of batch.requests) {
    request.callsLeft -= 1;
    if (request.callsLeft > 0) continue;
    try {
      request.done();
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}
