/** Attacks by what one request says: too many of something, something too long or too deep, or names that meet. */
import { grpcMessage } from '../support/grpc-message.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type Attack, type AttackTarget, attackerAddress, H2Peer, settingIn } from './attack.ts';

type Entry = readonly [key: string, value: string];

/** What a field of two or more bytes looks like: wire type 2, of field 1 to 15. */
function field(number: number, bytes: Uint8Array): Buffer {
  const length: number[] = [];
  let left = bytes.length;
  for (; left >= 128; left = Math.floor(left / 128)) length.push((left % 128) + 128);
  return Buffer.concat([Buffer.from([number * 8 + 2, ...length, left]), bytes]);
}

const domainOf = (domain: string): Buffer => field(1, Buffer.from(domain));
const entry = ([key, value]: Entry): Buffer =>
  field(1, Buffer.concat([field(1, Buffer.from(key)), field(2, Buffer.from(value))]));

/** A request with so many descriptors of these entries. */
export function requestOf(domain: string, count: number, entries: (i: number) => readonly Entry[]): Buffer {
  const descriptors = Array.from({ length: count }, (_, i) => field(2, Buffer.concat(entries(i).map(entry))));
  return Buffer.concat([domainOf(domain), ...descriptors]);
}

export const simpleRequest: Buffer = requestOf('attack', 1, () => [['known', '1']]);

/** The same few bytes, over and over. */
const filled = (bytes: number[], times: number): Buffer =>
  Buffer.alloc(bytes.length * times, Buffer.from(bytes));
const oneDescriptor = (entries: Uint8Array): Buffer => Buffer.concat([domainOf('attack'), field(2, entries)]);

/** Asks with the same requests without end, four calls at a time. */
function asking(
  attack: Omit<Attack, 'run' | 'meets'>,
  requests: () => readonly Uint8Array[],
  meets = /^answers$/,
): Attack {
  return {
    ...attack,
    meets,
    async run({ ports, got }) {
      const bodies = requests().map(grpcMessage);
      const one = async (): Promise<never> => {
        for (;;) {
          const peer = await new H2Peer(ports.grpc, got).begin();
          for (let i = 0; !peer.isClosed; i++) await peer.call(bodies[i % bodies.length] as Buffer);
        }
      };
      await Promise.all([one(), one(), one(), one()]);
    },
  };
}

function askingJson(attack: Omit<Attack, 'run' | 'meets'>, body: () => string, meets: RegExp): Attack {
  return {
    ...attack,
    meets,
    async run({ ports, got }) {
      const text = body();
      const one = async (): Promise<void> => {
        while (!got.isOver) {
          const answer: { status: number | string; headers?: HttpAnswer['headers'] } = await httpAsk(
            ports.http,
            '/json',
            {
              method: 'POST',
              body: text,
              from: attackerAddress,
            },
          ).catch((error: NodeJS.ErrnoException) => ({
            status: `connection ended (${error.code})`,
            body: '',
          }));
          const setting = settingIn(String(answer.headers?.['weir-error']));
          got.add(`HTTP ${answer.status}${setting === undefined ? '' : ` (${setting})`}`);
        }
      };
      await Promise.all([one(), one(), one(), one()]);
    },
  };
}

const json = (descriptors: string): string => `{"domain":"attack","descriptors":[${descriptors}]}`;
const list = (item: string, times: number): string => Array(times).fill(item).join(',');

const manyValues = (): readonly Uint8Array[] => [
  requestOf('attack', 215_000, (i) => [['known', String(i).padStart(6, '0')]]),
];

