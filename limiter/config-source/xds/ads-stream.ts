/** The stream to the xDS server, and what goes out over it. Unlike other clients', each request says who we are, as envoyproxy/ratelimit has it. */

import type { Socket } from 'node:net';
import { create, type JsonObject, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import {
  type ChannelCredentials,
  type ChannelOptions,
  Client,
  type ClientDuplexStream,
  connectivityState,
  Metadata,
  type StatusObject,
  setLogger,
  status,
} from '@grpc/grpc-js';
import { type Node, NodeSchema } from '../../../gen/envoy/config/core/v3/base_pb.ts';
import {
  DeltaDiscoveryRequestSchema,
  DiscoveryRequestSchema,
} from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { type Status, StatusSchema } from '../../../gen/google/rpc/status_pb.ts';
import { RefusedResourcesSchema } from '../../../gen/weir/xds/v1/refused_resources_pb.ts';
import { decodeBytes, encodeBytes } from '../../../process/grpc/grpc-js.ts';
import { shortened } from '../../../process/log/error-text.ts';
import type { Timers } from '../../../process/time/clock.ts';
import { rateLimitConfigTypeUrl } from '../../../rules/xds/resource.ts';
import type { FailedLoad } from '../config-source.ts';
import type { AdsCredentials } from './ads-credentials.ts';
import type { SessionRequest } from './xds-session.ts';

/** Who the limiter says it is. */
export interface XdsNode {
  id: string;
  metadata: JsonObject;
  /** Of this program. */
  version: string;
}

const service = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

/** Methods of the stream: aggregated discovery, state of the world or incremental. */
export const adsPaths = {
  stateOfTheWorld: `${service}/StreamAggregatedResources`,
  incremental: `${service}/DeltaAggregatedResources`,
} as const;

export function nodeMessage({ id, metadata, version }: XdsNode): Node {
  return create(NodeSchema, { id, metadata, userAgentName: 'weir', userAgentVersion: version });
}

export function encodeRequest(node: Node, { version, nonce, error }: SessionRequest): Uint8Array {
  const request = create(DiscoveryRequestSchema, {
    versionInfo: version,
    node,
    typeUrl: rateLimitConfigTypeUrl,
    responseNonce: nonce,
  });
  if (error !== undefined) request.errorDetail = create(StatusSchema, { message: error });
  return toBinary(DiscoveryRequestSchema, request);
}

/** `initial`: with the first request of a stream, versions by the names of the resources that are in force. */
export function encodeDeltaRequest(
  node: Node,
  { nonce, error, refused }: SessionRequest,
  initial: Record<string, string>,
): Uint8Array {
  const request = create(DeltaDiscoveryRequestSchema, {
    node,
    typeUrl: rateLimitConfigTypeUrl,
    initialResourceVersions: initial,
    responseNonce: nonce,
  });
  if (error !== undefined) request.errorDetail = deltaError(error, refused);
  return toBinary(DeltaDiscoveryRequestSchema, request);
}

/** Chosen: control planes take requests of 1 MiB. */
const longestListBytes = 900 * 1024;

/** There is one error for a response: what of it is refused stands in the details. */
function deltaError(message: string, refused: SessionRequest['refused']): Status {
  if (refused === undefined) return create(StatusSchema, { message });
  const resources = refused.map(({ name, message: why }) => ({ name, message: why }));
  const listed = create(RefusedResourcesSchema, { resources });
  // A server ends a stream with a longer request; an error without a list is of everything.
  if (toBinary(RefusedResourcesSchema, listed).length > longestListBytes)
    return create(StatusSchema, { message });
  return create(StatusSchema, { message, details: [anyPack(RefusedResourcesSchema, listed)] });
}

/** Chosen: enough to correct a rule, little enough for the status of a Kubernetes object. */
const maxErrors = 10;
const maxLength = 4_096;

/** What a refused response is answered with: the first error in the Go service's words and form, then the others. */
export function refusalMessage({ errors, total }: FailedLoad): string {
  const listed = errors.slice(0, maxErrors).map(({ source, text }) => `${source}: ${text}`);
  const more = total > listed.length ? [`and ${total - listed.length} more errors`] : [];
  return shortened([...listed, ...more].join('; '), maxLength);
}

type CreateConnector = ChannelCredentials['_createSecureConnector'];

/**
 * Lets a channel with these credentials connect to each of its addresses once, and returns the sockets that it connects.
 *
 * grpc-js tries an address that failed again by its own clock, after a second the first time: while another address keeps
 * the channel waiting, and once more when the channel is closed, as the subchannel's timer goes on. The second attempt
 * waits here until the subchannel is given up, which its pool does within 10 s. And a channel that is closed while the
 * server has taken the connection and says nothing leaves it open for ever, and offers no other way to end it.
 */
function connectOnce(credentials: ChannelCredentials): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  const create: CreateConnector = credentials._createSecureConnector.bind(credentials);
  credentials._createSecureConnector = (...details: Parameters<CreateConnector>) => {
    const connector = create(...details);
    const connect = connector.connect.bind(connector);
    connector.connect = (socket) => {
      sockets.add(socket);
      socket.once('close', () => sockets.delete(socket));
      return connect(socket);
    };
    // Comes before the socket is made.
    const waitForReady = connector.waitForReady.bind(connector);
    let wasReady = false;
    connector.waitForReady = () => {
      if (wasReady) return new Promise(() => {});
      wasReady = true;
      return waitForReady();
    };
    return connector;
  };
  return sockets;
}

