import { describe, expect, it } from 'vitest';
import { areScriptsRejected } from './redis-error.ts';

describe('areScriptsRejected', () => {
  it.each([
    ["NOPERM this user has no permissions to run the 'evalsha' command", true],
    ["NOPERM User weir has no permissions to run the 'evalsha' command", true],
    ["CROSSSLOT Keys in request don't hash to the same slot", true],
    ["ERR unknown command 'evalsha'", true],
    ['NOPERM this user has no permissions to access one of the keys used as arguments', false],
    ['NOPERM No permissions to access a key', false],
    ['OOM command not allowed', false],
  ])('of %s is %s', (text, refused) => expect(areScriptsRejected(new Error(text))).toBe(refused));
});
