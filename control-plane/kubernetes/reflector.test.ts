import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError } from './api-error.ts';
import { type ApiObject, type ListPage, Reflector, type ReflectorStep } from './reflector.ts';

let reflector: Reflector<string>;
let skipped: string[];

beforeEach(() => {
  reflector = create();
});

function create(): Reflector<string> {
  skipped = [];
  return new Reflector<string>({
    read: ({ value }) => (typeof value === 'string' ? { item: value } : { unreadable: 'no value' }),
    skipped: (key, reason) => skipped.push(`${key}: ${reason}`),
    random: () => 0,
    pageSize: 2,
    firstDelayMs: 200,
    maxDelayMs: 1000,
  });
}

const object = (name: string, value: unknown, resourceVersion = '1'): ApiObject => ({
  metadata: { namespace: 'ns', name, resourceVersion },
  value,
});
const page = (objects: ApiObject[], resourceVersion = '10', continueToken = ''): ListPage => ({
  resourceVersion,
  continueToken,
  objects,
});
const error = (status: number, reason = ''): ApiError => new ApiError({ status, reason, message: 'no' });
const away = error(0, 'Unreachable');
const kept = () => Object.fromEntries(reflector.items);

const list: ReflectorStep = { do: 'list', limit: 2, continueToken: undefined };
const watchFrom = (resourceVersion: string): ReflectorStep => ({ do: 'watch', resourceVersion });
const wait = (delayMs: number): ReflectorStep => ({ do: 'wait', delayMs });

/** A reflector whose watch is open, with `a` and `b` listed at version 10. */
function toWatching(): void {
  reflector.start();
  reflector.pageListed(page([object('a', '1'), object('b', '1')]));
}

