import { execFileSync } from 'node:child_process';
import { expect, it } from 'vitest';

/** Names of Node's own modules that a process has loaded after this import. */
function loadedAfter(statement: string): string[] {
  const program = `${statement}; process.stdout.write(JSON.stringify(process.moduleLoadList))`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' });
  return JSON.parse(output) as string[];
}

const undici = /undici/;

it('loads no undici with the HTTP listener, which an import of node:http would do', () => {
  const server = new URL('../../process/http/http-server.ts', import.meta.url);
  expect(
    loadedAfter(`await import(${JSON.stringify(server.href)})`).filter((name) => undici.test(name)),
  ).toEqual([]);
  expect(loadedAfter(`await import('node:http')`).some((name) => undici.test(name))).toBe(true);
});