const sizes: readonly Attack[] = [
  asking({ name: 'many-entries', what: 'Two descriptors, with 30,000 and 60,000 empty entries' }, () =>
    [30_000, 60_000].map((count) => oneDescriptor(filled([10, 0], count))),
  ),
  askingJson(
    { name: 'many-entries-json', what: 'A descriptor with 60,000 empty entries over `/json`' },
    () => json(`{"entries":[${list('{}', 60_000)}]}`),
    /^HTTP 200$/,
  ),
  asking({ name: 'many-descriptors', what: '2 million empty descriptors' }, () => [
    Buffer.concat([domainOf('attack'), filled([18, 0], 2_000_000)]),
  ]),
  askingJson(
    { name: 'many-descriptors-json', what: '1.3 million empty descriptors over `/json`' },
    () => json(list('{}', 1_300_000)),
    /^HTTP 429 \(REQUEST_MAX_BYTES\)$/,
  ),
  asking({ name: 'many-values', what: '215,000 values of one rule, counted in memory' }, manyValues),
  asking(
    { name: 'many-values-redis', what: '215,000 values of one rule, counted in Redis', store: 'redis' },
    manyValues,
  ),
  asking(
    { name: 'largest-allowed', what: '256 descriptors with 64 entries each, the maximum of a request' },
    () => [
      requestOf('attack', 256, (i) =>
        Array.from({ length: 64 }, (_, j) => ['k', `${(i * 64 + j) % 1000}`] as const),
      ),
    ],
  ),
  asking(
    {
      name: 'largest-allowed-redis',
      what: '256 values of one rule, the maximum of a request, counted in Redis',
      store: 'redis',
    },
    () => [0, 1, 2, 3].map((n) => requestOf('attack', 256, (i) => [['known', `${n}-${i}`]])),
  ),
  asking({ name: 'many-limits', what: '500,000 descriptors, each with its own limit' }, () => [
    Buffer.concat([domainOf('attack'), filled([18, 6, 18, 4, 8, 1, 16, 1], 500_000)]),
  ]),
  asking({ name: 'long-values', what: 'A key, a value and a domain of 4 MB each' }, () => {
    const long = 'a'.repeat(4_000_000);
    return [
      requestOf('attack', 1, () => [['known', long]]),
      requestOf('attack', 1, () => [[long, '']]),
      requestOf(long, 1, () => [['known', '']]),
    ];
  }),
  asking(
    { name: 'wildcards', what: '15 values of 16,000 bytes that match rules with `*` almost to the end' },
    () => {
      const almost = `/${'a/'.repeat(7990)}`;
      return [
        requestOf('attack', 1, () => Array.from({ length: 15 }, () => ['path', almost] as const)),
        requestOf('attack', 15, () => [['path', almost]]),
      ];
    },
  ),
  asking(
    { name: 'unknown-fields', what: '2 million unknown fields, and groups nested 120,000 levels deep' },
    () =>
      [2_000_000, 120_000].flatMap((count) => [
        Buffer.concat([simpleRequest, filled([120, 1], count)]),
        Buffer.concat([simpleRequest, filled([123], count)]),
      ]),
  ),
  ...[2_000_000, 120_000].map((depth) =>
    askingJson(
      { name: `nested-json-${depth}`, what: `\`/json\` with lists ${depth.toLocaleString('en-US')} deep` },
      () => json('['.repeat(depth)),
      /^HTTP (?:400|429 \(REQUEST_MAX_BYTES\))$/,
    ),
  ),
  ...[500_000, 40_000].map((depth) =>
    askingJson(
      {
        name: `nested-json-objects-${depth}`,
        what: `\`/json\` with unknown objects ${depth.toLocaleString('en-US')} deep`,
      },
      () => `{"domain":"attack","x":${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}}`,
      /^HTTP (?:400|429 \(REQUEST_MAX_BYTES\))$/,
    ),
  ),
];

/** Runs to its end and says whether a limit was passed. */
function passing(
  attack: Omit<Attack, 'run' | 'meets'>,
  run: (client: LimiterClient, got: AttackTarget['got']) => Promise<void>,
): Attack {
  return {
    ...attack,
    meets: /passed|over its limit/,
    async run({ ports, got }) {
      const client = new LimiterClient(ports.grpc);
      got.isPart = true;
      await run(client, got);
      got.isPart = false;
      client.close();
    },
  };
}

/** Asks `times` for a rule with two requests per hour. Returns how many requests passed. */
async function admitted(client: LimiterClient, value: (i: number) => string): Promise<number> {
  let count = 0;
  for (let i = 0; i < 6; i++) {
    if (await client.allowed('attack', 'two', value(i))) count += 1;
  }
  return count;
}

const names: readonly Attack[] = [
  passing(
    {
      name: 'colliding-keys',
      what: 'Six requests to the domain `bank` with `ip=x_7`, to exhaust the limit of `x=7` in the domain `bank_ip`',
    },
    async (client, got) => {
      for (let i = 0; i < 6; i++) await client.allowed('bank', 'ip', 'x_7');
      const isFirstAllowed = await client.allowed('bank_ip', 'x', '7');
      got.add(
        isFirstAllowed
          ? 'no effect: the first request of the other domain passed'
          : 'the other domain is over its limit',
      );
      if (!isFirstAllowed) got.reached = 'another domain is over its limit';
    },
  ),
  ...(
    [
      ['memcached-space', 'a space', 'a b'],
      ['memcached-long', '300 bytes', 'a'.repeat(300)],
      ['memcached-command', 'a line feed and a command', 'a\r\nflush_all\r\n'],
    ] as const
  ).map(([name, kind, value]) =>
    passing(
      {
        name,
        what: `Six requests with a value of ${kind} for a rule with two requests per hour, counted in memcached`,
        store: 'memcached',
      },
      async (client, got) => {
        const passed = await admitted(client, () => value);
        got.add(`${passed} of 6 passed`);
        if (passed !== 2) got.reached = `${passed} of 6 passed, and 2 may`;
      },
    ),
  ),
];

export const requestAttacks: readonly Attack[] = [...sizes, ...names];
