/**
 * How hits get into a node: `incr`; where the key is missing `add`, which alone sets its life; where another limiter was
 * first, `incr` again. If the key was missing a moment ago, `add` goes right behind `incr` instead of after its answer: it
 * does nothing if the key is there by then, so nothing is counted twice, and the next question finds the key.
 */
import type { StoreError } from '../store-error.ts';
import { addCommand, type Command, changeCommand } from './command.ts';

export type ChangeOutcome = 'success' | 'error' | 'miss' | 'not_stored';

export interface ChangeEvents {
  /** One command's outcome: `miss` is of incr and decr, `not_stored` of add. */
  onCommand(command: 'increment' | 'add' | 'decrement', outcome: ChangeOutcome): void;
  /** Hits were not counted, as far as is known. */
  onLost(problem: string, key: string, error: string): void;
}

export interface IncreaseOptions {
  key: string;
  hits: number;
  /** As `addCommand` takes it. */
  expiry: () => number;
  /** The key was missing a moment ago. */
  wasMissing: boolean;
  send: (command: Command) => void;
  events: ChangeEvents;
}

export function increase({ key, hits, expiry, wasMissing, send, events }: IncreaseOptions): void {
  /** What incr said; undefined until then. */
  let isMissing: boolean | undefined;
  let added: string | StoreError | undefined;
  const lost = (problem: string, error: StoreError): void => events.onLost(problem, key, error.message);
  const again = (): void =>
    send(
      changeCommand('incr', key, hits, (reply) => {
        events.onCommand('increment', outcomeOf(reply));
        if (reply === 'NOT_FOUND')
          events.onLost('Failed to increment after failing to add', key, 'the key is gone');
        else if (typeof reply !== 'string') lost('Failed to increment after failing to add', reply);
      }),
    );
  /** Once both are answered: a connection that takes no more says so at once. */
  const conclude = (): void => {
    if (isMissing !== true || added === undefined) return;
    events.onCommand('add', outcomeOf(added));
    if (added === 'NOT_STORED') again();
    else if (typeof added !== 'string') lost('Failed to add', added);
  };
  const add = (): void =>
    send(
      addCommand(key, hits, expiry(), (reply) => {
        added = reply;
        conclude();
      }),
    );
  send(
    changeCommand('incr', key, hits, (reply) => {
      events.onCommand('increment', outcomeOf(reply));
      if (typeof reply !== 'string') lost('Failed to increment', reply);
      isMissing = reply === 'NOT_FOUND';
      if (isMissing && !wasMissing) add();
      else conclude();
    }),
  );
  if (wasMissing) add();
}

/** A missing key stays missing. */
export function decrease(options: Pick<IncreaseOptions, 'key' | 'hits' | 'send' | 'events'>): void {
  const { key, hits, send, events } = options;
  send(
    changeCommand('decr', key, hits, (reply) => {
      events.onCommand('decrement', outcomeOf(reply));
      if (typeof reply !== 'string') events.onLost('Failed to decrement', key, reply.message);
    }),
  );
}

function outcomeOf(reply: string | StoreError): ChangeOutcome {
  if (typeof reply !== 'string') return 'error';
  if (reply === 'NOT_FOUND') return 'miss';
  return reply === 'NOT_STORED' ? 'not_stored' : 'success';
}
