import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { findServer } from './find-server.ts';
import { temporaryFolder } from './temporary-folder.ts';

const program = { command: 'weir-test-server', variable: 'WEIR_TEST_SERVER' };
let folder: string;
let path: string;

beforeEach(() => {
  folder = temporaryFolder();
  path = join(folder, program.command);
  writeFileSync(path, '#!/bin/sh\n', { mode: 0o755 });
  writeFileSync(join(folder, 'plain'), '');
});

describe('findServer', () => {
  it('takes what the variable names', () => {
    expect(findServer(program, { WEIR_TEST_SERVER: path, PATH: '' })).toEqual({ path });
  });

  it('does not look elsewhere when the variable names no executable', () => {
    const plain = join(folder, 'plain');
    expect(findServer(program, { WEIR_TEST_SERVER: plain, PATH: folder })).toEqual({
      missing: `WEIR_TEST_SERVER names no executable file: ${plain}`,
    });
  });

  it('looks through PATH', () => {
    expect(findServer(program, { PATH: `/nowhere:${folder}` })).toEqual({ path });
  });

  it('says where it looked', () => {
    expect(findServer(program, { PATH: '/nowhere' })).toEqual({
      missing: 'weir-test-server is neither named by WEIR_TEST_SERVER, nor on PATH, nor in .cache/servers',
    });
  });
});
