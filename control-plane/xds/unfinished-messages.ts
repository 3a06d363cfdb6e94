/**
 * Counts the memory of incomplete requests. grpc-js stores the parts of a message until it has all of it, up to the longest
 * message, for each stream of each connection, and reports that to no code.
 */
import type { Readable } from 'node:stream';
import {
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from '@grpc/grpc-js';

/** Reports each change of what a peer's unfinished messages hold. */
export function watchUnfinishedMessages(hold: (peer: string, bytes: number) => void): ServerInterceptor {
  return (_method, call) => {
    const stream = streamOf(call);
    const peer = call.getPeer();
    const message = new UnfinishedMessage();
    const set = (bytes: number, before = message.held): void => {
      if (bytes !== before) hold(peer, bytes - before);
    };
    stream.on('data', (chunk: Buffer) => {
      const before = message.held;
      message.take(chunk);
      set(message.held, before);
    });
    stream.once('close', () => set(0));
    return new ServerInterceptingCall(call);
  };
}

/** grpc-js offers no other way to the bytes of a call. */
function streamOf(call: ServerInterceptingCallInterface): Readable {
  const { stream } = call as unknown as { stream?: Readable };
  if (stream === undefined) throw new Error('grpc-js keeps the stream of a call elsewhere');
  return stream;
}

const prefixBytes = 5;

/** Follows length-prefixed messages: what has come of the last one, while that is not complete. */
export class UnfinishedMessage {
  #prefix = Buffer.alloc(prefixBytes);
  #inPrefix = 0;
  #length = 0;
  #came = 0;

  get held(): number {
    return this.#inPrefix + this.#came;
  }

  take(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.#inPrefix < prefixBytes) {
        this.#prefix[this.#inPrefix] = chunk[at] as number;
        this.#inPrefix += 1;
        at += 1;
        if (this.#inPrefix === prefixBytes) this.#length = this.#prefix.readUInt32BE(1);
      } else {
        const part = Math.min(this.#length - this.#came, chunk.length - at);
        this.#came += part;
        at += part;
      }
      if (this.#inPrefix < prefixBytes || this.#came < this.#length) continue;
      this.#inPrefix = 0;
      this.#came = 0;
    }
  }
}
