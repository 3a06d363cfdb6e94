/**
 * Requests of a client that tries to get past a limit by their form: long, many, odd, damaged. Pure: the same seed makes the same
 * requests.
 */
import { Random } from '../fuzz/random.ts';

/** HTTP/1 as bytes, and HTTP/2 as what a library writes. */
export type HostileRequest =
  | { kind: 'http1'; bytes: Buffer }
  | {
      kind: 'http2';
      headers: Record<string, string | string[]>;
      body: Buffer;
      trailers: Record<string, string>;
    };

type Pick = <One>(list: readonly One[]) => One;

/** Around the bounds of the limiter and of proxies: buffers of 1, 4, 8, 16, 32, 60 and 64 KiB. */
const lengths = [
  ...[1, 63, 255, 1_000, 1_024, 3_900, 4_096, 5_000, 7_900, 8_192, 9_000, 15_900, 16_384, 16_385, 17_000],
  ...[24_000, 32_768, 40_000, 60_000, 61_440, 65_536, 70_000, 130_000],
];
const oddTexts = [
  ...[
    '%00',
    '%0d%0a',
    '%2e%2e/',
    '%2f',
    '%25%30',
    '%',
    '%zz',
    '..;/',
    '\\',
    '//',
    '/./',
    '/../',
    ';a=b',
    '#',
    '??',
  ],
  ...[
    '\u00e9',
    '\ud83d\ude00',
    '\u202e',
    '\ufeff',
    '~sha256:',
    '*',
    '{x}',
    '"',
    "'",
    '<',
    '^',
    '|',
    '`',
    '&&',
    '==',
  ],
];
const oddBytes = ['\x80', '\xff', '\xc0\xaf', '\xed\xa0\x80', '\x01', '\x7f', '\t', '\0', ' ', '\x0b'];
const plainMethods = [
  'GET',
  'GET',
  'GET',
  'HEAD',
  'POST',
  'PUT',
  'DELETE',
  'PATCH',
  'OPTIONS',
  'PROPFIND',
  'MKCOL',
  'PURGE',
];
const oddMethods = ['TRACE', 'CONNECT', 'PRI', 'get', 'Get', 'M-SEARCH', "!#$%&'*+-.^_`|~", 'A'.repeat(300)];
const versions = ['HTTP/1.0', 'HTTP/1.0', 'HTTP/1.2', 'HTTP/2.0', 'http/1.1', ''];
const oddHosts: string[][] = [
  ...[[], ['Host: localhost', 'Host: 192.0.2.1'], ['Host:'], ['Host: a b'], ['Host : x']],
  ...[[`Host: ${'h'.repeat(300)}`], [`Host: ${'h'.repeat(5_000)}`], [`Host: ${'h'.repeat(17_000)}`]],
];
/** Of each part of a request: most proxies reject by themselves what is odd in several. */
const oddOnceIn = 8;
/** What a limiter or a proxy may believe, with an address that the rules leave unlimited and a plan that has more. */
const believed: readonly (readonly [string, string])[] = [
  ...[['X-Forwarded-For', '192.0.2.1'] as const, ['X-Forwarded-For', '192.0.2.1, 192.0.2.1'] as const],
  ...[['X-Forwarded-For', ''] as const, ['X-Forwarded-For', 'unknown, "[::1]:9"'] as const],
  ...[['Forwarded', 'for=192.0.2.1'] as const, ['X-Real-IP', '192.0.2.1'] as const],
  ...[['X-Forwarded-Uri', '/free'] as const, ['X-Forwarded-Method', 'OPTIONS'] as const],
  ...[['X-Forwarded-Host', 'free'] as const, ['X-Original-URL', '/free'] as const],
  ...[['X-Rewrite-URL', '/free'] as const, ['X-Plan', 'gold'] as const, ['X-Plan', ''] as const],
  ...[['X-Weir-Refused', 'no'] as const, ['RateLimit-Limit', '9'] as const, ['Retry-After', '0'] as const],
  ...[['X-Envoy-Internal', 'true'] as const, ['X-Envoy-External-Address', '192.0.2.1'] as const],
  ...[['X-Envoy-Upstream-Rq-Timeout-Ms', '1'] as const, ['X-Envoy-Max-Retries', '9'] as const],
  ...[['X-Envoy-Original-Path', '/free'] as const, ['X-HTTP-Method-Override', 'OPTIONS'] as const],
  ...[['Connection', 'X-Forwarded-For, X-Forwarded-Uri, Host'] as const, ['Connection', 'upgrade'] as const],
  ...[['Upgrade', 'websocket'] as const, ['Upgrade', 'h2c'] as const, ['Expect', '100-continue'] as const],
  ...[['Expect', 'all'] as const, ['TE', 'trailers'] as const, ['Trailer', 'X-Forwarded-For'] as const],
  ...[
    ['Max-Forwards', '0'] as const,
    ['Cache-Control', 'only-if-cached'] as const,
    ['Range', 'bytes=0-0'] as const,
  ],
  ...[
    ['If-None-Match', '*'] as const,
    ['Accept-Encoding', 'gzip, br'] as const,
    ['Content-Encoding', 'gzip'] as const,
  ],
  ...[['Authorization', 'Bearer a.b'] as const, ['Cookie', 'a=b'] as const, ['Grpc-Timeout', '1n'] as const],
  ...[
    ['Content-Type', 'application/grpc'] as const,
    ['Via', '1.0 a'] as const,
    ['HTTP2-Settings', 'AAMAAABk'] as const,
  ],
];

