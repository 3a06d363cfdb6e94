import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DiscoveryStreamState } from './stream-state.ts';

function subscribed(): DiscoveryStreamState {
  const state = new DiscoveryStreamState('s');
  state.subscribe();
  return state;
}

function inFlight(version = 'v1'): { state: DiscoveryStreamState; nonce: string } {
  const state = subscribed();
  state.offer(version);
  return { state, nonce: state.send().nonce };
}

describe('StreamState', () => {
  it('is owed nothing before its first request', () => {
    const state = new DiscoveryStreamState('s');
    state.offer('v1');
    expect(state).toMatchObject({ phase: 'waiting', isDue: false });
  });

  it('answers nothing before its first request', () => {
    const state = new DiscoveryStreamState('s');
    state.offer('v1');
    expect(state.answer('s.1')).toBeUndefined();
    expect(state.phase).toBe('waiting');
  });

  it('subscribes: waiting -> settled', () => {
    const state = subscribed();
    expect(state.phase).toBe('settled');
    expect(() => state.subscribe()).toThrow('the stream is subscribed already');
  });

  it('is owed nothing before a version was offered', () => {
    const state = subscribed();
    expect(state.isDue).toBe(false);
    expect(() => state.send()).toThrow('nothing is due');
  });

  it('sends: settled -> in flight', () => {
    const state = subscribed();
    state.offer('v1');
    expect(state.isDue).toBe(true);
    expect(state.send()).toEqual({ version: 'v1', nonce: 's.1' });
    expect(state).toMatchObject({ phase: 'in flight', isDue: false, sentVersion: 'v1' });
  });

  it('sends a version again that is asked for, once, and not while one is in flight', () => {
    const { state, nonce } = inFlight();
    state.ask();
    expect(state.isDue).toBe(false);
    state.answer(nonce);
    expect(state.isDue).toBe(true);
    expect(state.send()).toEqual({ version: 'v1', nonce: 's.2' });
    state.answer('s.2');
    expect(state.isDue).toBe(false);
  });

  it('is answered: in flight -> settled', () => {
    const { state, nonce } = inFlight();
    expect(state.answer(nonce)).toBe('v1');
    expect(state).toMatchObject({ phase: 'settled', isDue: false });
  });

  it('does not owe an answered version again until another one was sent', () => {
    const { state, nonce } = inFlight('bad');
    state.answer(nonce);
    state.offer('bad');
    expect(state.isDue).toBe(false);
    state.offer('good');
    state.answer(state.send().nonce);
    state.offer('bad');
    expect(state.isDue).toBe(true);
  });

  it('owes only the newest of the versions that came while one was in flight', () => {
    const { state, nonce } = inFlight();
    for (const version of ['v2', 'v3', 'v4']) state.offer(version);
    expect(state.isDue).toBe(false);
    state.answer(nonce);
    expect(state.send()).toEqual({ version: 'v4', nonce: 's.2' });
  });

  it('owes nothing when the version in flight came back before its answer', () => {
    const { state, nonce } = inFlight();
    state.offer('v2');
    state.offer('v1');
    state.answer(nonce);
    expect(state.isDue).toBe(false);
  });

  it.each([
    ['of no response', ''],
    ['of another stream', 't.1'],
    ['of a response to come', 's.2'],
  ])('takes a nonce %s for no answer', (_, nonce) => {
    const { state } = inFlight();
    expect(state.answer(nonce)).toBeUndefined();
    expect(state.phase).toBe('in flight');
  });

  it('takes the nonce of an older response for no answer', () => {
    const { state, nonce } = inFlight();
    state.answer(nonce);
    state.offer('v2');
    state.send();
    expect(state.answer(nonce)).toBeUndefined();
    expect(state.phase).toBe('in flight');
  });

  it('takes the first answer to a response only', () => {
    const { state, nonce } = inFlight();
    state.answer(nonce);
    expect(state.answer(nonce)).toBeUndefined();
  });

  it('ends with the newest version sent and answered, whatever came in between', () => {
    const event = fc.oneof(
      fc.record({ offer: fc.constantFrom('v1', 'v2', 'v3') }),
      fc.record({ nonce: fc.constantFrom('own', 'stale', 'foreign') }),
      fc.constantFrom('send' as const, 'ask' as const),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 40 }), (events) => {
        const state = subscribed();
        const nonces: string[] = [];
        let offered: string | undefined;
        const send = (): void => void (state.isDue && nonces.push(state.send().nonce));
        for (const it of events) {
          if (it === 'send') send();
          else if (it === 'ask') state.ask();
          else if ('offer' in it) {
            offered = it.offer;
            state.offer(it.offer);
          } else {
            const nonce = { own: nonces.at(-1), stale: nonces.at(-2), foreign: 'x' }[it.nonce] ?? '';
            const answer = state.answer(nonce);
            if (it.nonce !== 'own') expect(answer).toBeUndefined();
          }
        }
        while (state.phase === 'in flight' || state.isDue) {
          send();
          state.answer(nonces.at(-1) as string);
        }
        expect(state.sentVersion).toBe(offered);
        expect(new Set(nonces).size).toBe(nonces.length);
      }),
    );
  });
});
