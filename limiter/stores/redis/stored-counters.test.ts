import { describe, expect, it } from 'vitest';
import { readCounter } from './stored-counters.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { ReplyError } from './wire/resp.ts';

/** A Redis with these replies to commands, each of which may be an error. */
function commandsOf(replies: Readonly<Record<string, unknown>>): KeyedCommands {
  return {
    send: async (_key, name, args) => {
      const reply = replies[[name, ...args].join(' ')];
      if (reply instanceof Error) throw reply;
      return reply;
    },
    translate: (error) => {
      throw error;
    },
    placeOf: () => undefined,
  };
}

describe('readCounter', () => {
  const leased = 'hmget weir:lease:{k} t';
  it.each<[string, Record<string, unknown>, unknown]>([
    ['a number', { 'get k': Buffer.from('7') }, { held: [7, 0, 0], leased: 0 }],
    ['a sliding window', { 'get k': Buffer.from('1:2:3') }, { held: [1, 2, 3], leased: 0 }],
    ['another text', { 'get k': Buffer.from('text') }, undefined],
    ['no key', { 'get k': null }, undefined],
    ['a list', { 'get k': new ReplyError('WRONGTYPE Operation against a key') }, undefined],
  ])('reads %s', async (_, replies, counter) => {
    expect(await readCounter(commandsOf(replies), 'k', { leases: false })).toEqual(counter);
  });

  it('reads how many hits limiters hold as leases, if it may', async () => {
    const read = (ledger: unknown) =>
      readCounter(commandsOf({ 'get k': Buffer.from('7'), [leased]: ledger }), 'k', { leases: true });
    expect(await read([Buffer.from('4')])).toMatchObject({ leased: 4 });
    expect(await read(new ReplyError('NOPERM no permissions'))).toMatchObject({ leased: 0 });
  });
});
