/** Plays a client frame by frame over a real socket, and keeps what comes back: by stream, and of the connection. */
import { connect, type Socket } from 'node:net';

import { clientPreface, Flag, FrameType } from '../../limiter/http2/constants.ts';
import { frame, settings, settingsAck } from './http2-frame-script.ts';
import { NaiveHpackDecoder } from './naive-hpack-decoder.ts';

/** What came on one stream. */
export interface PeerStream {
  /** Header sections in order, the trailers included. */
  sections: Record<string, string>[];
  dataBytes: number;
  ended: boolean;
  resetCode: number | undefined;
}

export class SocketPeer {
  readonly streams = new Map<number, PeerStream>();
  /** Frames of the connection itself, in words: `GOAWAY 2147483647 0`. */
  readonly reported: string[] = [];
  /** Settles when the socket is closed. */
  readonly closed: Promise<void>;
  isClosed = false;
  readonly #socket: Socket;
  readonly #decoder = new NaiveHpackDecoder({ maxTableBytes: 4096 });
  #unread: Buffer = Buffer.alloc(0);

  constructor(port: number) {
    this.#socket = connect({ host: '127.0.0.1', port, noDelay: true });
    this.closed = new Promise((resolve) => {
      this.#socket.on('close', () => {
        this.isClosed = true;
        resolve();
      });
    });
    this.#socket.on('error', (error) => this.reported.push(error.message));
    this.#socket.on('data', (chunk: Buffer) => this.#read(chunk));
    this.send(clientPreface, settings());
  }

  send(...pieces: Uint8Array[]): void {
    this.#socket.write(Buffer.concat(pieces));
  }

  stream(id: number): PeerStream {
    const known = this.streams.get(id);
    if (known !== undefined) return known;
    const stream = { sections: [], dataBytes: 0, ended: false, resetCode: undefined };
    this.streams.set(id, stream);
    return stream;
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(chunk: Buffer): void {
    const bytes = Buffer.concat([this.#unread, chunk]);
    let at = 0;
    while (at + 9 <= bytes.length) {
      const end = at + 9 + bytes.readUIntBE(at, 3);
      if (end > bytes.length) break;
      const [type, flags] = [bytes[at + 3] as number, bytes[at + 4] as number];
      this.#frame(type, flags, bytes.readUInt32BE(at + 5), bytes.subarray(at + 9, end));
      at = end;
    }
    this.#unread = bytes.subarray(at);
  }

  #frame(type: number, flags: number, id: number, payload: Buffer): void {
    if (type === FrameType.HEADERS) {
      // The limiter's sections fit into one frame.
      this.stream(id).sections.push(Object.fromEntries(this.#decoder.decode(payload)));
    } else if (type === FrameType.DATA) this.stream(id).dataBytes += payload.length;
    else if (type === FrameType.RST_STREAM) this.stream(id).resetCode = payload.readUInt32BE(0);
    else if (type === FrameType.GOAWAY) {
      this.reported.push(`GOAWAY ${payload.readUInt32BE(0)} ${payload.readUInt32BE(4)}`);
    } else if (type === FrameType.SETTINGS && flags !== Flag.ACK) this.send(settingsAck);
    else if (type === FrameType.PING && flags !== Flag.ACK) {
      this.reported.push('PING');
      this.send(frame(FrameType.PING, Flag.ACK, 0, payload));
    }
    const hasEnd = type === FrameType.HEADERS || type === FrameType.DATA;
    if (hasEnd && (flags & Flag.END_STREAM) !== 0) this.stream(id).ended = true;
  }
}

/** HEADERS of a request, whose fields enter no table: RFC 7541, section 6.2.2. */
export function headersFrame(id: number, fields: readonly [string, string][], flags = 0): Buffer {
  const literals = fields.map(([name, value]) =>
    Buffer.concat([
      Buffer.from([0, name.length]),
      Buffer.from(name, 'latin1'),
      Buffer.from([value.length]),
      Buffer.from(value, 'latin1'),
    ]),
  );
  return frame(FrameType.HEADERS, Flag.END_HEADERS | flags, id, Buffer.concat(literals));
}
