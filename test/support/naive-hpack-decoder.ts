/**
 * RFC 7541 written down sentence by sentence: bits as text, the table as a list. Tests hold `HpackDecoder` equal to it.
 */
import { huffmanCodes, huffmanLengths } from '../../limiter/hpack/huffman.ts';
import { staticNames, staticValues } from '../../limiter/hpack/tables.ts';

export class MalformedBlock extends Error {}

type Field = [name: string, value: string];

const staticTable: Field[] = staticNames.slice(1).map((name, index) => [name, staticValues[index + 1]!]);
const symbolByCode = new Map<string, number>();
for (const [symbol, code] of huffmanCodes.entries()) {
  symbolByCode.set(code.toString(2).padStart(huffmanLengths[symbol]!, '0'), symbol);
}

const sizeOf = ([name, value]: Field): number => name.length + value.length + 32;
const bitsOf = (byte: number): string => byte.toString(2).padStart(8, '0');

export class NaiveHpackDecoder {
  readonly #largestTable: number;
  #tableSize = 4096;
  #entries: Field[] = [];
  #bytes: number[] = [];

  /** `maxTableBytes` of at least 4096. */
  constructor(options: { maxTableBytes: number }) {
    this.#largestTable = options.maxTableBytes;
  }

  get tableBytes(): number {
    return this.#entries.reduce((sum, entry) => sum + sizeOf(entry), 0);
  }

  /** @throws MalformedBlock */
  decode(block: Uint8Array): Field[] {
    this.#bytes = [...block];
    const fields: Field[] = [];
    let updates = 0;
    while (this.#bytes.length > 0) {
      const format = bitsOf(this.#bytes[0]!);
      if (format.startsWith('001')) {
        if (++updates > 2 || fields.length > 0) throw new MalformedBlock('size update');
        this.#setSize(this.#integer(5));
      } else if (format.startsWith('1')) {
        fields.push(this.#entry(this.#integer(7)));
      } else {
        const enters = format.startsWith('01');
        const index = this.#integer(enters ? 6 : 4);
        const field: Field = [index === 0 ? this.#string() : this.#entry(index)[0], this.#string()];
        fields.push(field);
        if (enters) this.#add(field);
      }
    }
    return fields;
  }

  #setSize(size: number): void {
    if (size > this.#largestTable) throw new MalformedBlock('table size');
    this.#tableSize = size;
    while (this.tableBytes > size) this.#entries.pop();
  }

  #add(field: Field): void {
    while (this.#entries.length > 0 && this.tableBytes + sizeOf(field) > this.#tableSize) this.#entries.pop();
    if (sizeOf(field) <= this.#tableSize) this.#entries.unshift(field);
  }

  #entry(index: number): Field {
    const field = [...staticTable, ...this.#entries][index - 1];
    if (field === undefined) throw new MalformedBlock('index');
    return field;
  }

  #octet(): number {
    const byte = this.#bytes.shift();
    if (byte === undefined) throw new MalformedBlock('end');
    return byte;
  }

  #integer(prefixBits: number): number {
    const prefix = this.#octet() % 2 ** prefixBits;
    if (prefix < 2 ** prefixBits - 1) return prefix;
    let bits = '';
    for (let count = 1; ; count++) {
      if (count > 4) throw new MalformedBlock('integer');
      const octet = bitsOf(this.#octet());
      bits = octet.slice(1) + bits;
      if (octet.startsWith('0')) return prefix + Number.parseInt(bits, 2);
    }
  }

  #string(): string {
    const isHuffman = bitsOf(this.#bytes[0] ?? 0).startsWith('1');
    const length = this.#integer(7);
    if (length > this.#bytes.length) throw new MalformedBlock('end');
    const octets = this.#bytes.splice(0, length);
    if (!isHuffman) return String.fromCharCode(...octets);
    const symbols: number[] = [];
    let code = '';
    for (const bit of octets.map(bitsOf).join('')) {
      code += bit;
      const symbol = symbolByCode.get(code);
      if (symbol === 256) throw new MalformedBlock('EOS');
      if (symbol !== undefined) {
        symbols.push(symbol);
        code = '';
      }
    }
    if (code.length > 7 || code.includes('0')) throw new MalformedBlock('padding');
    return String.fromCharCode(...symbols);
  }
}
