/**
 * Opens a listener on a Unix socket. The file of a process that ended without removing it is replaced; whatever else is
 * there stays. The socket is made under another name beside it, and takes its place once it has its permissions: it is
 * never there with others. The file goes with the listener, unless another process has put its own there meanwhile.
 */
import { randomBytes } from 'node:crypto';
import { type BigIntStats, existsSync, lstatSync, unlinkSync } from 'node:fs';
import { chmod, link, lstat, rename, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { basename, dirname, join } from 'node:path';
import { systemErrorCode } from '../log/error-text.ts';
import { BindError, mostPathBytes, type UnixAddress } from './process-bind.ts';

/** Rejects with a BindError. */
export async function bindUnix(server: Server, address: UnixAddress): Promise<void> {
  const { path } = address;
  const before = await look(path);
  const obstacle = before === undefined ? undefined : await obstacleOf(path, before);
  if (obstacle !== undefined) throw inUse(address, obstacle);
  const made = nameBeside(address);
  await listen(server, made).catch((error: unknown) => {
    throw folderError(address, error as Error);
  });
  try {
    await chmod(made, address.mode);
    await putInPlace(made, address, before);
  } catch (error) {
    server.close();
    await unlink(made).catch(() => {});
    throw error instanceof BindError ? error : new BindError(address, error as Error);
  }
  const ours = await look(path);
  server.once('close', () => {
    if (ours !== undefined) removeIfSame(path, ours);
  });
}

/** Within the bound for a name that is within it itself, unless the last part of that has less than 5 bytes. */
function nameBeside(address: UnixAddress): string {
  const suffix = `.${randomBytes(2).toString('hex')}`;
  const telling = address.path + suffix;
  if (Buffer.byteLength(telling) <= mostPathBytes) return telling;
  const short = join(dirname(address.path), suffix);
  if (Buffer.byteLength(short) <= mostPathBytes && Buffer.byteLength(address.path) <= mostPathBytes)
    return short;
  const cause = Object.assign(new Error('name too long'), { code: 'ENAMETOOLONG' });
  throw new BindError(address, cause, tooLong(address.path));
}

function tooLong(path: string): string {
  const most = mostPathBytes - Math.max(0, '.0000'.length - Buffer.byteLength(basename(path)));
  return `the path has ${Buffer.byteLength(path)} bytes, and a socket's at most ${most}`;
}

/** Without a file there, a process that is quicker wins: its file is not replaced. */
async function putInPlace(
  made: string,
  address: UnixAddress,
  before: BigIntStats | undefined,
): Promise<void> {
  const { path } = address;
  if (before === undefined) {
    await link(made, path).catch((error: unknown) => {
      throw systemErrorCode(error) === 'EEXIST' ? inUse(address, anotherListens) : error;
    });
    await unlink(made);
    return;
  }
  const now = await look(path);
  if (now !== undefined && !isSame(now, before)) throw inUse(address, anotherListens);
  await rename(made, path);
}

const anotherListens = 'another process listens on it';

function inUse(address: UnixAddress, obstacle: string): BindError {
  return new BindError(address, Object.assign(new Error(obstacle), { code: 'EADDRINUSE' }), obstacle);
}

/** A file that Linux makes later may get the number of one that is gone. */
function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.ino === other.ino && one.dev === other.dev && one.birthtimeNs === other.birthtimeNs;
}

function removeIfSame(path: string, ours: BigIntStats): void {
  try {
    if (isSame(lstatSync(path, { bigint: true }), ours)) unlinkSync(path);
  } catch {
    // It is gone, or not ours to remove any more.
  }
}

function listen(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen({ path }, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

/** libuv says "permission denied" for a folder that is not there. */
function folderError(address: UnixAddress, error: NodeJS.ErrnoException): BindError {
  const folder = dirname(address.path);
  if (!existsSync(folder)) {
    const cause = Object.assign(new Error(error.message, { cause: error }), { code: 'ENOENT' });
    return new BindError(address, cause, `there is no folder ${folder}: make it, or mount it`);
  }
  if (systemErrorCode(error) !== 'EACCES') return new BindError(address, error);
  const user = process.getuid === undefined ? 'this process' : `user ${process.getuid()}`;
  return new BindError(address, error, `${user} may not make files in the folder ${folder}: permit it`);
}

/** What is in the way, if it may not be replaced. */
async function obstacleOf(path: string, file: BigIntStats): Promise<string | undefined> {
  if (!file.isSocket()) return 'there is a file that is no socket';
  return (await isAnswered(path)) ? anotherListens : undefined;
}

function look(path: string): Promise<BigIntStats | undefined> {
  return lstat(path, { bigint: true }).catch(() => undefined);
}

/** Only a refusal is no answer: one that may not connect, or finds the queue full, has somebody before it. */
function isAnswered(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.on('error', (error) => {
      const code = systemErrorCode(error);
      resolve(code !== 'ECONNREFUSED' && code !== 'ENOENT');
    });
  });
}
