/** Families of inputs of any size, to measure how their CPU time grows. */

function varint(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...varint(value >>> 7)];
}
/** Returns a field with this content. */
const field = (number: number, content: Uint8Array): Buffer =>
  Buffer.concat([Uint8Array.from([number * 8 + 2, ...varint(content.length)]), content]);
export const repeated = (hex: string, count: number): Buffer => Buffer.from(hex.repeat(count), 'hex');
export const descriptor = (content: Uint8Array): Buffer => field(2, content);
const withValue = (content: Uint8Array): Buffer => descriptor(field(1, field(2, content)));

/** Return the bytes of a request with this number of elements. */
export const wireFamilies: Record<string, (n: number) => Buffer> = {
  'empty entries': (n) => descriptor(repeated('0a00', n)),
  'entries behind another field': (n) => descriptor(repeated('20010a00', n)),
  'entries of 200 bytes': (n) =>
    descriptor(Buffer.concat(new Array(n >> 3).fill(field(1, field(1, Buffer.alloc(196, 0x61)))))),
  'entries that end elsewhere than they say': (n) => descriptor(repeated('0a010a0161', n)),
  'empty descriptors': (n) => repeated('1200', n),
  'descriptors with an entry': (n) => repeated('12080a060a016b120176', n),
  limits: (n) => descriptor(repeated('120408051004', n)),
  addends: (n) => descriptor(repeated('1a020807', n)),
  domains: (n) => repeated('0a026162', n),
  // Smaller than strings that V8 stores on separate pages, which cost more per byte.
  'a long value': (n) => withValue(Buffer.alloc(4 * n, 0x61)),
  'a long value of two-byte characters': (n) => withValue(repeated('c3a9', 2 * n)),
  'a long value that is no UTF-8': (n) => withValue(Buffer.alloc(4 * n, 0xff)),
  'unknown numbers': (n) => repeated('7801', n),
  'unknown bytes': (n) => repeated('7a0161', n),
  'unknown groups': (n) => repeated('7b7c', n),
  'unknown groups in each other': (n) =>
    Buffer.concat(
      new Array(n >> 5)
        .fill(repeated('7b', 90).toString('hex') + repeated('7c', 90).toString('hex'))
        .map((hex) => Buffer.from(hex, 'hex')),
    ),
  'groups that never end': (n) => descriptor(repeated('7b', n)),
};

export const json = (members: string): Buffer => Buffer.from(`{"domain":"d",${members}}`);
export const list = (element: string, count: number): string =>
  `[${new Array(count).fill(element).join(',')}]`;

export const jsonFamilies: Record<string, (n: number) => Buffer> = {
  'empty entries': (n) => json(`"descriptors":[{"entries":${list('{}', n)}}]`),
  entries: (n) => json(`"descriptors":[{"entries":${list('{"key":"k","value":"v"}', n)}}]`),
  'empty descriptors': (n) => json(`"descriptors":${list('{}', n)}`),
  limits: (n) => json(`"descriptors":${list('{"limit":{"requestsPerUnit":5,"unit":"DAY"}}', n)}`),
  'a long value': (n) => json(`"descriptors":[{"entries":[{"value":"${'v'.repeat(32 * n)}"}]}]`),
  'a value of escapes': (n) =>
    json(`"descriptors":[{"entries":[{"value":"${'\\u00e9\\n'.repeat(4 * n)}"}]}]`),
  quotes: (n) =>
    json(`"hitsAddend":1,"descriptors":[{"entries":[{"value":"${'\\"hitsAddend\\":1'.repeat(n)}"}]}]`),
  'white space': (n) => json(`"hitsAddend"${' '.repeat(32 * n)}:${' '.repeat(32 * n)}5`),
  'white space without a colon': (n) => json(`"hitsAddend"${' '.repeat(64 * n)}`),
  digits: (n) => json(`"hitsAddend":${'1'.repeat(32 * n)}`),
  'nested lists': (n) => json(`"x":${'['.repeat(16 * n)}`),
  'nested objects': (n) => json('"x":{'.repeat(16 * n)),
  'fields that come again': (n) => json(new Array(n).fill('"domain":"d"').join(',')),
  'unknown fields': (n) => json(Array.from({ length: n }, (_, i) => `"f${i}":1`).join(',')),
};

const check = (descriptors: string): Buffer => Buffer.from(`{"domain":"d","descriptors":${descriptors}}`);

export const checkFamilies: Record<string, (n: number) => Buffer> = {
  descriptors: (n) => check(list('[{"k":"v"}]', n)),
  'entries of one descriptor': (n) => check(`[${list('{"k":"v"}', n)}]`),
  'descriptors that are none': (n) => check(list('1', 8 * n)),
  // Few enough that the names of the object fit into the processor's caches. Otherwise each costs a third more.
  'entries with many keys': (n) =>
    check(`[[{${Array.from({ length: n >> 2 }, (_, i) => `"k${i}":"v"`).join(',')}}]]`),
  'unknown members': (n) => check(`[],${Array.from({ length: n }, (_, i) => `"f${i}":1`).join(',')}`),
  'nested lists': (n) => check(`${'['.repeat(16 * n)}${']'.repeat(16 * n)}`),
  // Smaller than texts for which the encoder allocates memory.
  'a long value': (n) => check(`[[{"k":"${'v'.repeat(4 * n)}"}]]`),
};
