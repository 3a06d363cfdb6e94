import { expect, it } from 'vitest';
import { errorText } from './error-text.ts';

it('an error of fetch is reported with the code of its cause, any other by its own message', async () => {
  const refused = await fetch('http://127.0.0.1:2').catch((error: unknown) => error);
  expect(errorText(refused)).toBe('fetch failed (ECONNREFUSED)');
  expect(errorText(new Error('no answer', { cause: refused }))).toBe('no answer');
  expect(errorText('text')).toBe('text');
});