describe('Reflector', () => {
  it('idle -> listing: begins with a list', () => {
    expect(reflector.start()).toEqual(list);
  });

  it('listing -> listing: asks for the next page and keeps nothing before the last', () => {
    reflector.start();
    expect(reflector.pageListed(page([object('a', '1')], '10', 'more'))).toEqual({
      isComplete: false,
      step: { do: 'list', limit: 2, continueToken: 'more' },
    });
    expect(kept()).toEqual({});
  });

  it('listing -> watching: goes on where the list ended', () => {
    reflector.start();
    reflector.pageListed(page([object('a', '1')], '10', 'more'));
    expect(reflector.pageListed(page([object('b', '1')], '10'))).toEqual({
      isComplete: true,
      step: watchFrom('10'),
    });
    expect(kept()).toEqual({ 'ns/a': '1', 'ns/b': '1' });
  });

  it('listing -> waiting -> listing: begins a failed list anew', () => {
    reflector.start();
    reflector.pageListed(page([object('a', '1')], '10', 'more'));
    expect(reflector.listFailed(away)).toEqual(wait(100));
    expect(reflector.due()).toEqual(list);
    reflector.pageListed(page([object('b', '1')]));
    expect(kept()).toEqual({ 'ns/b': '1' });
  });

  it('listing -> waiting -> listing: asks in one piece when the pages became too old, once', () => {
    reflector.start();
    reflector.pageListed(page([object('a', '1')], '10', 'more'));
    reflector.listFailed(error(410));
    expect(reflector.due()).toEqual({ do: 'list', limit: undefined, continueToken: undefined });
    reflector.listFailed(away);
    expect(reflector.due()).toEqual(list);
  });

  it('watching: follows changes', () => {
    toWatching();
    reflector.objectChanged('ADDED', object('c', '1', '11'));
    reflector.objectChanged('MODIFIED', object('a', '2', '12'));
    reflector.objectChanged('DELETED', object('b', '1', '13'));
    expect(kept()).toEqual({ 'ns/a': '2', 'ns/c': '1' });
  });

  it('watching -> watching: an orderly end after an event goes on at once at the last version', () => {
    toWatching();
    reflector.objectChanged('MODIFIED', object('a', '2', '12'));
    expect(reflector.watchEnded({ error: undefined, lastedMs: 1 })).toEqual(watchFrom('12'));
  });

  it('watching -> watching: so it does after a bookmark', () => {
    toWatching();
    reflector.bookmarked('20');
    expect(reflector.watchEnded({ error: undefined, lastedMs: 1 })).toEqual(watchFrom('20'));
  });

  it('watching -> watching: so it does after 5 s without any event', () => {
    toWatching();
    expect(reflector.watchEnded({ error: undefined, lastedMs: 5000 })).toEqual(watchFrom('10'));
  });

  it('watching -> waiting -> watching: waits when a watch ends as soon as it was opened', () => {
    toWatching();
    expect(reflector.watchEnded({ error: undefined, lastedMs: 4999 })).toEqual(wait(100));
    expect(reflector.due()).toEqual(watchFrom('10'));
  });

  it('watching -> waiting -> watching: a lost watch goes on at the last version', () => {
    toWatching();
    reflector.bookmarked('20');
    expect(reflector.watchEnded({ error: away, lastedMs: 9000 })).toEqual(wait(100));
    expect(reflector.due()).toEqual(watchFrom('20'));
    expect(kept()).toEqual({ 'ns/a': '1', 'ns/b': '1' });
  });

  it('watching -> listing: an expired watch is followed by a list that replaces what was kept', () => {
    toWatching();
    reflector.bookmarked('20');
    expect(reflector.watchEnded({ error: error(410), lastedMs: 1 })).toEqual(list);
    expect(kept()).toEqual({ 'ns/a': '1', 'ns/b': '1' });
    reflector.pageListed(page([object('b', '2')], '30'));
    expect(kept()).toEqual({ 'ns/b': '2' });
  });

  it('watching -> listing: so it is when the version expired during an outage', () => {
    toWatching();
    reflector.watchEnded({ error: away, lastedMs: 1 });
    reflector.due();
    expect(reflector.watchEnded({ error: error(410), lastedMs: 1 })).toEqual(list);
  });

  it('watching -> waiting -> listing: a list that is expired at once is no endless loop', () => {
    toWatching();
    expect(reflector.watchEnded({ error: error(410), lastedMs: 1 })).toEqual(wait(100));
    expect(reflector.due()).toEqual(list);
  });

  it.each([400, 401, 403, 404])('watching -> waiting -> listing: a watch refused with %i', (status) => {
    toWatching();
    expect(reflector.watchEnded({ error: error(status), lastedMs: 1 })).toEqual(wait(100));
    expect(reflector.due()).toEqual(list);
  });

  it.each([
    ['the server fails', error(500)],
    ['it breaks off', error(0, 'Unreadable')],
  ])('lists after three resumed watches in vain while %s', (_, problem) => {
    toWatching();
    for (const next of [watchFrom('10'), watchFrom('10'), watchFrom('10'), list]) {
      reflector.watchEnded({ error: problem, lastedMs: 1 });
      expect(reflector.due()).toEqual(next);
    }
  });

  it.each([
    ['is away', away],
    ['does not answer', error(0, 'Timeout')],
    ['asks for patience', error(429)],
  ])('never lists because the server %s', (_, problem) => {
    toWatching();
    for (let count = 0; count < 10; count++) {
      reflector.watchEnded({ error: problem, lastedMs: 1 });
      expect(reflector.due()).toEqual(watchFrom('10'));
    }
  });

  it('waits longer after each failure, up to a bound, and briefly again after a useful watch', () => {
    toWatching();
    const delays = [];
    for (let count = 0; count < 5; count++) {
      delays.push(reflector.watchEnded({ error: away, lastedMs: 1 }));
      reflector.due();
    }
    expect(delays).toEqual([wait(100), wait(200), wait(400), wait(500), wait(500)]);
    reflector.bookmarked('20');
    expect(reflector.watchEnded({ error: away, lastedMs: 1 })).toEqual(wait(100));
  });

  it('waits as long as the server asks', () => {
    reflector.start();
    const busy = new ApiError({ status: 429, reason: '', message: 'no', retryAfterMs: 3000 });
    expect(reflector.listFailed(busy)).toEqual(wait(3000));
  });

  it('keeps the last good of an object that cannot be read', () => {
    toWatching();
    reflector.objectChanged('MODIFIED', object('a', 5, '11'));
    expect(kept()['ns/a']).toBe('1');
    reflector.watchEnded({ error: error(410), lastedMs: 1 });
    reflector.pageListed(page([object('a', 5), object('c', 5)]));
    expect(kept()).toEqual({ 'ns/a': '1' });
    expect(skipped).toEqual(['ns/a: no value', 'ns/a: no value', 'ns/c: no value']);
  });

  it('refuses what does not belong to its state', () => {
    expect(() => reflector.due()).toThrow('not waiting but idle');
    expect(() => reflector.bookmarked('1')).toThrow('no watch is open: idle');
    reflector.start();
    expect(() => reflector.start()).toThrow('not idle but listing');
    expect(() => reflector.watchEnded({ error: undefined, lastedMs: 0 })).toThrow('not watching but listing');
  });

  it('has what the server has, whatever breaks in between', () => {
    const events = fc.array(
      fc.oneof(
        fc.record({
          do: fc.constant('put' as const),
          name: fc.constantFrom('a', 'b', 'c'),
          value: fc.string(),
        }),
        fc.record({ do: fc.constant('delete' as const), name: fc.constantFrom('a', 'b', 'c') }),
        fc.record({ do: fc.constantFrom('cut' as const, 'compact' as const) }),
      ),
    );
    fc.assert(fc.property(events, (script) => expectSame(new PlayedServer(), script)));
  });
});

