/**
 * A store whose work for traced calls has spans. All ops of one turn of the event loop are sent in one batch (or in a few: to the nodes
 * of a cluster, or beyond the keys of one call), so a span covers a batch. It belongs to the trace of the first traced call of the turn
 * and has links to the spans of all of them.
 */
import { type Span, SpanStatusCode } from '@opentelemetry/api';
import type { CallSpan } from '../../process/grpc/handlers.ts';
import { callAbandoned, type Operation } from '../stores/operation.ts';
import { type Store, StoreDecorator, type SubmitOptions } from '../stores/store.ts';
import { type Attributes, type SpanMaker, spanContext } from './call-tracers.ts';

export interface TracedStoreOptions {
  store: Store;
  spanName: string;
  attributes: Attributes;
  /** Undefined until OpenTelemetry is loaded. */
  maker(): SpanMaker | undefined;
  /** Calls back when the turn of the event loop is over. Defaults to `setImmediate`. */
  atTurnEnd?: (callback: () => void) => void;
}

export class TracedStore extends StoreDecorator {
  readonly #options: TracedStoreOptions;
  #turn: Turn | undefined;

  constructor(options: TracedStoreOptions) {
    super(options.store);
    this.#options = options;
  }

  override submit(ops: Operation[], options: SubmitOptions, done: () => void): void {
    const call = ops.length === 0 ? undefined : ops[0]!.caller?.span;
    const turn = this.#join(ops.length);
    if (call === undefined) {
      this.store.submit(ops, options, done);
      return;
    }
    this.#trace(turn, call);
    this.store.submit(ops, options, () => {
      turn.answered(ops);
      done();
    });
  }

  #join(operations: number): Turn {
    const turn = this.#turn ?? this.#beginTurn();
    turn.calls += 1;
    turn.operations += operations;
    return turn;
  }

  #beginTurn(): Turn {
    const turn = new Turn();
    this.#turn = turn;
    const { atTurnEnd = setImmediate } = this.#options;
    atTurnEnd(() => {
      this.#turn = undefined;
      turn.over();
    });
    return turn;
  }

  #trace(turn: Turn, call: CallSpan): void {
    const { maker, spanName, attributes } = this.#options;
    turn.span ??= maker()?.client(spanName, call, attributes);
    turn.span?.addLink({ context: spanContext(call) });
    turn.waiting += 1;
  }
}

class Turn {
  calls = 0;
  operations = 0;
  /** The number of traced calls that are not answered. */
  waiting = 0;
  span: Span | undefined;
  #isOver = false;

  answered(ops: readonly Pick<Operation, 'error'>[]): void {
    this.waiting -= 1;
    // A canceled call is not a failure of the store.
    const error = ops.find((op) => op.error !== undefined && op.error !== callAbandoned)?.error;
    if (error !== undefined) this.span?.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
    this.#endIfDone();
  }

  over(): void {
    this.#isOver = true;
    this.#endIfDone();
  }

  #endIfDone(): void {
    if (this.span === undefined || this.waiting > 0 || !this.#isOver) return;
    this.span.setAttribute('db.operation.batch.size', this.operations);
    this.span.setAttribute('weir.calls', this.calls);
    this.span.end();
  }
}
