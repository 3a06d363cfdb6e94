import { HpackDecoder } from '../../limiter/hpack/decoder.ts';
import { must } from './fuzz-target.ts';

const DATA = 0;
const HEADERS = 1;
const CONTINUATION = 9;
const END_HEADERS = 0x4;

/** Reads what a server wrote as its client would; it must be whole frames, and header blocks that can be decoded. */
export function writtenFrameTypes(written: readonly Uint8Array[]): Set<number> {
  const bytes = Buffer.concat(written);
  const decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1_000_000 });
  const types = new Set<number>();
  let block: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    must(at + 9 <= bytes.length, 'the last frame is cut in its header');
    const [length, type, flags] = [bytes.readUIntBE(at, 3), bytes[at + 3]!, bytes[at + 4]!];
    const payload = bytes.subarray(at + 9, at + 9 + length);
    must(payload.length === length, `the last frame has ${payload.length} of ${length} bytes`);
    must(type <= CONTINUATION, `a frame has the type ${type}`);
    must(block.length === 0 || type === CONTINUATION, `frame type ${type} stands inside a header block`);
    must(type !== DATA || bytes.readUInt32BE(at + 5) % 2 === 1, 'DATA for a stream that no client opened');
    types.add(type);
    if (type === HEADERS || type === CONTINUATION) {
      block.push(payload);
      if ((flags & END_HEADERS) !== 0) {
        const whole = Buffer.concat(block);
        decoder.decode(whole, 0, whole.length, []);
        block = [];
      }
    }
    at += 9 + length;
  }
  return types;
}