type Action =
  | { do: 'put'; name: string; value: string }
  | { do: 'delete'; name: string }
  | { do: 'cut' | 'compact' };

/** A history of versions that forgets its beginning when it is compacted. */
class PlayedServer {
  readonly objects = new Map<string, ApiObject>();
  #events: { type: 'MODIFIED' | 'DELETED'; object: ApiObject }[] = [];
  #version = 1;
  #oldest = 1;

  put(name: string, value: string): void {
    const changed = object(name, value, String(++this.#version));
    this.objects.set(name, changed);
    this.#events.push({ type: 'MODIFIED', object: changed });
  }

  delete(name: string): void {
    if (!this.objects.delete(name)) return;
    this.#events.push({ type: 'DELETED', object: object(name, '', String(++this.#version)) });
  }

  compact(): void {
    this.#oldest = ++this.#version;
    this.#events = [];
  }

  page(): ListPage {
    return page([...this.objects.values()], String(this.#version));
  }

  /** Undefined when they are forgotten. */
  eventsAfter(version: string): { type: 'MODIFIED' | 'DELETED'; object: ApiObject }[] | undefined {
    if (Number(version) < this.#oldest) return undefined;
    return this.#events.filter((event) => Number(event.object.metadata.resourceVersion) > Number(version));
  }
}

/** A cut ends the watch; what happens until the next one is seen when the watch goes on. */
function expectSame(server: PlayedServer, script: Action[]): void {
  reflector = create();
  let step = reflector.start();
  const settle = () => {
    for (;;) {
      if (step.do === 'wait') step = reflector.due();
      else if (step.do === 'list') step = reflector.pageListed(server.page()).step;
      else {
        const events = server.eventsAfter(step.resourceVersion);
        if (events !== undefined) {
          for (const { type, object } of events) reflector.objectChanged(type, object);
          return;
        }
        step = reflector.watchEnded({ error: error(410), lastedMs: 1 });
      }
    }
  };
  settle();
  for (const action of script) {
    if (action.do === 'put') server.put(action.name, action.value);
    else if (action.do === 'delete') server.delete(action.name);
    else if (action.do === 'compact') server.compact();
    else {
      step = reflector.watchEnded({ error: away, lastedMs: 1 });
      settle();
    }
  }
  step = reflector.watchEnded({ error: away, lastedMs: 1 });
  settle();
  const expected = [...server.objects.values()].map(({ metadata, value }) => [`ns/${metadata.name}`, value]);
  expect(kept()).toEqual(Object.fromEntries(expected));
}
