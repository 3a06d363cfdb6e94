/** Opens listeners, on TCP and on Unix sockets, with one wording for every failure; and ends them in time. */
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

/** An empty host stands for every address of the machine; port 0 for any free port. */
export interface ListenAddress {
  host: string;
  port: number;
  /** Listeners that all say so share the port: the system deals the connections out among them (SO_REUSEPORT). */
  reusePort?: boolean;
}

/**
 * Connections that wait to be accepted, one in a turn of the loop: anyone who finds no place tries again after a second. The
 * system has a bound of its own (`net.core.somaxconn`, 4,096 on Linux); Node's default is 511.
 */
const backlog = 4096;

/** Of a socket's path on Linux: 108 with the zero byte at its end. */
export const mostPathBytes = 107;

/** A socket in the file system. */
export interface UnixAddress {
  path: string;
  /** Its permissions: to connect is to write. */
  mode: number;
}

/** A listener could not be opened; the message names its address. */
export class BindError extends Error {
  override readonly name = 'BindError';
  readonly address: string;
  /** As the system names it, for example EADDRINUSE. */
  readonly code: string;

  /** `why` goes before what the system says. */
  constructor(address: ListenAddress | UnixAddress, cause: NodeJS.ErrnoException, why = reason(cause)) {
    const text = addressText(address);
    const code = cause.code ?? 'unknown';
    super(`cannot listen on ${text}: ${why} (${code})`, { cause });
    this.address = text;
    this.code = code;
  }
}

/**
 * Resolves with the port really taken, or rejects with a BindError. A host name is bound at its first address. No port is
 * shared, unless that is asked for: a second process on it fails.
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

/** Whether only this machine reaches what listens there. Of names only `localhost` is known. */
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
 * Opens a listener on a Unix socket. The file of a process that ended without removing it is replaced; whatever else is
 * there stays. The socket is made under another name beside it, and takes its place once it has its permissions: it is
 * never there with others. The file goes with the listener, unless another process has put its own there meanwhile.
 * Rejects with a BindError.
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

/** Within the bound for a name that is within it itself, unless the last part of that has less than 5 bytes. */
function nameBeside(address: UnixAddress): string {
  const suffix = `.${randomBytes(2).toString('hex')}`;
  const descriptive = address.path + suffix;
  if (Buffer.byteLength(descriptive) <= mostPathBytes) return descriptive;
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

export interface Closing {
  /** Calls back when everything that was open is closed. */
  close(closed: () => void): void;
  /** Closes what is still open by force. */
  cut(): void;
  /** How long `close` may take before the cut. */
  graceMs: number;
}

/** Ends a listener: settles when it is closed, by itself or by the cut. */
export async function closeOrCut({ close, cut, graceMs }: Closing): Promise<void> {
  const closed = new Promise<void>(close);
  const timer = setTimeout(cut, graceMs);
  await closed;
  clearTimeout(timer);
}

/** How long a peer may take to hang up after we did: a reset at once could cost it our last frames. */
const lingerMs = 500;

/** The connections of one listener, so that its end can be bounded whatever its peers do. */
export class OpenSockets {
  readonly #sockets = new Set<Socket>();

  get size(): number {
    return this.#sockets.size;
  }

  /** Watches a connection from its beginning; also destroys it where its peer does not hang up after we did. */
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

  /** Ends all of them by force. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }
}
