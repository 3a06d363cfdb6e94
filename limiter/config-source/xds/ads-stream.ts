/** One connection with one stream of aggregated discovery, over grpc-js. */
import type { Socket } from 'node:net';
import {
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  connectivityState,
  Metadata,
  type StatusObject,
  status,
} from '@grpc/grpc-js';
import { decodeBytes, encodeBytes } from '../../../process/grpc/raw-bytes.ts';
import type { Timers } from '../../../process/time/clock.ts';
import type { AdsCredentials } from './ads-credentials.ts';
import { connectOnce } from './connected-sockets.ts';
import { adsPath } from './discovery-messages.ts';
import { endReason } from './end-reason.ts';

export interface AdsStreamOptions {
  /** A gRPC target. */
  target: string;
  credentials: AdsCredentials;
  /** Sent with the stream. Names are lower-cased. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Sent with the stream, as `authorization: Bearer`. */
  token: string | undefined;
  userAgent: string;
  maxMessageBytes: number;
  /** How often a silent server is pinged; 0: never. */
  keepaliveMs: number;
  /** So long a ping may go unanswered. */
  pingTimeoutMs: number;
  timers: Timers;
}

export interface AdsStreamEvents {
  opened(): void;
  received(bytes: Uint8Array): void;
  /** Once, and nothing after it. */
  ended(end: StreamEnd): void;
}

export interface StreamEnd {
  reason: string;
  /** The server does not want to be asked so often whether it is there. */
  tooManyPings: boolean;
  /** The server does not know, or no longer knows, who this is. */
  unauthenticated: boolean;
}

/** As gRPC's own first bound on connecting. */
const connectTimeoutMs = 20_000;

export class AdsStream {
  readonly #client: Client;
  readonly #call: ClientDuplexStream<Uint8Array, Buffer>;
  readonly #events: AdsStreamEvents;
  readonly #callOffTimeout: () => void;
  readonly #sockets: ReadonlySet<Socket>;
  #isOpen = false;
  #isOver = false;

  /** Connects at once. Throws on headers or a target that gRPC does not take. */
  constructor(options: AdsStreamOptions, events: AdsStreamEvents) {
    this.#events = events;
    const { target, credentials, headers, token, timers } = options;
    const metadata = new Metadata();
    for (const [name, value] of headers) {
      metadata.add(name, name.toLowerCase().endsWith('-bin') ? Buffer.from(value) : value);
    }
    if (token !== undefined) metadata.set('authorization', `Bearer ${token}`);
    this.#sockets = connectOnce(credentials.credentials);
    this.#client = new Client(target, credentials.credentials, {
      ...channelOptions(options),
      ...credentials.options,
    });
    this.#callOffTimeout = timers.after(connectTimeoutMs, () =>
      this.#end(`no connection within ${connectTimeoutMs / 1000} s`),
    );
    this.#call = this.#client.makeBidiStreamRequest(adsPath, encodeBytes, decodeBytes, metadata, {});
    this.#call.on('data', (bytes: Buffer) => {
      if (!this.#isOver) events.received(bytes);
    });
    // The status says the same, and comes at a good end as well.
    this.#call.on('error', () => {});
    this.#call.on('status', (end: StatusObject) => this.#end(endReason(end), end));
    this.#awaitConnection();
  }

  /** What cannot be sent any more is dropped. */
  send(bytes: Uint8Array): void {
    if (!this.#isOver) this.#call.write(bytes);
  }

  /** No event comes after this. */
  close(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#callOffTimeout();
    this.#call.cancel();
    this.#client.close();
    if (!this.#isOpen) for (const socket of this.#sockets) socket.destroy();
  }

  /** Failures come as the call's status, which says why. */
  #awaitConnection(): void {
    if (this.#isOver) return;
    const channel = this.#client.getChannel();
    const state = channel.getConnectivityState(true);
    if (state === connectivityState.READY) {
      this.#isOpen = true;
      this.#callOffTimeout();
      this.#events.opened();
      return;
    }
    channel.watchConnectivityState(state, Number.POSITIVE_INFINITY, () => this.#awaitConnection());
  }

  #end(reason: string, end?: StatusObject): void {
    if (this.#isOver) return;
    this.close();
    const tooManyPings = end !== undefined && saysTooManyPings(end);
    this.#events.ended({ reason, tooManyPings, unauthenticated: end?.code === status.UNAUTHENTICATED });
  }
}

function channelOptions(options: AdsStreamOptions): ChannelOptions {
  const { userAgent, maxMessageBytes, keepaliveMs, pingTimeoutMs } = options;
  return {
    'grpc.primary_user_agent': userAgent,
    'grpc.max_receive_message_length': maxMessageBytes,
    // Each attempt is a connection of its own, with files and addresses read anew.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_retries': 0,
    'grpc.enable_channelz': 0,
    ...(keepaliveMs > 0 && {
      'grpc.keepalive_time_ms': keepaliveMs,
      'grpc.keepalive_timeout_ms': pingTimeoutMs,
    }),
  };
}

/** grpc-js keeps the GOAWAY `too_many_pings` to itself; this is the status that it ends the call with. */
function saysTooManyPings({ code, details }: StatusObject): boolean {
  return code === status.RESOURCE_EXHAUSTED && details.startsWith('Bandwidth exhausted');
}
