import { describe, expect, it } from 'vitest';
import { type SessionAction, settleMs, type VersionedResponse, XdsSession } from './xds-session.ts';

type Session = XdsSession<VersionedResponse>;

function session({ random = () => 0 } = {}): Session {
  const backoff = { initialMs: 100, maxMs: 1_000, factor: 2, jitter: false, exactFirst: false, random };
  return new XdsSession({ connectRetryMs: 30, backoff });
}

const response = (version: string) => ({ version, nonce: `n${version}` });
const send = (version: string, nonce = '', error?: string): SessionAction<VersionedResponse> => ({
  do: 'send',
  request: { version, nonce, error },
});
const load = (version: string): SessionAction<VersionedResponse> => ({
  do: 'load',
  response: response(version),
});
const lost = (reason: string, isNews: boolean, retryMs: number) => {
  return { do: 'report-lost', reason, isNews, retryMs };
};
const wait = (delayMs: number) => ({ do: 'wait', delayMs });
const settle = { do: 'settle', delayMs: settleMs };
const connected = (afterOutage: boolean) => ({ do: 'report-connected', afterOutage });

/** A session in each state, by the shortest way. */
const reach: Record<string, () => Session> = {
  idle: () => session(),
  connecting: () => after(session(), (one) => one.start()),
  'open:new': () => after(reach['connecting']?.() as Session, (one) => one.opened()),
  'open:settled': () => after(reach['open:new']?.() as Session, (one) => one.settled()),
  waiting: () => after(reach['connecting']?.() as Session, (one) => one.ended('x')),
  closed: () => after(reach['open:settled']?.() as Session, (one) => one.close()),
};

function after(one: Session, event: (one: Session) => unknown): Session {
  event(one);
  return one;
}

