/** What an attack is, and the connections it is made with: raw bytes out, and a tally of what comes back. */
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { status as GrpcStatus } from '@grpc/grpc-js';
import { HpackDecoder } from '../../limiter/hpack/decoder.ts';
import { HpackEncoder, maxEncodedBytes } from '../../limiter/hpack/encoder.ts';
import { clientPreface, ErrorCode, Flag, FrameType, Setting } from '../../limiter/http2/constants.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import type { ServerProgram } from '../support/find-server.ts';
import { frame, ping, settings, settingsAck, windowUpdate } from '../support/http2-frame-script.ts';

export interface Attack {
  name: string;
  /** What is done, for a table: a phrase without a full stop. */
  what: string;
  /** Defaults to the limiter's own memory. */
  store?: 'redis' | 'memcached';
  /** The limiter's gRPC listener speaks TLS. */
  tls?: boolean;
  /** The limiter serves quota clients, and callers have rights. */
  quota?: true;
  /** The peer of the limiter that the attacker plays, besides a caller, on `ports.played`. */
  plays?: 'xds' | 'statsd';
  /** Defaults to a limiter. */
  attacks?: 'control-plane';
  /** Others that it starts by itself. */
  programs?: readonly ServerProgram[];
  /** A kind of answer that shows that the attack took place and met its defense. A run in which it does not come fails. */
  meets: RegExp;
  /** Ends early or never: time ends it. */
  run(target: AttackTarget): Promise<void>;
}

/** 0: not there. */
export interface AttackPorts {
  grpc: number;
  http: number;
  /** Of a control plane. */
  xds: number;
  played: number;
}

export interface AttackTarget {
  ports: AttackPorts;
  /** So many of what an attack has many of; a tenth or so in the short form. */
  many(count: number): number;
  /** From 0 to below 1, by the seed of the run. */
  random(): number;
  got: Tally;
}

/** Ends the loops of an attack whose time is over. */
class AttackOver extends Error {}

/** What the attacker got, by kind. It also ends the attack. */
export class Tally {
  readonly counts = new Map<string, number>();
  /** Why the attack reached what it was made for, where answers report. */
  reached: string | undefined;
  /** Connections that are open. */
  kept = 0;
  /** Time ended before everything was begun. */
  isPart = false;
  isOver = false;
  readonly #peers = new Set<{ close(): void }>();

  /** Closes the connections that are open, and opens no more. */
  end(): void {
    this.isOver = true;
    for (const peer of this.#peers) peer.close();
  }

  /** `end` closes it. @throws when the attack is over */
  opens(peer: { close(): void }): void {
    if (this.isOver) throw new AttackOver();
    this.#peers.add(peer);
  }

  closed(peer: { close(): void }): void {
    this.#peers.delete(peer);
  }

  /** Returns whether something of this kind came, or connections of that kind are open. */
  has(kind: RegExp): boolean {
    return (
      (this.kept > 0 && kind.test('connections open')) ||
      [...this.counts.keys()].some((what) => kind.test(what))
    );
  }

  add(what: string, times = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + times);
  }

  toString(): string {
    const kinds = [...this.counts].sort(([, a], [, b]) => b - a).slice(0, 5);
    const came = kinds.map(([what, count]) => `${count.toLocaleString('en-US')} × ${what}`);
    if (this.kept > 0) came.push(`${this.kept.toLocaleString('en-US')} connections open`);
    if (this.isPart) came.push('begun in part');
    return came.join(', ') || 'nothing';
  }
}

/** Not the good client's address. Linux has all of 127.0.0.0/8. */
export const attackerAddress = '127.0.0.2';

export const never: Promise<never> = new Promise(() => {});

export interface PeerOptions {
  from?: string;
  /** Takes nothing from its socket. */
  deaf?: boolean;
  tls?: boolean;
}

/** A connection whose bytes the attack writes. */
export class RawPeer {
  readonly got: Tally;
  isClosed = false;
  readonly #socket: Socket;
  readonly #opened: Promise<unknown>;
  #isKept = false;
  #waiting: (() => void)[] = [];