const hints: readonly (readonly [beginning: string, hint: string])[] = [
  ['Received message larger than max', 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is the bound'],
  ['Failed to connect', 'the connection ended before HTTP/2 began: perhaps one side only speaks TLS'],
];

/** Chosen: the server's words may be as long as a header section. */
const longestReason = 1_024;

/** Why a stream ended, in a line: without what gRPC puts around the reason of a failed connection. */
export function endReason({ code, details }: Pick<StatusObject, 'code' | 'details'>): string {
  if (code === status.OK) return 'the server ended the stream';
  const bare = details
    .replace(/^No connection established\. Last error: (?:\w*Error(?: \[\w+\])?: )?/, '')
    .replace(/\. Resolution note: *$/s, '')
    // The time of the attempt.
    .replace(/ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)$/, '')
    // `40E3...:error:0A00010B:SSL routines:function:words:file:line:more`, of OpenSSL.
    .replace(/^(?:write )?[\dA-F]+:error:[\dA-F]+:[^:]*:[^:]*:([^:]+):.*$/s, 'TLS: $1');
  const text = shortened(bare.replaceAll(/\s+/g, ' ').trim(), longestReason);
  if (text === '') return `status ${status[code]}`;
  const hint = hints.find(([beginning]) => text.startsWith(beginning))?.[1];
  return hint === undefined ? text : `${text} (${hint})`;
}

export interface AdsStreamOptions {
  /** One of `adsPaths`. */
  path: string;
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

/** A stream to the server, whatever carries it: gRPC, or memory in simulations. */
export interface DiscoveryStream {
  /** What cannot be sent any more is dropped. */
  send(bytes: Uint8Array): void;
  /** Nothing comes until `resume`. */
  pause(): void;
  resume(): void;
  /** Sends a last request, reads nothing more, and closes a moment later. No event comes after this. */
  closeAfter(bytes: Uint8Array): void;
  /** No event comes after this. */
  close(): void;
}

/** Connects at once. Throws on options that cannot be used. */
export type OpenStream = (options: AdsStreamOptions, events: AdsStreamEvents) => DiscoveryStream;

export interface StreamEnd {
  reason: string;
  /** The server does not want to be asked so often whether it is there. */
  tooManyPings: boolean;
  /** The server does not know, or no longer knows, who this is. */
  unauthenticated: boolean;
  /** The server does not know the method. */
  unimplemented: boolean;
}

/** As gRPC's own first bound on connecting. */
const connectTimeoutMs = 20_000;
/** Chosen: a server that reads has a last request in far less. */
const lastRequestMs = 1_000;

/** One connection with one stream of aggregated discovery, over grpc-js. */
export class AdsStream implements DiscoveryStream {
  readonly #client: Client;
  readonly #call: ClientDuplexStream<Uint8Array, Buffer>;
  readonly #events: AdsStreamEvents;
  #callOffTimeout: () => void;
  readonly #timers: Timers;
  readonly #sockets: ReadonlySet<Socket>;
  #isOpen = false;
  #isOver = false;
  #isClosed = false;

  /** Connects at once. Throws on headers or a target that gRPC does not take. */
  constructor(options: AdsStreamOptions, events: AdsStreamEvents) {
    this.#events = events;
    const { path, target, credentials, headers, token, timers } = options;
    this.#timers = timers;
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
    this.#call = this.#client.makeBidiStreamRequest(path, encodeBytes, decodeBytes, metadata, {});
    this.#call.on('data', (bytes: Buffer) => {
      if (!this.#isOver) events.received(bytes);
    });
    // The status says the same, and comes at a good end as well.
    this.#call.on('error', () => {});
    this.#call.on('status', (end: StatusObject) => this.#end(endReason(end), end));
    this.#awaitConnection();
  }

  send(bytes: Uint8Array): void {
    if (!this.#isOver) this.#call.write(bytes);
  }

  pause(): void {
    this.#call.pause();
  }

  resume(): void {
    if (!this.#isOver) this.#call.resume();
  }

  closeAfter(bytes: Uint8Array): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#call.pause();
    this.#call.end(bytes);
    this.#callOffTimeout = this.#timers.after(lastRequestMs, () => this.close());
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
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
    const unauthenticated = end?.code === status.UNAUTHENTICATED;
    const unimplemented = end?.code === status.UNIMPLEMENTED;
    this.#events.ended({ reason, tooManyPings, unauthenticated, unimplemented });
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

/** gRPC prints past the log and its format: hands what it says to `warn` instead, for the whole process. */
export function routeGrpcErrors(warn: (text: string) => void): void {
  setLogger({ error: (...parts: unknown[]) => warn(parts.map(String).join(' ')) });
}
