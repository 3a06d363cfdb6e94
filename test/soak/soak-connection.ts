/** A connection that asks for a while and goes: it takes so many calls, and closes when the last one is answered. */
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

import {
  ACK,
  type CallTemplate,
  clientPreface,
  END_STREAM,
  FrameType,
  frame,
  settingsFrame,
  windowUpdateFrame,
} from '../../bench/http2-frames.ts';

const SETTINGS_HEADER_TABLE_SIZE = 1;
const SETTINGS_INITIAL_WINDOW_SIZE = 4;
const largestWindow = 2 ** 31 - 1;
/** Length and flag before a message. */
const prefixBytes = 5;

/** The message of an answer, or undefined when the call ended without one. */
export type Answered = (message: Uint8Array | undefined) => void;

export interface SoakConnectionOptions {
  port: number;
  /** Calls until it goes. */
  calls: number;
  /** It went; with the reason when that was not its own wish. */
  onGone: (connection: SoakConnection, problem: string | undefined) => void;
  /** With TLS, whatever certificate is shown. Defaults to false. */
  tls?: boolean;
}

export class SoakConnection {
  readonly #socket: Socket;
  readonly #open = new Map<number, { answered: Answered; data: Buffer }>();
  #callsLeft: number;
  #nextStreamId = 1;
  readonly #output: Buffer[] = [];
  #unread: Buffer = Buffer.alloc(0);
  #problem: string | undefined = 'closed by the limiter';

  constructor(options: SoakConnectionOptions) {
    this.#callsLeft = options.calls;
    const to = { host: '127.0.0.1', port: options.port, noDelay: true };
    const tls = { ALPNProtocols: ['h2'], rejectUnauthorized: false };
    this.#socket = options.tls === true ? connectTls({ ...to, ...tls }) : connect(to);
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    this.#socket.on('error', (error) => {
      this.#problem = error.message;
    });
    this.#socket.on('close', () => {
      for (const { answered } of this.#open.values()) answered(undefined);
      options.onGone(this, this.#problem);
    });
    // No dynamic table: header blocks are not read here, and every one of theirs stands for itself.
    const settings = settingsFrame([
      [SETTINGS_HEADER_TABLE_SIZE, 0],
      [SETTINGS_INITIAL_WINDOW_SIZE, largestWindow],
    ]);
    this.#output.push(clientPreface, settings, windowUpdateFrame(0, largestWindow - 65_535));
  }

  get takesCalls(): boolean {
    return this.#callsLeft > 0;
  }

  call(template: CallTemplate, answered: Answered): void {
    const bytes = Buffer.from(template.bytes);
    for (const offset of template.streamIdOffsets) bytes.writeUInt32BE(this.#nextStreamId, offset);
    this.#open.set(this.#nextStreamId, { answered, data: Buffer.alloc(0) });
    this.#nextStreamId += 2;
    this.#callsLeft -= 1;
    this.#output.push(bytes);
  }

  flush(): void {
    const output = this.#output.splice(0);
    // A connection that it closed before the limiter's settings arrived needs no acknowledgement of them.
    if (output.length > 0 && !this.#socket.writableEnded) this.#socket.write(Buffer.concat(output));
  }

  /** After its open calls. */
  close(): void {
    this.#callsLeft = 0;
    this.#closeWhenDone();
  }

  #closeWhenDone(): void {
    if (this.#callsLeft > 0 || this.#open.size > 0) return;
    this.#problem = undefined;
    this.#socket.end();
  }

  #read(chunk: Buffer): void {
    const bytes = this.#unread.length === 0 ? chunk : Buffer.concat([this.#unread, chunk]);
    let at = 0;
    while (at + 9 <= bytes.length) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const [type, flags] = [bytes[at + 3] as number, bytes[at + 4] as number];
      this.#frame(type, flags, bytes.readUInt32BE(at + 5), bytes.subarray(at + 9, end));
      at = end;
    }
    this.#unread = bytes.subarray(at);
    this.flush();
    this.#closeWhenDone();
  }

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === FrameType.SETTINGS && (flags & ACK) === 0) {
      this.#output.push(frame(FrameType.SETTINGS, ACK, 0, Buffer.alloc(0)));
    } else if (type === FrameType.PING && (flags & ACK) === 0) {
      this.#output.push(frame(FrameType.PING, ACK, 0, payload));
    } else if (type === FrameType.GOAWAY) {
      this.#problem = `GOAWAY ${payload.readUInt32BE(4)}`;
    } else if (type === FrameType.RST_STREAM) this.#end(id, false);
    else if (type === FrameType.DATA || type === FrameType.HEADERS) {
      const call = this.#open.get(id);
      if (type === FrameType.DATA && call !== undefined) call.data = Buffer.concat([call.data, payload]);
      if ((flags & END_STREAM) !== 0) this.#end(id, true);
    }
  }

  #end(id: number, well: boolean): void {
    const call = this.#open.get(id);
    if (call === undefined) return;
    this.#open.delete(id);
    const isAnswer = well && call.data.length >= prefixBytes;
    call.answered(isAnswer ? call.data.subarray(prefixBytes) : undefined);
  }
}
