import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../test/support/temporary-folder.ts';
import { BindError } from './bind.ts';
import { bindUnix } from './bind-unix.ts';

const opened: Server[] = [];
afterEach(() => {
  for (const server of opened.splice(0)) server.close();
});

async function open(path: string, mode = 0o600): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => {}).end('here'));
  opened.push(server);
  await bindUnix(server, { path, mode });
  return server;
}

function answer(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.on('data', (data) => resolve(String(data)));
    socket.on('error', reject);
  });
}

async function refusal(path: string): Promise<string> {
  const error = await open(path).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(BindError);
  return (error as BindError).message;
}

describe('bindUnix', () => {
  it('opens a socket with the permissions asked for, and removes it at the end', async () => {
    const path = join(temporaryFolder(), 'socket');
    const server = await open(path, 0o606);
    expect(statSync(path).mode & 0o777).toBe(0o606);
    expect(await answer(path)).toBe('here');
    await new Promise((resolve) => server.close(resolve));
    expect(existsSync(path)).toBe(false);
  });

  it('replaces the file of a process that was killed', async () => {
    const path = join(temporaryFolder(), 'socket');
    const program = `require('node:net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`;
    spawnSync(process.execPath, ['-e', program]);
    expect(statSync(path).isSocket()).toBe(true);
    await open(path);
    expect(await answer(path)).toBe('here');
  });

  it('leaves a socket alone on which somebody listens', async () => {
    const path = join(temporaryFolder(), 'socket');
    await open(path);
    expect(await refusal(path)).toBe(`cannot listen on ${path}: another process listens on it (EADDRINUSE)`);
    expect(await answer(path)).toBe('here');
  });

  it('leaves alone what is no socket', async () => {
    const path = join(temporaryFolder(), 'file');
    writeFileSync(path, 'mine');
    expect(await refusal(path)).toBe(
      `cannot listen on ${path}: there is a file that is no socket (EADDRINUSE)`,
    );
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('names a folder that is missing', async () => {
    const folder = join(temporaryFolder(), 'missing');
    expect(await refusal(join(folder, 'socket'))).toMatch(
      `cannot listen on ${folder}/socket: there is no folder ${folder} (`,
    );
  });

  it('refuses a path that is too long for a socket', async () => {
    const path = join(temporaryFolder(), 'x'.repeat(200));
    expect(await refusal(path)).toMatch(`cannot listen on ${path}: `);
  });
});
