/**
 * Opens a listener on a Unix socket. The file of a process that ended without removing it is replaced; whatever else is
 * there stays. The file goes with the listener: Node removes it on close.
 */
import { type BigIntStats, existsSync } from 'node:fs';
import { chmod, lstat, unlink } from 'node:fs/promises';
import { connect, type Server } from 'node:net';
import { dirname } from 'node:path';
import { BindError, type UnixAddress } from './bind.ts';
import { systemErrorCode } from './system-error.ts';

/** Rejects with a BindError. */
export async function bindUnix(server: Server, address: UnixAddress): Promise<void> {
  try {
    await listen(server, address.path);
  } catch (error) {
    if (systemErrorCode(error) !== 'EADDRINUSE')
      throw new BindError(address, error as Error, missing(address));
    const obstacle = await removeStale(address.path);
    if (obstacle !== undefined) throw new BindError(address, error as Error, obstacle);
    await listen(server, address.path).catch((again: unknown) => {
      throw new BindError(address, again as Error);
    });
  }
  try {
    await chmod(address.path, address.mode);
  } catch (error) {
    server.close();
    throw new BindError(address, error as Error);
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
function missing({ path }: UnixAddress): string | undefined {
  return existsSync(dirname(path)) ? undefined : `there is no folder ${dirname(path)}`;
}

/** Resolves with what is in the way, if it may not be removed. */
async function removeStale(path: string): Promise<string | undefined> {
  const before = await look(path);
  if (before === undefined) return undefined;
  if (!before.isSocket()) return 'there is a file that is no socket';
  if (await isAnswered(path)) return 'another process listens on it';
  const now = await look(path);
  // Else another process was quicker, and the file is its own.
  if (now !== undefined && now.ino !== before.ino) return 'another process listens on it';
  await unlink(path).catch(() => {});
  return undefined;
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
