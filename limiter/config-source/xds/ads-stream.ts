/** The stream to the xDS server, and its requests. Each request contains the node, as the requests of envoyproxy/ratelimit do. */

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
import { rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import type { FailedLoad } from '../config-source.ts';
import type { AdsCredentials } from './ads-credentials.ts';
import type { SessionRequest } from './xds-session.ts';

/** The node of the limiter's requests. */
export interface XdsNode {
  id: string;
  metadata: JsonObject;
  /** The version of Weir. */
  version: string;
}

const service = '/envoy.service.discovery.v3.AggregatedDiscoveryService';

/** Methods of aggregated discovery: state of the world and incremental. */
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

/** `initial`: the versions of the resources in force, by name, for the first request of a stream. */
export function encodeDeltaRequest(
  node: Node,
  { nonce, error, rejected }: SessionRequest,
  initial: Record<string, string>,
): Uint8Array {
  const request = create(DeltaDiscoveryRequestSchema, {
    node,
    typeUrl: rateLimitConfigTypeUrl,
    initialResourceVersions: initial,
    responseNonce: nonce,
  });
  if (error !== undefined) request.errorDetail = deltaError(error, rejected);
  return toBinary(DeltaDiscoveryRequestSchema, request);
}

/** Chosen: control planes accept requests of 1 MiB. */
const longestListBytes = 900 * 1024;

/** A NACK has one error for the whole response. Its details list the rejected resources. */
function deltaError(message: string, rejected: SessionRequest['rejected']): Status {
  if (rejected === undefined) return create(StatusSchema, { message });
  const resources = rejected.map(({ name, message: why }) => ({ name, message: why }));
  const listed = create(RefusedResourcesSchema, { resources });
  // A server ends the stream if a request is too long. An error without a list rejects the whole response.
  if (toBinary(RefusedResourcesSchema, listed).length > longestListBytes)
    return create(StatusSchema, { message });
  return create(StatusSchema, { message, details: [anyPack(RefusedResourcesSchema, listed)] });
}

/** Chosen: this number of errors is enough to correct rules, and fits into the status of a Kubernetes object. */
const maxErrors = 10;
const maxLength = 4_096;

/** Returns the message of a NACK: the first error in the form of the Go service, then the others. */
export function rejectionMessage({ errors, total }: FailedLoad): string {
  const listed = errors.slice(0, maxErrors).map(({ source, text }) => `${source}: ${text}`);
  const more = total > listed.length ? [`and ${total - listed.length} more errors`] : [];
  return shortened([...listed, ...more].join('; '), maxLength);
}

type CreateConnector = ChannelCredentials['_createSecureConnector'];

/**
 * Lets a channel with these credentials connect to each of its addresses once, and returns the sockets that it connects.
 *
 * grpc-js retries a failed address by its own clock, the first time after a second. It does so while the channel waits for
 * another address, and once more after the channel is closed, because the subchannel's timer goes on. Here the second attempt
 * waits until the pool drops the subchannel, within 10 s. If a channel is closed while the server has accepted the connection
 * but sends nothing, grpc-js leaves the connection open forever. The returned sockets are the only way to end it.
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
    // grpc-js calls this before it creates the socket.
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
  ['Received message larger than max', 'raise XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES'],
  ['Failed to connect', 'the connection ended before HTTP/2 began: perhaps only one side uses TLS'],
];

/** Chosen: the message of a server may be as long as a header section. */
const longestReason = 1_024;

/** Returns why a stream ended, in one line, without the text that grpc-js adds around the reason. */
export function endReason({ code, details }: Pick<StatusObject, 'code' | 'details'>): string {
  if (code === status.OK) return 'the server ended the stream';
  const bare = details
    .replace(/^No connection established\. Last error: (?:\w*Error(?: \[\w+\])?: )?/, '')
    .replace(/\. Resolution note: *$/s, '')
    // grpc-js appends the time of the attempt.
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
  /** If the server has sent nothing for this time, the client pings it; 0: never. */
  keepaliveMs: number;
  /** The connection ends if a ping is not answered within this time. */
  pingTimeoutMs: number;
  timers: Timers;
}

export interface AdsStreamEvents {
  opened(): void;
  received(bytes: Uint8Array): void;
  /** Called once. No other event follows. */
  ended(end: StreamEnd): void;
}

/** A stream to the server, over gRPC, or in memory in simulations. */
export interface DiscoveryStream {
  /** Sends a request. If the stream has ended, the request is dropped. */
  send(bytes: Uint8Array): void;
  /** No response is read until `resume`. */
  pause(): void;
  resume(): void;
  /** Sends a last request, reads nothing more, and closes shortly after. No event follows. */
  closeAfter(bytes: Uint8Array): void;
  /** Closes the stream. No event follows. */
  close(): void;
}

/** Opens a stream and starts to connect. @throws if the options cannot be used */
export type OpenStream = (options: AdsStreamOptions, events: AdsStreamEvents) => DiscoveryStream;

export interface StreamEnd {
  reason: string;
  /** The server rejected the rate of keepalive pings. */
  tooManyPings: boolean;
  /** The server does not accept the limiter's identity, or no longer accepts it. */
  unauthenticated: boolean;
  /** The server does not implement the method. */
  unimplemented: boolean;
}

/** gRPC's own initial timeout for connections. */
const connectTimeoutMs = 20_000;
/** Chosen: a server that reads receives the last request far sooner. */
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

  /** Starts to connect. @throws if gRPC does not accept a header or the target */
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
    // The 'status' event has the same information and also follows a good end.
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

  /** Waits for the connection. A failure arrives as the status of the call, with the reason. */
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
    // Each attempt is a separate connection, which reads files and addresses anew.
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_retries': 0,
    'grpc.enable_channelz': 0,
    ...(keepaliveMs > 0 && {
      'grpc.keepalive_time_ms': keepaliveMs,
      'grpc.keepalive_timeout_ms': pingTimeoutMs,
    }),
  };
}

/** Returns whether the status comes from a GOAWAY `too_many_pings`, which grpc-js does not report in any other way. */
function saysTooManyPings({ code, details }: StatusObject): boolean {
  return code === status.RESOURCE_EXHAUSTED && details.startsWith('Bandwidth exhausted');
}

/** Passes gRPC's own messages to `warn`, for the whole process. Otherwise, gRPC prints them outside the log and in another format. */
export function routeGrpcErrors(warn: (text: string) => void): void {
  setLogger({ error: (...parts: unknown[]) => warn(parts.map(String).join(' ')) });
}