describe('the connection of an xDS session', () => {
  it('starts by connecting', () => {
    const one = session();
    expect(one.start()).toEqual([{ do: 'connect' }]);
    expect(one.state).toBe('connecting');
  });

  it('subscribes without version and nonce when it is opened first', () => {
    const one = reach['connecting']?.() as Session;
    expect(one.opened()).toEqual([send(''), settle]);
    expect([one.state, one.isOpen]).toEqual(['open:new', true]);
  });

  it('asks a server that declines in another way, at once and without a word', () => {
    const one = reach['open:new']?.() as Session;
    expect(one.declined()).toEqual([{ do: 'connect' }]);
    expect(one.state).toBe('connecting');
    // A timer of the stream before.
    expect(one.settled()).toEqual([]);
    expect(one.opened()).toEqual([send(''), settle]);
    expect(one.ended('not that either')).toEqual([lost('not that either', true, 100), wait(100)]);
  });

  it.each(['idle', 'connecting', 'open:settled', 'waiting', 'closed'])(
    'is not declined when it is %s',
    (state) => {
      const one = reach[state]?.() as Session;
      expect(one.declined()).toEqual([]);
      expect(one.state).toBe(state);
    },
  );

  it('says what of a response is rejected', () => {
    const one = reach['open:new']?.() as Session;
    one.received(response('1'));
    const refused = [{ name: 'a', message: 'bad' }];
    expect(one.loaded({ accepted: false, message: 'a: bad', rejected: refused })).toEqual([
      { do: 'send', request: { version: '', nonce: 'n1', error: 'a: bad', rejected: refused } },
    ]);
  });

  it('opens a stream that ended for its token at once, without a word, and once only', () => {
    const one = reach['open:settled']?.() as Session;
    expect(one.ended('expired', true)).toEqual([{ do: 'connect' }]);
    expect(one.state).toBe('connecting');
    expect(one.opened()).toEqual([send(''), settle]);
    expect(one.received(response('1'))).toEqual([load('1')]);
    expect(one.ended('broke')).toEqual([lost('broke', true, 100), wait(100)]);
    one.due();
    one.opened();
    expect(one.received(response('2'))).toEqual([connected(true)]);
  });

  it.each(['connecting', 'open:new'])('waits and says when the renewed stream fails while %s', (state) => {
    const one = reach['open:settled']?.() as Session;
    one.ended('expired', true);
    if (state === 'open:new') one.opened();
    const waitMs = state === 'open:new' ? 100 : 30;
    expect(one.ended('refused', true)).toEqual([lost('refused', true, waitMs), wait(waitMs)]);
  });

  it('has settled when it stood for a while, and says that no rules came', () => {
    const one = reach['open:new']?.() as Session;
    expect(one.settled()).toEqual([connected(false), { do: 'report-no-rules' }]);
    expect([one.state, one.isOpen]).toEqual(['open:settled', true]);
  });

  it('has settled when a response came', () => {
    const one = reach['open:new']?.() as Session;
    expect(one.received(response('1'))).toEqual([connected(false), load('1')]);
    expect(one.state).toBe('open:settled');
    expect(one.settled()).toEqual([]);
  });

  it('waits for the retry interval after an attempt that failed', () => {
    const one = reach['connecting']?.() as Session;
    expect(one.ended('refused')).toEqual([lost('refused', true, 30), wait(30)]);
    expect([one.state, one.isOpen]).toEqual(['waiting', false]);
  });

  it.each(['open:new', 'open:settled'])(
    'waits for the backoff after the end of a stream that was %s',
    (state) => {
      const one = reach[state]?.() as Session;
      expect(one.ended('broke')).toEqual([lost('broke', true, 100), wait(100)]);
      expect(one.state).toBe('waiting');
    },
  );

  it('connects again when the wait is over', () => {
    const one = reach['waiting']?.() as Session;
    expect(one.due()).toEqual([{ do: 'connect' }]);
    expect(one.state).toBe('connecting');
  });

  it('backs off longer with every stream that breaks, until one has settled', () => {
    const one = reach['connecting']?.() as Session;
    const breaks = () => {
      one.opened();
      const [, action] = one.ended('x');
      one.due();
      return action;
    };
    expect([breaks(), breaks(), breaks()]).toEqual([wait(100), wait(200), wait(400)]);
    one.ended('refused');
    one.due();
    expect(breaks()).toEqual(wait(800));
    one.opened();
    one.settled();
    expect(one.ended('x')).toContainEqual(wait(100));
  });

  it('waits longer after every refused connection, up to the maximum, until one is established', () => {
    const one = reach['connecting']?.() as Session;
    const refused = () => {
      const [, action] = one.ended('refused');
      one.due();
      return action;
    };
    expect(Array.from({ length: 7 }, refused)).toEqual([30, 60, 120, 240, 480, 960, 1_000].map(wait));
    one.opened();
    one.ended('broke');
    one.due();
    expect(refused()).toEqual(wait(30));
  });

  it('waits a retry interval above the maximum for ever', () => {
    const backoff = {
      initialMs: 100,
      maxMs: 1_000,
      factor: 2,
      jitter: true,
      exactFirst: false,
      random: () => 0.5,
    };
    const one: Session = new XdsSession({ connectRetryMs: 5_000, backoff });
    one.start();
    expect(one.ended('refused')).toContainEqual(wait(5_000));
    one.due();
    expect(one.ended('refused')).toContainEqual(wait(5_000));
  });

  it('reports an outage once, and its end when a stream has settled', () => {
    const one = reach['open:settled']?.() as Session;
    expect(one.ended('a')).toContainEqual(lost('a', true, 100));
    one.due();
    expect(one.ended('b')).toContainEqual(lost('b', false, 30));
    one.due();
    one.opened();
    expect(one.ended('c')).toContainEqual(lost('c', false, 200));
    one.due();
    one.opened();
    expect(one.received(response('1'))).toContainEqual(connected(true));
    expect(one.ended('d')).toContainEqual(lost('d', true, 100));
    one.due();
    one.opened();
    expect(one.settled()).toEqual([connected(true)]);
  });

  const misfits: [state: string, ...events: string[]][] = [
    ['idle', 'opened', 'settled', 'received', 'loaded', 'ended', 'due'],
    ['connecting', 'start', 'settled', 'received', 'loaded', 'due'],
    ['open:new', 'start', 'opened', 'loaded', 'due'],
    ['open:settled', 'start', 'opened', 'settled', 'loaded', 'due'],
    ['waiting', 'start', 'opened', 'settled', 'received', 'loaded', 'ended'],
    ['closed', 'start', 'opened', 'settled', 'received', 'loaded', 'ended', 'due'],
  ];
  const events: Record<string, (one: Session) => SessionAction<VersionedResponse>[]> = {
    start: (one) => one.start(),
    opened: (one) => one.opened(),
    settled: (one) => one.settled(),
    received: (one) => one.received(response('9')),
    loaded: (one) => one.loaded({ accepted: true }),
    ended: (one) => one.ended('x'),
    due: (one) => one.due(),
  };
  const pairs = misfits.flatMap(([state, ...names]) => names.map((name) => [state, name] as const));
  it.each(pairs)('%s is not changed by %s', (state, name) => {
    const one = reach[state]?.() as Session;
    expect(events[name]?.(one)).toEqual([]);
    expect(one.state).toBe(state);
  });

  it.each(Object.keys(reach))('closes when %s', (state) => {
    const one = reach[state]?.() as Session;
    one.close();
    expect([one.state, one.isOpen]).toEqual(['closed', false]);
  });
});

