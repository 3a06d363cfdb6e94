/** Attacks on the HTTP listener by what HTTP/1 leaves open: connections, header sections, bodies, answers. */
import { type Attack, attackerAddress, never, openMany, RawPeer } from './attack.ts';
import { drip, openManyForEver } from './attacks-http2.ts';

const kept = /^connections open$/;
const text = (value: string): Buffer => Buffer.from(value, 'latin1');
const post = (length: number): string =>
  `POST /json HTTP/1.1\r\nhost: limiter\r\ncontent-length: ${length}\r\n\r\n`;
const ask = JSON.stringify({ domain: 'attack', descriptors: [{ entries: [{ key: 'known', value: '1' }] }] });

const entries = [{ key: 'known', value: '1' }];
const longAsk = JSON.stringify({
  domain: 'attack',
  descriptors: Array.from({ length: 64 }, () => ({ entries })),
});
const chunked = 'POST /json HTTP/1.1\r\nhost: limiter\r\ntransfer-encoding: chunked\r\n\r\n';

/** Four connections that write as fast as they can; one that is ended is opened again. */
function httpFlood(
  { name, what, meets }: Pick<Attack, 'name' | 'what' | 'meets'>,
  begin: string,
  bytes: string,
): Attack {
  return {
    name,
    meets,
    what: `${what}, endlessly, on four connections that are opened again when the limiter ends them`,
    async run({ ports, got }) {
      const piece = text(bytes);
      await openManyForEver(4, async () => {
        const peer = new RawPeer(ports.http, got);
        await peer.opened();
        await peer.write(text(begin));
        while (!peer.isClosed) await peer.write(piece);
      });
    },
  };
}

export const http1Attacks: readonly Attack[] = [
  {
    name: 'json-unfinished-bodies',
    what: '100 bodies of `/json` of 4 MiB without their last byte',
    meets: kept,
    async run({ ports, got, many }) {
      const part = Buffer.alloc(4_194_303, 0x20);
      await openMany(
        many(100),
        () => new RawPeer(ports.http, got),
        async (peer) => {
          await peer.write(text(post(part.length + 1)));
          void peer.write(part);
        },
      );
      await never;
    },
  },
  {
    name: 'json-unfinished-chunks',
    what: '100 bodies of `/json` in one-byte chunks with 60 bytes of extensions, 500 chunks every half second',
    meets: /^HTTP 400$|^connections open$/,
    async run({ ports, got, many }) {
      const chunks = text(`1;${'x'.repeat(60)}\r\n \r\n`.repeat(500));
      await openMany(
        many(100),
        () => new RawPeer(ports.http, got),
        async (peer) => {
          await peer.write(text(chunked));
          void drip(peer, 500, () => chunks);
        },
      );
      await never;
    },
  },
  {
    name: 'http-header-section-unended',
    what: '1,500 connections, each with a header section of 15 KiB that does not end',
    meets: kept,
    async run({ ports, got, many }) {
      const begin = text(
        `GET /healthcheck HTTP/1.1\r\nhost: limiter\r\n${`x-filler: ${'a'.repeat(90)}\r\n`.repeat(145)}`,
      );
      await openMany(
        many(1500),
        () => new RawPeer(ports.http, got),
        (peer) => peer.write(begin),
      );
      await never;
    },
  },
  {
    name: 'slowloris',
    what: 'Slow writers: 1,500 connections, each with a header line every 100 ms, endlessly',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(1500),
        () => new RawPeer(ports.http, got),
        async (peer) => {
          await peer.write(text('GET /healthcheck HTTP/1.1\r\n'));
          void drip(peer, 100, (i) => text(`x-${i}: a\r\n`));
        },
      );
      await never;
    },
  },
  {
    name: 'http-slow-bodies',
    what: 'Slow writers: 1,500 bodies of `/json`, one byte every 100 ms',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(
        many(1500),
        () => new RawPeer(ports.http, got),
        async (peer) => {
          await peer.write(text(post(1000)));
          void drip(peer, 100, () => text(' '));
        },
      );
      await never;
    },
  },
  {
    name: 'http-idle',
    what: '3,000 connections that are idle after one answer',
    meets: /^HTTP 200$/,
    async run({ ports, got, many }) {
      const get = text('GET /healthcheck HTTP/1.1\r\nhost: limiter\r\n\r\n');
      await openMany(
        many(3000),
        () => new RawPeer(ports.http, got),
        (peer) => peer.write(get),
      );
      await never;
    },
  },
  {
    name: 'http-connections-10000',
    what: '10,000 connections that send no byte',
    meets: kept,
    async run({ ports, got, many }) {
      await openMany(many(10_000), () => new RawPeer(ports.http, got));
      await never;
    },
  },
  {
    name: 'http-never-reading',
    what: 'Slow readers: 100 connections that never read from their sockets, each with `/json` for 64 descriptors every 50 ms',
    meets: kept,
    async run({ ports, got, many }) {
      const asks = text(`${post(longAsk.length)}${longAsk}`);
      await openMany(
        many(100),
        () => new RawPeer(ports.http, got, { deaf: true }),
        async (peer) => void drip(peer, 50, () => asks),
      );
      await never;
    },
  },
  httpFlood(
    { name: 'http-pipelining', what: 'Pipelined requests of `/json`', meets: /^HTTP (?:200|429)$/ },
    '',
    `${post(ask.length)}${ask}`.repeat(100),
  ),
  httpFlood(
    { name: 'http-tiny-chunks', what: 'Bodies of `/json` in one-byte chunks', meets: /^HTTP 400$/ },
    chunked,
    '1\r\n \r\n'.repeat(1000),
  ),
  {
    name: 'http-churn',
    what: 'Connections that request `/healthcheck` and close before the answer, sixteen at a time, endlessly',
    meets: /^requests begun$/,
    async run({ ports, got }) {
      await openManyForEver(16, async () => {
        const peer = new RawPeer(ports.http, got, { from: attackerAddress });
        await peer.opened();
        await peer.write(text('GET /healthcheck HTTP/1.1\r\nhost: limiter\r\n\r\n'));
        if (!peer.isClosed) got.add('requests begun');
        peer.close();
      });
    },
  },
];
