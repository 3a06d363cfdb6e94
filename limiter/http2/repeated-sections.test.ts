import { describe, expect, it } from 'vitest';
import { frame } from '../../test/support/http2-frame-script.ts';
import { Http2Peer } from '../../test/support/http2-peer.ts';
import { Flag, FrameType } from './constants.ts';
import type { HeaderFields } from './request-handler.ts';

/** The block of POST, http and `/`, with which all requests begin. */
const common = '838684';
const commonFields = [':method', 'POST', ':scheme', 'http', ':path', '/'];

/** Sends a request with each block, and returns the fields that the handler receives. */
function received(...blocks: string[]): { sections: HeaderFields[]; violations: string[] } {
  const sections: HeaderFields[] = [];
  const handler = { onRequest: (_: unknown, fields: HeaderFields) => void sections.push(fields) };
  const peer = Http2Peer.opened({ handler });
  for (const [at, block] of blocks.entries()) {
    const bytes = Buffer.from(block.replaceAll(' ', ''), 'hex');
    const request = frame(FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, 2 * at + 1, bytes);
    peer.connection.receive(request, peer.nowMs);
    // Bytes are only valid until `receive` returns.
    request.fill(0);
  }
  return { sections, violations: peer.violations };
}

describe('a header section that repeats the one before', () => {
  it('has the same fields, in the same array', () => {
    const [block, other] = [`${common} 000161 0162`, `${common} 000161 0163`];
    const { sections } = received(block, block, other, common);
    expect(sections).toEqual([
      [...commonFields, 'a', 'b'],
      [...commonFields, 'a', 'b'],
      [...commonFields, 'a', 'c'],
      commonFields,
    ]);
    expect(sections[1]).toBe(sections[0]);
  });

  it('is read again if the table has changed, and if the section itself changes the table', () => {
    const [first, second] = [`${common} 400161 0162`, `${common} 400161 0163`];
    const entries = ['be', 'bf', 'c0'].map((index) => common + index);
    const { sections, violations } = received(
      ...[first, entries[0]!, second, second, ...entries],
      ...[`20 ${common}`, entries[0]!],
    );
    expect(sections.map((fields) => fields.slice(commonFields.length).join(' '))).toEqual([
      ...['a b', 'a b', 'a c', 'a c', 'a c', 'a c', 'a b'],
      '',
    ]);
    expect(violations).toEqual(['compression_error']);
  });

  it.each([
    [512, true],
    [513, false],
  ])('of %i bytes has the same array: %s', (length, isSame) => {
    const valueBytes = length - 9;
    const more = valueBytes - 127;
    const size = Buffer.of(0x7f, (more & 0x7f) | 0x80, more >> 7).toString('hex');
    const block = `${common} 000161 ${size} ${'62'.repeat(valueBytes)}`;
    const { sections } = received(block, block);
    expect(sections[0]).toEqual([...commonFields, 'a', 'b'.repeat(valueBytes)]);
    expect(sections[1]).toEqual(sections[0]);
    expect(sections[1] === sections[0]).toBe(isSame);
  });
});
