import { HpackDecoder } from '../../limiter/hpack/decoder.ts';
import { HpackEncoder, Indexing, maxEncodedBytes } from '../../limiter/hpack/encoder.ts';
import { HpackError } from '../../limiter/hpack/tables.ts';
import { MalformedBlock, NaiveHpackDecoder } from '../support/naive-hpack-decoder.ts';
import { type FuzzTarget, must, withoutNumbers } from './fuzz-target.ts';

const maxTableBytes = 4096;
const maxListBytes = 16_384;

/** The naive decoder takes quadratic time. */
const maxNaiveBytes = 600;

/** An input is blocks, each behind two bytes of length; all are of one connection. */
function blocksOf(input: Uint8Array): Uint8Array[] {
  const blocks: Uint8Array[] = [];
  for (let at = 0; at + 2 <= input.length; ) {
    const end = at + 2 + ((input[at]! << 8) | input[at + 1]!);
    blocks.push(input.subarray(at + 2, end));
    at = end;
  }
  return blocks;
}

/** Undefined if the block is malformed. Only the decoder's own error may say so. */
function decoded(decoder: HpackDecoder, block: Uint8Array): { fields: string[]; whole: boolean } | string {
  const fields: string[] = [];
  try {
    return { whole: decoder.decode(block, 0, block.length, fields), fields };
  } catch (error) {
    if (!(error instanceof HpackError)) throw error;
    return error.message;
  }
}

function naivelyDecoded(decoder: NaiveHpackDecoder, block: Uint8Array): string[] | undefined {
  try {
    return decoder.decode(block).flat();
  } catch (error) {
    if (!(error instanceof MalformedBlock)) throw error;
    return undefined;
  }
}

function listBytes(fields: readonly string[]): number {
  return fields.reduce((sum, text) => sum + text.length + 16, 0);
}

function readsBack(encoder: HpackEncoder, decoder: HpackDecoder, fields: string[]): void {
  const target = new Uint8Array(maxEncodedBytes(fields));
  const end = encoder.encode(fields, target, 0);
  must(end <= target.length, `${end} bytes were written where ${target.length} were the most`);
  const back = decoded(decoder, target.subarray(0, end));
  must(typeof back !== 'string', `what was encoded is refused: ${String(back)}`);
  must(back.fields.join('\n') === fields.join('\n'), 'what was encoded reads back as something else');
}

/** Holds the decoder equal to the naive one, its bounds, and that the encoder's blocks read back. */
export const hpackTarget: FuzzTarget = {
  name: 'hpack',
  run(input) {
    const decoder = new HpackDecoder({ maxTableBytes, maxListBytes });
    const naive = new NaiveHpackDecoder({ maxTableBytes });
    const encoder = new HpackEncoder({ maxTableBytes, indexing: () => Indexing.INCREMENTAL });
    const back = new HpackDecoder({ maxTableBytes, maxListBytes });
    let outcome = '';
    for (const block of blocksOf(input)) {
      const result = decoded(decoder, block);
      if (input.length <= maxNaiveBytes) {
        const expected = naivelyDecoded(naive, block);
        must(
          (expected === undefined) === (typeof result === 'string'),
          `the naive decoder disagrees: ${typeof result === 'string' ? result : 'the block is read'}`,
        );
        const isEqual =
          typeof result === 'string' || !result.whole || expected?.join('\n') === result.fields.join('\n');
        must(isEqual, 'the naive decoder reads other fields');
      }
      if (typeof result === 'string') return outcome + withoutNumbers(result);
      must(decoder.tableBytes <= maxTableBytes, `the table holds ${decoder.tableBytes} bytes`);
      must(listBytes(result.fields) <= maxListBytes, `the list has ${listBytes(result.fields)} bytes`);
      readsBack(encoder, back, result.fields);
      if (!result.whole) outcome += 'too long, ';
    }
    return `${outcome}${Math.min(8, decoder.tableBytes >> 5)}`;
  },
};