/** The requests of a seed, in their order. HTTP/2 only for servers that speak it. */
export function* hostileRequests(seed: number, speaksHttp2: boolean): Generator<HostileRequest, never> {
  const random = new Random(seed);
  for (;;) yield speaksHttp2 && random.below(4) === 0 ? http2Request(random) : http1Request(random);
}

function picker(random: Random): Pick {
  return (list) => list[random.below(list.length)]!;
}

/** A text for a path, a query or a value. */
function text(random: Random, odd: readonly string[]): string {
  const pick = picker(random);
  switch (random.below(4)) {
    case 0:
      return 'a'.repeat(pick(lengths));
    case 1:
      return pick(odd).repeat(1 + random.below(random.below(8) === 0 ? 4_000 : 4));
    case 2:
      return `${'x'.repeat(random.below(40))}${pick(odd)}${'y'.repeat(pick(lengths.slice(0, 6)))}`;
    default:
      return `v${random.below(1_000_000)}`;
  }
}

function pathOf(random: Random, odd: readonly string[]): string {
  const pick = picker(random);
  const path = pick([
    '/',
    '/',
    '/search',
    '/checkout',
    '/_weir',
    '/v1/forward-auth/shop',
    `/${text(random, odd)}`,
  ]);
  return random.below(2) === 0 ? path : `${path}?${pick(['', 'x='])}${text(random, odd)}`;
}

function http1Request(random: Random): HostileRequest {
  const pick = picker(random);
  const rarely = <One>(common: One, others: readonly One[]): One =>
    random.below(oddOnceIn) === 0 ? pick(others) : common;
  const odd = [...oddTexts.map(latin1), ...oddBytes];
  const path = pathOf(random, random.below(oddOnceIn) === 0 ? odd : ['%2e', ';', '~', '%25', '*', '=']);
  const elsewhere = [`http://localhost${path}`, `https://192.0.2.1${path}`, '*', 'localhost:80', ''];
  const method = rarely(pick(plainMethods), oddMethods);
  const { fields, body } = rarely(plainFraming(random), [damagedFraming(random)]);
  const lines = [
    `${method} ${rarely(path, elsewhere)} ${rarely('HTTP/1.1', versions)}`.trimEnd(),
    ...rarely(['Host: localhost'], oddHosts),
    ...moreFields(random, odd),
    ...fields,
    ...(random.below(3) === 0 ? [] : ['Connection: close']),
  ];
  const end = random.below(20) === 0 ? '\n' : '\r\n';
  return { kind: 'http1', bytes: Buffer.from(`${lines.join(end)}${end}${end}${body}`, 'latin1') };
}

