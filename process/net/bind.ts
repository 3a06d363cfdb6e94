/** Opens listeners on TCP and on Unix sockets, with the same text for each failure, and ends them within a time. */
import { randomBytes } from 'node:crypto';
import { type BigIntStats, existsSync, lstatSync, unlinkSync } from 'node:fs';
import { chmod, link, lstat, rename, unlink } from 'node:fs/promises';
import {
  type AddressInfo,
  BlockList,
  connect,
  isIP,
  type ListenOptions,
  type Server,
  type Socket,
} from 'node:net';
import { basename, dirname, join } from 'node:path';
import { systemErrorCode, systemErrorReason } from '../log/error-text.ts';

/** An empty host means every address of the machine; port 0 means any free port. */
export interface ListenAddress {
  host: string;
  port: number;
  /** Listeners that all set this share the port: the system distributes the connections among them (SO_REUSEPORT). */
  reusePort?: boolean;
}

/**
 * The connections that wait to be accepted. One turn of the loop accepts one, and a client that finds no place tries again after a
 * second. The system has a bound of its own (`net.core.somaxconn`, 4,096 on Linux); Node's default is 511.
 */
const backlog = 4096;

/** The longest path of a socket on Linux, which has 108 bytes with the zero at its end. */
export const maxPathBytes = 107;

/** A socket in the file system. */
export interface UnixAddress {
  path: string;
  /** The permissions of the file. Connecting needs the right to write. */
  mode: number;
}

/** A listener could not be opened; the message names its address. */
export class BindError extends Error {
  override readonly name = 'BindError';
  readonly address: string;
  /** The system's code, for example EADDRINUSE. */
  readonly code: string;

  /** `why` precedes the system's message. */
  constructor(address: ListenAddress | UnixAddress, cause: NodeJS.ErrnoException, why = reason(cause)) {
    const text = addressText(address);
    const code = cause.code ?? 'unknown';
    super(`cannot listen on ${text}: ${why} (${code})`, { cause });
    this.address = text;
    this.code = code;
  }
}

/**
 * Resolves with the actual port, or rejects with a BindError. A host name is bound at its first address. Ports are not shared unless
 * requested: a second process on it fails.
 */
export async function bind(server: Server, address: ListenAddress): Promise<{ port: number }> {
  try {
    await listen(server, listenOptions(address));
  } catch (error) {
    throw new BindError(address, error as Error);
  }
  return { port: (server.address() as AddressInfo).port };
}

function listen(server: Server, options: ListenOptions): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once('error', reject);
  try {
    server.listen(options, resolve);
  } catch (error) {
    reject(error);
  }
  return promise.finally(() => server.off('error', reject));
}

function listenOptions({ host, port, reusePort = false }: ListenAddress): ListenOptions {
  const options = reusePort ? { port, reusePort, backlog } : { port, backlog };
  return host === '' ? options : { ...options, host };
}

/** An address as users write it: IPv6 in brackets. */
export function addressText(address: ListenAddress | UnixAddress): string {
  if ('path' in address) return address.path;
  const { host, port } = address;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether only this machine reaches a listener there. The only name that counts is `localhost`. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host.toLowerCase() === 'localhost';
  return loopback.check(host, version === 4 ? 'ipv4' : 'ipv6');
}

function reason(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ERR_SOCKET_BAD_PORT') return 'the port must be 0 to 65535';
  return systemErrorReason(cause);
}

/**
 * Opens a listener on a Unix socket. It replaces the file of a process that ended without removing it; any other file stays. The socket
 * is created under another name in the same folder and moved to its place after its permissions are set, so it never exists there with
 * others. The file is removed with the listener, unless another process has replaced it meanwhile. Rejects with a BindError.
 */
