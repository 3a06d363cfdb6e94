import { MessageReader, SingleMessage } from '../../limiter/grpc/message-reader.ts';
import { PlayedStream } from '../support/played-stream.ts';
import { pieces } from './cuts.ts';
import { type FuzzTarget, must, withoutNumbers } from './fuzz-target.ts';

const maxMessageBytes = 8192;
/** Twice a message's bytes, and what two buffers take beside them. */
const maxBufferedBytes = 3 * maxMessageBytes;

interface Reading {
  messages: string[];
  refusal: string;
}

function read(body: Uint8Array, seed: number): Reading {
  let bufferedBytes = 0;
  const messages: string[] = [];
  const reader = new MessageReader({
    maxMessageBytes,
    hold: (bytes) => {
      bufferedBytes += bytes;
      must(bufferedBytes <= maxBufferedBytes, `${bufferedBytes} bytes are held`);
    },
    onMessage: (message) => {
      must(message.length <= maxMessageBytes, `a message has ${message.length} bytes`);
      messages.push(Buffer.from(message).toString('latin1'));
    },
  });
  let refusal = '';
  for (const piece of pieces(body, seed)) {
    const status = reader.push(piece);
    if (status === undefined) continue;
    refusal = status instanceof Uint8Array ? 'an answer' : `${status.code} ${status.message}`;
    break;
  }
  reader.release();
  must(bufferedBytes === 0, `${bufferedBytes} bytes are not given back`);
  return { messages, refusal };
}

function readSingle(body: Uint8Array, seed: number): string {
  const stream = new PlayedStream();
  const single = new SingleMessage(stream, maxMessageBytes);
  let outcome = '';
  for (const piece of pieces(body, seed)) {
    const status = single.push(piece);
    if (status === undefined) continue;
    outcome = status instanceof Uint8Array ? 'an answer' : status.message;
    break;
  }
  if (outcome === '') {
    const end = single.end();
    outcome = end instanceof Uint8Array ? 'message' : end.message;
  }
  single.release();
  must(stream.bufferedBytes === 0, `${stream.bufferedBytes} bytes are not given back`);
  return outcome;
}

/** The framing of gRPC messages: however the bytes are cut, the same comes out, and no memory stays. */
export const messageTarget: FuzzTarget = {
  name: 'grpc-message',
  run(input) {
    const [seed, body] = [input[0] ?? 0, input.subarray(1)];
    const whole = read(body, 0);
    const cut = read(body, seed);
    must(
      whole.messages.join('\n') === cut.messages.join('\n'),
      'the messages depend on how the bytes are cut',
    );
    must(whole.refusal === cut.refusal, `"${whole.refusal}" in one piece, "${cut.refusal}" in several`);
    return (
      withoutNumbers(`${whole.refusal}, ${readSingle(body, seed)}, `) + Math.min(3, whole.messages.length)
    );
  },
};
