import { expect, it } from 'vitest';
import { internalFaults } from './log-faults.ts';

it.each([
  'time="2026-01-01T00:00:00Z" level=error msg="Fault while answering a call" call=x error=y',
  'time="2026-01-01T00:00:00Z" level=fatal msg="Cannot start: no"',
  'TypeError: Cannot read properties of undefined',
  '    at Socket.<anonymous> (/program/file.ts:12:3)',
  '[UnhandledPromiseRejection: ...]',
])('a line of a fault of the program is found: %s', (line) => {
  expect(internalFaults(`fine\n${line}\nfine\n`)).toEqual([line]);
});

it('lines about the store are none', () => {
  const line =
    'time="2026-01-01T00:00:00Z" level=error msg="Lost the connection to Redis: trying again" url="127.0.0.1:1"';
  expect(internalFaults(line)).toEqual([]);
});