  constructor(
    port: number,
    got: Tally,
    { from = attackerAddress, deaf = false, tls = false }: PeerOptions = {},
  ) {
    this.got = got;
    got.opens(this);
    const to = { host: '127.0.0.1', port, localAddress: from, noDelay: true };
    this.#socket = tls
      ? connectTls({ ...to, ALPNProtocols: ['h2'], rejectUnauthorized: false })
      : connect(to);
    this.#opened = new Promise((resolve) => {
      this.#socket.once(tls ? 'secureConnect' : 'connect', () => {
        this.#isKept = true;
        got.kept += 1;
        resolve(undefined);
      });
      this.#socket.once('close', resolve);
    });
    let why = 'connections closed';
    this.#socket.on('error', ({ code }: NodeJS.ErrnoException) => {
      const isEnd = code === 'ECONNRESET' || code === 'EPIPE';
      why = isEnd ? 'connections reset' : `connections failed (${code})`;
    });
    this.#socket.on('close', () => {
      if (!this.isClosed) got.add(why);
      if (this.#isKept) got.kept -= 1;
      got.closed(this);
      this.isClosed = true;
      this.wake();
    });
    this.#socket.on('drain', () => this.wake());
    if (deaf) return;
    this.#socket.on('data', (chunk: Buffer) => {
      this.read(chunk);
      this.wake();
    });
  }

  /** Resolves when it is open, or has failed. */
  async opened(): Promise<void> {
    await this.#opened;
  }

  /** Resolves when the socket can take more, or is gone. */
  async write(...pieces: Uint8Array[]): Promise<void> {
    if (this.isClosed) return;
    this.#socket.write(Buffer.concat(pieces));
    // Always: events come between the writes, an end that is not reported yet among them.
    await new Promise((resolve) => setImmediate(resolve));
    while (!this.isClosed && this.#socket.writableNeedDrain) await this.change();
  }

  /** Resolves when something came, went out, or the connection ended. */
  change(): Promise<void> {
    return this.isClosed ? Promise.resolve() : new Promise((resolve) => this.#waiting.push(resolve));
  }

  close(): void {
    this.isClosed = true;
    this.#socket.destroy();
    this.wake();
  }

  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** HTTP/1, unless somebody knows better. */
  protected read(chunk: Buffer): void {
    for (const [, status] of chunk.toString('latin1').matchAll(/^HTTP\/1\.1 (\d+)/gm)) {
      this.got.add(`HTTP ${status}`);
    }
  }
}

/** The fields that every request of a gRPC client has. */
export const callFields: readonly string[] = [
  ...[':method', 'POST', ':scheme', 'http', ':path', shouldRateLimitPath, ':authority', 'limiter'],
  ...['te', 'trailers', 'content-type', 'application/grpc'],
];

/** A client of HTTP/2 that keeps to its peer's windows where it sends bodies, and to nothing else. */
export class H2Peer extends RawPeer {
  readonly #encoder = new HpackEncoder({ maxTableBytes: 4096 });
  readonly #decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1_000_000 });
  readonly #windows = new Map<number, number>();
  readonly #ended = new Set<number>();
  #unread: Buffer = Buffer.alloc(0);
  #connectionWindow = 65_535;
  #streamWindow = 65_535;
  #nextId = -1;

  constructor(port: number, got: Tally, options: PeerOptions = {}) {
    super(port, got, options);
    if (options.deaf !== true) return;
    // Who does not hear of room takes it.
    this.#connectionWindow = Number.POSITIVE_INFINITY;
    this.#streamWindow = Number.POSITIVE_INFINITY;
  }

  /** With SETTINGS of its own, and a gibibyte of room for answers. */
  async begin(...pairs: [identifier: number, value: number][]): Promise<this> {
    await this.opened();
    await this.write(clientPreface, settings(...pairs), settingsAck, windowUpdate(0, 2 ** 30));
    return this;
  }

  nextId(): number {
    this.#nextId += 2;
    return this.#nextId;
  }

  block(fields: readonly string[] = callFields): Buffer {
    const target = Buffer.alloc(maxEncodedBytes(fields));
    return target.subarray(0, this.#encoder.encode(fields, target, 0));
  }

  headers(id: number, flags = 0, fields?: readonly string[]): Buffer {
    return frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, this.block(fields));
  }

  /** Sends a body as the windows let it, with `flags` on its last frame. */
  async body(id: number, bytes: Uint8Array, flags: number = Flag.END_STREAM): Promise<void> {
    for (let at = 0; at < bytes.length && !this.isClosed && !this.#ended.has(id); ) {
      const stream = this.#windows.get(id) ?? this.#streamWindow;
      const room = Math.min(16_384, this.#connectionWindow, stream, bytes.length - at);
      if (room <= 0) {
        await this.change();
        continue;
      }
      this.#connectionWindow -= room;
      this.#windows.set(id, stream - room);
      const isLast = at + room === bytes.length;
      await this.write(frame(FrameType.DATA, isLast ? flags : 0, id, bytes.subarray(at, at + room)));
      at += room;
    }
  }

  /** A whole call. Resolves when it is answered, however. */
  async call(body: Uint8Array, fields?: readonly string[]): Promise<void> {
    const id = this.nextId();
    await this.write(this.headers(id, 0, fields));
    await this.body(id, body);
    while (!this.isClosed && !this.#ended.has(id)) await this.change();
    this.#ended.delete(id);
    this.#windows.delete(id);
  }

  protected override read(chunk: Buffer): void {
    const bytes = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    let at = 0;
    while (at + 9 <= bytes.length) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const [type, flags, id] = [
        bytes[at + 3] as number,
        bytes[at + 4] as number,
        bytes.readUInt32BE(at + 5),
      ];
      this.#frame(type, flags, id, bytes.subarray(at + 9, end));
      at = end;
    }
    this.#unread = bytes.subarray(at);
  }

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === FrameType.HEADERS) this.#section(payload);
    else if (type === FrameType.DATA) this.data(id, payload);
    else if (type === FrameType.RST_STREAM) {
      this.got.add(`RST_STREAM ${codeName(payload.readUInt32BE(0))}`);
      this.#ended.add(id);
    } else if (type === FrameType.GOAWAY) {
      // The reason's name stands before its words.
      const [reason] = payload.toString('utf8', 8).split(':', 1);
      this.got.add(`GOAWAY ${codeName(payload.readUInt32BE(4))} (${reason})`);
    } else if (type === FrameType.WINDOW_UPDATE) {
      const increment = payload.readUInt32BE(0);
      if (id === 0) this.#connectionWindow += increment;
      else this.#windows.set(id, (this.#windows.get(id) ?? this.#streamWindow) + increment);
    } else if (type === FrameType.SETTINGS && flags !== Flag.ACK) {
      for (let at = 0; at < payload.length; at += 6) {
        if (payload.readUInt16BE(at) === Setting.INITIAL_WINDOW_SIZE)
          this.#initialWindow(payload.readUInt32BE(at + 2));
      }
    } else if (type === FrameType.PING && flags !== Flag.ACK) {
      void this.write(ping(payload.toString('latin1'), Flag.ACK));
    }
    const mayEnd = type === FrameType.HEADERS || type === FrameType.DATA;
    if (mayEnd && (flags & Flag.END_STREAM) !== 0) this.#ended.add(id);
  }

  /** Of a stream, as much as came. */
  protected data(_id: number, _bytes: Buffer): void {}

  /** Of streams that are open as well: RFC 9113, section 6.9.2. */
  #initialWindow(bytes: number): void {
    for (const [id, window] of this.#windows) this.#windows.set(id, window + bytes - this.#streamWindow);
    this.#streamWindow = bytes;
  }

  #section(block: Buffer): void {
    const list: string[] = [];
    this.#decoder.decode(block, 0, block.length, list);
    const field = (name: string): string | undefined => {
      const at = list.indexOf(name);
      return at < 0 ? undefined : list[at + 1];
    };
    const http = field(':status');
    if (http !== undefined && http !== '200') this.got.add(`HTTP ${http}`);
    const code = field('grpc-status');
    if (code === undefined) return;
    const setting = settingIn(field('grpc-message') ?? '');
    this.got.add(
      code === '0' ? 'answers' : `${GrpcStatus[Number(code)]}${setting === undefined ? '' : ` (${setting})`}`,
    );
  }
}

/** Opens so many, each followed by `each`; a hundred at a time, as a listener's queue is no endless one. */
export async function openMany(
  count: number,
  open: (index: number) => RawPeer | Promise<RawPeer>,
  each: (peer: RawPeer) => Promise<void> = async () => {},
): Promise<void> {
  let done = 0;
  for (let at = 0; at < count; at += 100) {
    const indexes = Array.from({ length: Math.min(100, count - at) }, (_, i) => at + i);
    await Promise.all(
      indexes.map(async (index) => {
        const peer = await open(index);
        peer.got.isPart = true;
        await peer.opened();
        await each(peer);
        done += 1;
        peer.got.isPart = done < count;
      }),
    );
  }
}

/** The first that a message of a rejection names. */
export function settingIn(message: string): string | undefined {
  return /[A-Z]+(?:_[A-Z]+)+/.exec(message)?.[0];
}

function codeName(code: number): string {
  return Object.entries(ErrorCode).find(([, value]) => value === code)?.[0] ?? `code ${code}`;
}
