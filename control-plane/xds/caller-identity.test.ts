import { expect, it } from 'vitest';
import { addressOf, parseTokens } from './caller-identity.ts';

it.each([
  ['10.0.0.7:41000', '10.0.0.7'],
  ['::1:41000', '::1'],
  ['fd00::7:8:41000', 'fd00::7:8'],
  ['unknown', 'unknown'],
])('the address of the peer %s is %s', (peer, address) => {
  expect(addressOf(peer)).toBe(address);
});

it('comments and empty lines of a file of tokens may be indented', () => {
  const names = parseTokens('  # the edge\n \n\tedge token-of-the-edge-limiters \n\t# no other\n');
  expect([...names.values()]).toEqual(['edge']);
});
