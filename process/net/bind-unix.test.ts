import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { BindError, bindUnix } from './bind.ts';

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

function closed(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
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
    await closed(server);
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

  it('leaves alone a file that is no socket', async () => {
    const path = join(temporaryFolder(), 'file');
    writeFileSync(path, 'mine');
    expect(await refusal(path)).toBe(
      `cannot listen on ${path}: there is a file that is not a socket (EADDRINUSE)`,
    );
    expect(readFileSync(path, 'utf8')).toBe('mine');
  });

  it('names a folder that is missing', async () => {
    const folder = join(temporaryFolder(), 'missing');
    expect(await refusal(join(folder, 'socket'))).toBe(
      `cannot listen on ${folder}/socket: there is no folder ${folder}: create it, or mount it (ENOENT)`,
    );
  });

  it('names a folder in which it may not make files, and its user', async () => {
    const folder = '/proc/sys';
    expect(await refusal(join(folder, 'socket'))).toBe(
      `cannot listen on ${folder}/socket: user ${process.getuid?.()} may not create files in the folder ${folder}: permit it (EACCES)`,
    );
  });

  it('takes a path of 107 bytes, and rejects a longer one', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'x'.repeat(106 - folder.length));
    await open(path);
    expect(await answer(path)).toBe('here');
    expect(await refusal(`${path}y`)).toBe(
      `cannot listen on ${path}y: the path has 108 bytes, and a socket's at most 107 (ENAMETOOLONG)`,
    );
  });

  it('takes less of a path whose last part is so short that no other name beside it fits', async () => {
    const folder = join(temporaryFolder(), 'f');
    const long = folder + 'f'.repeat(105 - folder.length);
    mkdirSync(long);
    expect(await refusal(join(long, 's'))).toBe(
      `cannot listen on ${long}/s: the path has 107 bytes, and a socket's at most 103 (ENAMETOOLONG)`,
    );
  });

  it('leaves nothing behind but the socket', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'socket');
    const server = await open(path);
    expect(readdirSync(folder)).toEqual(['socket']);
    await refusal(path);
    expect(readdirSync(folder)).toEqual(['socket']);
    await closed(server);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('never shows the socket with other permissions than those asked for', async () => {
    const folder = temporaryFolder();
    const path = join(folder, 'socket');
    const modes = new Set<number>();
    const looking = open(path, 0o600);
    let isOpen = false;
    void looking.then(() => {
      isOpen = true;
    });
    while (!isOpen) {
      if (existsSync(path)) modes.add(statSync(path).mode & 0o777);
      await new Promise((resolve) => setImmediate(resolve));
    }
    modes.add(statSync(path).mode & 0o777);
    expect([...modes]).toEqual([0o600]);
  });

  it('does not remove the socket of a successor', async () => {
    const path = join(temporaryFolder(), 'socket');
    const first = await open(path);
    unlinkSync(path);
    await open(path);
    await closed(first);
    expect(await answer(path)).toBe('here');
  });

  it('does not remove the socket of a successor that came while it ended', async () => {
    const path = join(temporaryFolder(), 'socket');
    const first = await open(path);
    const kept = connect(path);
    await once(kept, 'connect');
    const ended = closed(first);
    await open(path);
    kept.destroy();
    await ended;
    expect(await answer(path)).toBe('here');
  });

  it('lets one of two that begin together have it', async () => {
    const path = join(temporaryFolder(), 'socket');
    const outcomes = await Promise.allSettled([open(path), open(path)]);
    expect(outcomes.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
    expect(await answer(path)).toBe('here');
  });
});