/** None as a rule; few that are believed, or long; or many. */
function moreFields(random: Random, odd: readonly string[]): string[] {
  const pick = picker(random);
  const one = (): string => {
    if (random.below(2) === 0) return pick(believed).join(': ');
    if (random.below(oddOnceIn) > 0)
      return `X-${random.below(99)}: ${text(random, ['%00', '~', '*', latin1('é')])}`;
    const name = pick(['X-Plan', 'X-A', 'Cookie', 'User-Agent', `X-${text(random, ['-', '_', '.', '~'])}`]);
    const value = text(random, odd);
    return pick([
      `${name}: ${value}`,
      `${name}:${value}`,
      `${name}: a\r\n ${value}`,
      `${name} : ${value}`,
      `${name}`,
    ]);
  };
  const count = pick([0, 0, 1, 2, 3, 8, 90, 101, 200]);
  if (count < 90) return Array.from({ length: count }, one);
  return Array.from({ length: count }, (_, index) => `X-${index}: ${'z'.repeat(random.below(200))}`);
}

interface Framing {
  fields: string[];
  body: string;
}

const chunkOf = (random: Random): string => 'b'.repeat(picker(random)([1, 10, 1_000, 20_000]));

function chunked(random: Random): string {
  const chunk = chunkOf(random);
  return `${chunk.length.toString(16)}${picker(random)(['', '', ';e=x', `;${'e'.repeat(3_000)}`])}\r\n${chunk}\r\n0\r\n`;
}

/** A body, and the fields that say how long it is. */
function plainFraming(random: Random): Framing {
  const pick = picker(random);
  const chunk = chunkOf(random);
  const trailers = pick([
    '',
    'X-Forwarded-For: 192.0.2.1\r\n',
    'X-Plan: gold\r\n',
    `X-Long: ${'t'.repeat(17_000)}\r\n`,
  ]);
  const none: Framing = { fields: [], body: '' };
  return pick([
    ...[none, none, none, none],
    { fields: [`Content-Length: ${chunk.length}`], body: chunk },
    { fields: ['Transfer-Encoding: chunked'], body: `${chunked(random)}${trailers}\r\n` },
  ]);
}

/** Lengths that lie, contradict each other, or end early: to hide a request, or to keep a proxy waiting. */
function damagedFraming(random: Random): Framing {
  const chunk = chunkOf(random);
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n';
  return picker(random)([
    { fields: ['Transfer-Encoding: chunked'], body: `zz\r\n${chunk}` },
    { fields: ['Transfer-Encoding: gzip, chunked'], body: `${chunked(random)}\r\n` },
    { fields: ['Transfer-Encoding: identity'], body: chunk },
    {
      fields: ['Transfer-Encoding: chunked', 'Content-Length: 4'],
      body: `${chunked(random)}\r\n${smuggled}`,
    },
    { fields: ['Transfer-Encoding : chunked', 'Content-Length: 5'], body: `0\r\n\r\n${smuggled}` },
    { fields: ['Content-Length: 0', 'Content-Length: 5'], body: smuggled },
    { fields: ['Content-Length: -1'], body: smuggled },
    { fields: [`Content-Length: ${chunk.length + 100}`], body: chunk },
    { fields: [], body: smuggled.repeat(3) },
  ]);
}

function http2Request(random: Random): HostileRequest {
  const pick = picker(random);
  const headers: Record<string, string | string[]> = {
    ':method': pick([...plainMethods, 'TRACE', 'A'.repeat(300)]),
    ':path': pathOf(
      random,
      oddTexts.filter((odd) => /^[!-~]+$/.test(odd)),
    ),
    ':authority': pick(['localhost', 'localhost', '192.0.2.1:1', 'h'.repeat(17_000)]),
  };
  const count = pick([0, 1, 2, 3, 8, 90, 200]);
  for (let index = 0; index < count; index++) {
    const [name, value] = pick(believed);
    const isForbidden = /^(connection|upgrade|te|http2-settings|expect)$/i.test(name);
    if (count < 90 && !isForbidden) headers[name.toLowerCase()] = value;
    else headers[`x-${index}`] = 'z'.repeat(count < 90 ? pick(lengths) : random.below(200));
  }
  const body = Buffer.alloc(pick([0, 0, 1, 1_000, 70_000]), 'b');
  const trailers = pick([{}, { 'x-forwarded-for': '192.0.2.1' }, { 'x-long': 't'.repeat(17_000) }]);
  return { kind: 'http2', headers, body, trailers };
}

/** UTF-8 as it stands on the wire. */
function latin1(value: string): string {
  return Buffer.from(value).toString('latin1');
}
