import { describe, expect, it } from 'vitest';
import { parseRedirection } from './cluster-commands.ts';

const from = { host: 'here', port: 1 };
const parse = (text: string) => parseRedirection(new Error(text), from);

describe('parseRedirection', () => {
  it.each([
    ['MOVED 3999 127.0.0.1:6381', { ask: false, slot: 3999, host: '127.0.0.1', port: 6381 }],
    ['ASK 3999 127.0.0.1:6381', { ask: true, slot: 3999, host: '127.0.0.1', port: 6381 }],
    ['MOVED 0 ::1:7000', { ask: false, slot: 0, host: '::1', port: 7000 }],
    [
      'MOVED 16383 node-1.example.org:7000',
      { ask: false, slot: 16_383, host: 'node-1.example.org', port: 7000 },
    ],
    ['MOVED 5 :7000', { ask: false, slot: 5, host: 'here', port: 7000 }],
    ['ASK 5 ?:7000', { ask: true, slot: 5, host: 'here', port: 7000 }],
    ['MOVED 5', undefined],
    ['ERR MOVED 5 h:7000', undefined],
    ['CLUSTERDOWN The cluster is down', undefined],
  ])('reads %j', (text, expected) => {
    expect(parse(text)).toEqual(expected);
  });

  it('takes only errors', () => {
    expect(parseRedirection('MOVED 3999 127.0.0.1:6381', from)).toBeUndefined();
  });
});
