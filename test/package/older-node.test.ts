/** A clone on an older Node: npm installs the right one, and says so in one line. */
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, symlinkSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { projectRoot } from '../support/documents.ts';
import { findServer, node22Program } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const files = ['.npmrc', 'package.json', 'package-lock.json', 'bin/program.js', 'scripts/prepare.js'];

describe('npm ci in a clone, on Node 22', () => {
  const older = findServer(node22Program);
  let folder: string;
  let oldPath: string;

  beforeEach(() => {
    if ('missing' in older) throw new Error(older.missing);
    folder = temporaryFolder();
    for (const file of files) cpSync(join(projectRoot, file), join(folder, file));
    // npm's first line looks for "node".
    mkdirSync(join(folder, 'old'));
    symlinkSync(older.path, join(folder, 'old/node'));
    oldPath = [
      join(folder, 'old'),
      process.env['PATH']?.split(delimiter).filter((one) => !one.includes('node_modules')),
    ]
      .flat()
      .join(delimiter);
  });

  /** Nothing is installed, but everything is checked and npm's scripts are run. */
  function dryRun(): { status: number | null; stderr: string } {
    const { status, stderr } = spawnSync('npm', ['ci', '--dry-run', '--offline', '--no-audit'], {
      cwd: folder,
      env: { PATH: oldPath, HOME: process.env['HOME'], npm_config_update_notifier: 'false' },
      encoding: 'utf8',
    });
    return { status, stderr };
  }

  it('says in one line which Node is there, and which was installed, and succeeds', () => {
    mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true });
    symlinkSync(process.execPath, join(folder, 'node_modules/.bin/node'));
    const { status, stderr } = dryRun();
    expect(stderr).toMatch(
      /^Weir needs Node 26 or newer, and this is Node 22\.\d+\.\d+: npm has installed Node 26\.\S+ for npm start, npm run and bin\/weir\.\n$/,
    );
    expect(status).toBe(0);
  });

  it('says in one line what to do if none was installed', () => {
    const { status, stderr } = dryRun();
    expect(stderr).toMatch(
      /^Weir needs Node 26 or newer, and this is Node 22\.\d+\.\d+: install it, or run "npm ci" without --omit=dev\.\n$/,
    );
    expect(status).toBe(0);
    expect(existsSync(join(folder, 'node_modules/.bin/node'))).toBe(false);
  });
});
