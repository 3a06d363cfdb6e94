/** Attacks by peers other than callers: an xDS server that lies, clients of the control plane, and values for a receiver of statistics. */
import { createSocket } from 'node:dgram';
import { setTimeout as sleep } from 'node:timers/promises';
import { create, toBinary } from '@bufbuild/protobuf';
import { DiscoveryRequestSchema } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { AdsServer } from '../support/ads-server.ts';
import { grpcMessage } from '../support/grpc-message.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { rateLimitConfigType } from '../support/xds-client.ts';
import { type Attack, callFields, H2Peer, openMany, settingIn } from './attack.ts';

const mebibyte = 2 ** 20;
const junk = new Uint8Array(mebibyte / 2).fill(0xff);

const xdsServers: readonly Attack[] = [
  {
    name: 'xds-server-names',
    what: 'An xDS server that sends a resource of 512 KiB with a new name every 10 ms, to a limiter with a bound of 4 MiB',
    plays: 'xds',
    meets: /\(XDS_CLIENT_MAX_TOTAL_BYTES\)/,
    async run({ ports, got }) {
      const server = await AdsServer.start({ port: ports.played, incremental: true });
      got.opens({ close: () => void server.stop() });
      for (;;) {
        const stream = await server.deltaStream();
        let hasEnded = false;
        void stream.ended.then(() => {
          hasEnded = true;
        });
        for (let round = 0; !hasEnded && !got.isOver; await sleep(10)) {
          // The limiter's memory is attacked, not the attacker's.
          if (stream.unsent > 0) continue;
          stream.respond({ version: `${round}`, resources: { [`n${round}`]: ['v', junk] } });
          round += 1;
        }
        const setting = settingIn(stream.requests.at(-1)?.errorDetail?.message ?? '');
        got.add(`streams ended${setting === undefined ? '' : ` (${setting})`}`);
      }
    },
  },
];

const discovery = callFields.with(
  callFields.indexOf(':path') + 1,
  '/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources',
);

/** Begins a stream of a control plane. */
async function openStream(peer: H2Peer): Promise<number> {
  const id = peer.nextId();
  await peer.write(peer.headers(id, 0, discovery));
  return id;
}

/** Answers to responses that were never sent. */
const answers = (count: number): Buffer =>
  Buffer.concat(
    Array.from({ length: count }, (_, n) => {
      const answer = create(DiscoveryRequestSchema, { typeUrl: rateLimitConfigType, responseNonce: `${n}` });
      return grpcMessage(toBinary(DiscoveryRequestSchema, answer));
    }),
  );

const xdsClients: readonly Attack[] = [
  {
    name: 'xds-client-flood',
    what: 'Four clients of a control plane that answer responses that it never sent, 500 times on each stream',
    attacks: 'control-plane',
    meets: /^RESOURCE_EXHAUSTED/,
    async run({ ports, got }) {
      const flood = answers(500);
      const one = async (): Promise<never> => {
        for (;;) {
          const peer = await new H2Peer(ports.xds, got).begin();
          while (!peer.isClosed) await peer.call(flood, discovery);
          await sleep(10);
        }
      };
      await Promise.all([one(), one(), one(), one()]);
    },
  },
  {
    name: 'xds-client-slow',
    what: '20 connections to a control plane, each with 8 messages of 4 MiB without their last byte',
    attacks: 'control-plane',
    meets: /^connections (?:closed|reset)$/,
    async run({ ports, got, many }) {
      const unfinished = grpcMessage(Buffer.alloc(4 * mebibyte)).subarray(0, -1);
      await openMany(
        // Fewer do not reach the bound on what they hold together.
        Math.max(5, many(20)),
        () => new H2Peer(ports.xds, got).begin(),
        async (peer) => {
          const ids = await Promise.all(Array.from({ length: 8 }, () => openStream(peer as H2Peer)));
          await Promise.all(ids.map((id) => (peer as H2Peer).body(id, unfinished, 0)));
        },
      );
    },
  },
];

const evil = ['\nevil:1|c\n', '\r\nevil:1|g', ':1|c|@0.1', '|#evil:tag', '\u2028evil:1|c', '#@,'];
const statsdLine = /^(?!evil)[^:|\s\p{Cc}][^:|\n\p{Cc}]*:-?[\d.]+\|(?:c|g|ms)$/u;

const receivers: readonly Attack[] = [
  {
    name: 'statsd-injection',
    what: 'Values with line feeds, `:`, `|`, `#` and `@`, each with its own counter and metric for statsd',
    plays: 'statsd',
    meets: /^lines of these values$/,
    async run({ ports, got }) {
      const socket = createSocket({ type: 'udp4', reuseAddr: true }, (message) => {
        for (const line of String(message).split('\n').filter(Boolean)) {
          if (line.includes('evil')) got.add('lines of these values');
          if (!statsdLine.test(line)) got.reached ??= `a receiver got ${JSON.stringify(line)}`;
        }
      });
      await new Promise<void>((resolve) => socket.bind(ports.played, '127.0.0.1', resolve));
      got.opens({ close: () => socket.close() });
      const client = new LimiterClient(ports.grpc);
      got.opens(client);
      for (;;) for (const text of evil) await client.allowed('attack', 'detailed', text);
    },
  },
];

export const peerAttacks: readonly Attack[] = [...xdsServers, ...xdsClients, ...receivers];
