import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { besideCheckout } from './beside.ts';

function emptyFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-beside-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

it('is the folder that is given', () => {
  const folder = emptyFolder();
  expect(besideCheckout(folder, '/nowhere')).toBe(folder);
});

it('is the commit that is given, with the packages of this checkout', () => {
  const checkout = besideCheckout('HEAD', emptyFolder());
  for (const path of ['bin/weir.js', 'limiter/main.ts', 'node_modules/undici/package.json']) {
    expect([path, existsSync(join(checkout, path))]).toEqual([path, true]);
  }
});

it('is nothing else', () => {
  expect(() => besideCheckout('no-such-commit', emptyFolder())).toThrow(
    '--beside: no-such-commit is neither a folder nor a commit',
  );
});
