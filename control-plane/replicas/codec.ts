/** How values that are too long for plain text are compressed, before they go into ConfigMaps. */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';

export interface Codec {
  compress(text: string): Promise<Buffer>;
  /** Rejects bytes that `compress` did not make, and a text of more than `mostBytes`. */
  decompress(bytes: Buffer, mostBytes: number): Promise<string>;
}

/** Works in threads of Node's pool. */
export const gzipCodec: Codec = {
  compress: (text) => promisify(gzip)(text),
  decompress: async (bytes, mostBytes) =>
    (await promisify(gunzip)(bytes, { maxOutputLength: mostBytes })).toString('utf8'),
};
