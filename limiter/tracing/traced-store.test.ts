import type { Span } from '@opentelemetry/api';
import { beforeEach, describe, expect, it } from 'vitest';
import type { CallSpan } from '../../process/grpc/handlers.ts';
import { counterOp } from '../../test/support/counter-ops.ts';
import { HandDrivenStore } from '../../test/support/hand-driven-store.ts';
import { callAbandoned, type Operation } from '../stores/operation.ts';
import { StoreError } from '../stores/store-error.ts';
import type { SpanIds, SpanMaker } from './call-tracers.ts';
import { TracedStore } from './traced-store.ts';

/** Records what happens to each span. */
class SpanBook implements SpanMaker {
  readonly spans: { parent: string; links: string[]; attributes: Record<string, unknown>; end: string }[] =
    [];

  server(): Span {
    throw new Error('no call is answered here');
  }

  client(_name: string, parent: SpanIds, attributes: Record<string, unknown>): Span {
    const entry = {
      parent: parent.spanId,
      links: [] as string[],
      attributes: { ...attributes },
      end: 'open',
    };
    this.spans.push(entry);
    let end = 'ended';
    const span = {
      setAttribute: (name: string, value: unknown) => {
        entry.attributes[name] = value;
      },
      addLink: ({ context }: { context: SpanIds }) => void entry.links.push(context.spanId),
      setStatus: ({ message }: { message?: string }) => {
        end = `failed: ${message}`;
      },
      end: () => {
        entry.end = end;
      },
    };
    return span as unknown as Span;
  }

  shutdown(): Promise<void> {
    return Promise.resolve();
  }
}

let book: SpanBook;
let inner: HandDrivenStore;
let turnEnds: (() => void)[];
let done: string[];
let store: TracedStore;
let loaded: boolean;
beforeEach(() => {
  book = new SpanBook();
  inner = new HandDrivenStore();
  turnEnds = [];
  done = [];
  loaded = true;
  store = new TracedStore({
    store: inner,
    spanName: 'batch',
    attributes: { kind: 'x' },
    maker: () => (loaded ? book : undefined),
    atTurnEnd: (callback) => turnEnds.push(callback),
  });
});

function endTurn(): void {
  for (const callback of turnEnds.splice(0)) callback();
}

/** Submits a request of two counters, for a traced call if it has a name. */
function submit(name?: string): Operation[] {
  const span: CallSpan | undefined =
    name === undefined ? undefined : { traceId: 't', spanId: name, set: () => {}, end: () => {} };
  const caller = { abandoned: false, span };
  const ops = [counterOp({ key: 'a', caller }), counterOp({ key: 'b', caller })];
  store.submit(ops, { stopWhenOver: false }, () => done.push(name ?? '-'));
  return ops;
}

describe('TracedStore', () => {
  it('makes one span of a turn, with links to its traced calls', () => {
    submit();
    submit('1');
    submit('2');
    endTurn();
    expect(book.spans).toMatchObject([{ parent: '1', links: ['1', '2'], end: 'open' }]);
    inner.requests[1]?.answer(1);
    expect(book.spans[0]?.end).toBe('open');
    inner.requests[2]?.answer(1);
    expect(book.spans).toEqual([
      {
        parent: '1',
        links: ['1', '2'],
        attributes: { kind: 'x', 'db.operation.batch.size': 6, 'weir.calls': 3 },
        end: 'ended',
      },
    ]);
    expect(done).toEqual(['1', '2']);
  });

  it('makes another one of the next turn', () => {
    submit('1');
    endTurn();
    submit('2');
    endTurn();
    inner.answerAll(1);
    expect(book.spans.map(({ links, end }) => [links, end])).toEqual([
      [['1'], 'ended'],
      [['2'], 'ended'],
    ]);
  });

  it('is open to the end of the turn, however soon the store answers', () => {
    submit('1');
    inner.answerAll(1);
    submit('2');
    inner.answerAll(1);
    expect(book.spans.map(({ end }) => end)).toEqual(['open']);
    endTurn();
    expect(book.spans).toMatchObject([{ links: ['1', '2'], end: 'ended' }]);
  });

  it('says why the store failed, but not that a caller gave up', () => {
    submit('1');
    endTurn();
    inner.requests[0]?.fail(new StoreError('redis is away', { transient: true }));
    submit('2');
    endTurn();
    inner.requests[1]?.fail(callAbandoned);
    expect(book.spans.map(({ end }) => end)).toEqual(['failed: redis is away', 'ended']);
  });

  it('makes none if no call is traced, and none before OpenTelemetry is loaded', () => {
    submit();
    loaded = false;
    submit('1');
    inner.answerAll(1);
    endTurn();
    expect(book.spans).toEqual([]);
    expect(done).toEqual(['-', '1']);
  });

  it('is connected as the store is', () => {
    inner.connected = false;
    expect(store.connected).toBe(false);
  });
});