export async function bindUnix(server: Server, address: UnixAddress): Promise<void> {
  const { path } = address;
  const before = await look(path);
  const obstacle = before === undefined ? undefined : await obstacleOf(path, before);
  if (obstacle !== undefined) throw inUse(address, obstacle);
  const made = nameBeside(address);
  await listen(server, { path: made }).catch((error: unknown) => {
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

/** Returns a name within the length limit if the given one is, unless its last part has less than 5 bytes. */
function nameBeside(address: UnixAddress): string {
  const suffix = `.${randomBytes(2).toString('hex')}`;
  const descriptive = address.path + suffix;
  if (Buffer.byteLength(descriptive) <= maxPathBytes) return descriptive;
  const short = join(dirname(address.path), suffix);
  if (Buffer.byteLength(short) <= maxPathBytes && Buffer.byteLength(address.path) <= maxPathBytes)
    return short;
  const cause = Object.assign(new Error('name too long'), { code: 'ENAMETOOLONG' });
  throw new BindError(address, cause, tooLong(address.path));
}

function tooLong(path: string): string {
  const max = maxPathBytes - Math.max(0, '.0000'.length - Buffer.byteLength(basename(path)));
  return `the path has ${Buffer.byteLength(path)} bytes, and a socket's at most ${max}`;
}

/** If there was no file, a process that is faster wins: its file is not replaced. */
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

/** On Linux, a new file may get the inode number of one that is gone. */
function isSame(one: BigIntStats, other: BigIntStats): boolean {
  return one.ino === other.ino && one.dev === other.dev && one.birthtimeNs === other.birthtimeNs;
}

function removeIfSame(path: string, ours: BigIntStats): void {
  try {
    if (isSame(lstatSync(path, { bigint: true }), ours)) unlinkSync(path);
  } catch {
    // The file is gone, or not ours to remove any more.
  }
}

/** libuv reports "permission denied" for a folder that does not exist. */
function folderError(address: UnixAddress, error: NodeJS.ErrnoException): BindError {
  const folder = dirname(address.path);
  if (!existsSync(folder)) {
    const cause = Object.assign(new Error(error.message, { cause: error }), { code: 'ENOENT' });
    return new BindError(address, cause, `there is no folder ${folder}: create it, or mount it`);
  }
  if (systemErrorCode(error) !== 'EACCES') return new BindError(address, error);
  const user = process.getuid === undefined ? 'this process' : `user ${process.getuid()}`;
  return new BindError(address, error, `${user} may not create files in the folder ${folder}: permit it`);
}

/** Returns what is at the path, if it may not be replaced. */
async function obstacleOf(path: string, file: BigIntStats): Promise<string | undefined> {
  if (!file.isSocket()) return 'there is a file that is not a socket';
  return (await isAnswered(path)) ? anotherListens : undefined;
}

function look(path: string): Promise<BigIntStats | undefined> {
  return lstat(path, { bigint: true }).catch(() => undefined);
}

/**
 * Whether a process listens there. Only a rejected connection means no: if permissions are missing or the queue is full, there is a
 * listener.
 */
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

export interface Closing {
  /** Calls back when everything is closed. */
  close(closed: () => void): void;
  /** Closes the rest by force. */
  cut(): void;
  /** The time for `close` before the cut. */
  graceMs: number;
}

/** Ends a listener. Resolves when it is closed, by itself or by force. */
export async function closeOrCut({ close, cut, graceMs }: Closing): Promise<void> {
  const closed = new Promise<void>(close);
  const timer = setTimeout(cut, graceMs);
  await closed;
  clearTimeout(timer);
}

/** The time that a peer has to close after we did. A reset at once could cost it our last frames. */
const lingerMs = 500;

/** The connections of one listener, so that its end takes a bounded time, whatever its peers do. */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();

  get size(): number {
    return this.#sockets.size;
  }

  /** Watches a connection from its start, and destroys it if its peer does not close after we did. */
  add(socket: Socket): void {
    this.#sockets.add(socket);
    let linger: NodeJS.Timeout | undefined;
    socket.on('finish', () => {
      linger = setTimeout(() => socket.destroy(), lingerMs);
    });
    socket.on('close', () => {
      clearTimeout(linger);
      this.#sockets.delete(socket);
    });
  }

  /** Ends all connections by force. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