describe('the responses of an xDS session', () => {
  const accepted = { accepted: true } as const;
  const refused = (message: string) => ({ accepted: false, message }) as const;

  it('are accepted with their own version and nonce', () => {
    const one = reach['open:settled']?.() as Session;
    expect(one.received(response('1'))).toEqual([load('1')]);
    expect(one.loaded(accepted)).toEqual([send('1', 'n1')]);
  });

  it('are rejected with the version accepted before and their own nonce', () => {
    const one = reach['open:settled']?.() as Session;
    one.received(response('1'));
    expect(one.loaded(refused('why'))).toEqual([send('', 'n1', 'why')]);
    one.received(response('2'));
    expect(one.loaded(accepted)).toEqual([send('2', 'n2')]);
    one.received(response('3'));
    expect(one.loaded(refused('again'))).toEqual([send('2', 'n3', 'again')]);
  });

  it('are loaded one at a time, and the newest takes the place of one that waits', () => {
    const one = reach['open:settled']?.() as Session;
    one.received(response('1'));
    expect(one.received(response('2'))).toEqual([]);
    expect(one.received(response('3'))).toEqual([]);
    expect(one.loaded(accepted)).toEqual([send('1', 'n1'), load('3')]);
    expect(one.loaded(accepted)).toEqual([send('3', 'n3')]);
  });

  it('are in force, and not answered, when their stream ended during the load', () => {
    const one = reach['open:settled']?.() as Session;
    one.received(response('1'));
    one.received(response('2'));
    one.ended('x');
    expect(one.loaded(accepted)).toEqual([]);
    one.due();
    expect(one.opened()).toContainEqual(send('1'));
  });

  it('are not answered over a later stream', () => {
    const one = reach['open:settled']?.() as Session;
    one.received(response('1'));
    one.ended('x');
    one.due();
    expect(one.opened()).toContainEqual(send(''));
    expect(one.received(response('1'))).toEqual([connected(true)]);
    expect(one.loaded(accepted)).toEqual([load('1')]);
    expect(one.loaded(accepted)).toEqual([send('1', 'n1')]);
  });

  it('leave the version of a rejected one out of the next subscription', () => {
    const one = reach['open:settled']?.() as Session;
    one.received(response('1'));
    one.loaded(accepted);
    one.received(response('2'));
    one.loaded(refused('why'));
    one.ended('x');
    one.due();
    expect(one.opened()).toEqual([send('1'), settle]);
  });

  it('are reported as missing once only', () => {
    const one = reach['open:new']?.() as Session;
    one.received(response('1'));
    one.ended('x');
    one.due();
    one.opened();
    expect(one.settled()).toEqual([connected(true)]);
  });
});
