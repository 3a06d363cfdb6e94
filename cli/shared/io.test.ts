import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { io, processIo, withIo } from './io.ts';

const folder = join(import.meta.dirname, '..');
/** They run until the process ends, and end it. */
const processes = ['server-commands.ts', 'shared/io.ts'];

it('is that of the process, or what the command was given, each its own', async () => {
  expect(io()).toBe(processIo);
  const given = ['a', 'b'].map((name) => ({ ...processIo, env: { NAME: name } }));
  const seen = given.map((one) =>
    withIo(one, async () => {
      await Promise.resolve();
      return io().env['NAME'];
    }),
  );
  expect(await Promise.all(seen)).toEqual(['a', 'b']);
});

it('is the only way of commands to the process', () => {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (path) => path.endsWith('.ts') && !path.endsWith('.test.ts') && !processes.includes(path),
  );
  expect(files.length).toBeGreaterThan(50);
  const direct = /\bprocess\.(?:stdin|stdout|stderr|env|argv|cwd|exit|exitCode|on|once)\b|\bconsole\./;
  expect(files.filter((path) => direct.test(readFileSync(join(folder, path), 'utf8')))).toEqual([]);
});
