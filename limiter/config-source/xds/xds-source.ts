import type { Node } from '../../../gen/envoy/config/core/v3/base_pb.ts';
import { errorText } from '../../../process/log/error-text.ts';
import type { Clock, Timers } from '../../../process/time/clock.ts';
import { PacingTokenBucket } from '../../../process/time/pacing.ts';
import type { Override } from '../../../rules/override.ts';
import type { RuleTable } from '../../../rules/table/rule-table.ts';
import type { SourceCheckOptions } from '../../../rules/validate-sources.ts';
import {
  type ConfigListener,
  type ConfigSource,
  type FailedLoad,
  loadedRules,
  type RulesReviewOutcome,
  unplacedError,
} from '../config-source.ts';
import type { ReviewOptions } from '../load-review.ts';
import { type AdsTls, AdsTransport, readTokenFile } from './ads-credentials.ts';
import {
  AdsStream,
  type AdsStreamOptions,
  adsPaths,
  type DiscoveryStream,
  encodeDeltaRequest,
  encodeRequest,
  nodeMessage,
  type OpenStream,
  rejectionMessage,
  type StreamEnd,
  type XdsNode,
} from './ads-stream.ts';
import { decodeAnswer, type LoadedResources } from './load-resources.ts';
import {
  OverrideResources,
  type ReadOverrides,
  withoutOverrides,
  withRejected,
} from './override-resources.ts';
import {
  claimableResources,
  decodeDelta,
  noResources,
  type PartsToLoad,
  partsToLoad,
  partsToReview,
  type ResourceSet,
  type ReviewedResources,
  resourcesInForce,
  shareToChange,
  sizeOfResources,
  TooManyBytesError,
  versionsOf,
  withChanges,
} from './resource-set.ts';
import {
  ResponseLoader,
  type ResponseLoaderOptions,
  type Reviewing,
  type StartLoadThread,
} from './response-loader.ts';
import {
  type LoadResult,
  type SessionAction,
  type SessionOptions,
  type SessionRequest,
  type VersionedResponse,
  XdsSession,
} from './xds-session.ts';

export interface XdsConfigSourceOptions
  extends SessionOptions,
    Pick<AdsStreamOptions, 'target' | 'headers' | 'maxMessageBytes' | 'keepaliveMs'> {
  /** Undefined for no TLS. */
  tls: AdsTls | undefined;
  /** The file with the token for each stream. It is read again for each stream. Undefined for no token. */
  tokenFile: string | undefined;
  node: XdsNode;
  /** The maximum size of all resources of incremental xDS, and the name of its setting. */
  maxBytes: { bytes: number; setting: string };
  /** Whether to request incremental xDS first. If the server does not support it, the limiter requests the state of the world. */
  incremental: boolean;
  /** The checks of rules: MERGE_DOMAIN_CONFIG, and what the store can count. */
  checks: SourceCheckOptions;
  /** How rules are reviewed once they are in force. */
  review: ReviewOptions;
  clock: Clock;
  timers: Timers;
  listener: XdsListener;
  limits?: Partial<XdsSourceLimits>;
  /** Defaults to gRPC. */
  openStream?: OpenStream;
  /** Defaults to threads of Node. */
  startThread?: StartLoadThread;
}

/** Receives events of the connection; `ConfigListener` receives those of the rules. */
export interface XdsListener {
  /** The first connection is up. Later ones are reported by `ConfigListener.reachable`. */
  connected(): void;
  /** A further attempt to connect failed in an outage that `ConfigListener.unreachable` has reported. */
  attemptFailed(reason: string, retryMs: number): void;
  /** The server accepted the stream and has not sent any rules yet. Reported once. */
  noRulesYet(): void;
  /** The TLS files changed and cannot be used. The last good ones stay in use. */
  tlsFilesRejected(reason: string): void;
  /** The server does not support incremental xDS. Reported once, and again only if it supported it in between. */
  notIncremental(): void;
}

/** Chosen: bounds of the source, with defaults in `defaultXdsSourceLimits`. */
export type XdsSourceLimits = Omit<ResponseLoaderOptions, 'timers' | 'startThread'> &
  Pick<AdsStreamOptions, 'pingTimeoutMs'>;

export const defaultXdsSourceLimits: Readonly<XdsSourceLimits> = {
  // A response of this size loads in a few milliseconds; a thread takes about 50 ms to start.
  maxInPlaceBytes: 64 * 1024,
  reviewDelayMs: 1_000,
  maxHeapMiB: 4_096,
  timeoutMs: 300_000,
  reviewTimeoutMs: 30_000,
  pingTimeoutMs: 15_000,
};

/** Chosen: the rate of loads, and of responses that arrive during a load. The control plane bounds requests with the same numbers. */
const responseRate = { burst: 200, perSecond: 20 };
/** Chosen: a limiter repeats these texts, or stores one for each resource. Our control plane sends 520 characters at most. */
const longestText = 4_096;

interface Response extends VersionedResponse {
  /** The bytes of the response. With incremental xDS: all resources that the server has sent, including those of this response. */
  content: Uint8Array | { resources: ResourceSet; typeUrl: string };
}

type ActionHandlers = {
  [Kind in SessionAction<Response>['do']]: (action: Extract<SessionAction<Response>, { do: Kind }>) => void;
};

/** Loads rules from an xDS server. While the server is unreachable, the rules of the last good response stay in force. */
export class XdsConfigSource implements ConfigSource {
  readonly #options: XdsConfigSourceOptions;
  readonly #limits: XdsSourceLimits;
  readonly #node: Node;
  readonly #session: XdsSession<Response>;
  readonly #loader: ResponseLoader;
  #listener: ConfigListener | undefined;
  #transport: AdsTransport | undefined;
  #stream: DiscoveryStream | undefined;
  readonly #loads = new PacingTokenBucket(responseRate);
  readonly #waiting = new PacingTokenBucket(responseRate);
  #callOffTimer: (() => void) | undefined;
  #hashInForce: string | undefined;
  #table: RuleTable | undefined;
  readonly #overrides = new OverrideResources();
  #overridesInForce: readonly Override[] = [];
  /** The resources of the rules in force, or undefined if the server sent resources without names. */
  #resourcesInForce: ResourceSet | undefined;
  /** The result of the last review. */
  #reviewed: ReviewedResources | undefined;
  /** The resources that the server has sent over the current or last stream; undefined if that stream is not incremental. */
  #reported: ResourceSet | undefined;
  /** Whether the server has just answered that it does not support incremental xDS. */
  #isDeclined = false;
  #isDeclineReported = false;
  #keepaliveMs: number;
  #isClosed = false;
  /** The token of the current or last stream. */
  #token: string | undefined;
  readonly #handlers: ActionHandlers = {
    connect: () => this.#connect(),
    send: ({ request }) => this.#stream?.send(this.#encode(request)),
    load: ({ response }) => void this.#load(response),
    wait: ({ delayMs }) => this.#setTimer(delayMs, () => this.#session.due()),
    settle: ({ delayMs }) => this.#setTimer(delayMs, () => this.#session.settled()),
    'report-lost': ({ reason, isNews, retryMs }) => {
      if (isNews) this.#listener?.unreachable(reason);
      else this.#options.listener.attemptFailed(reason, retryMs);
    },
    'report-connected': ({ afterOutage }) => {
      if (afterOutage) this.#listener?.reachable();
      else this.#options.listener.connected();
    },
    'report-no-rules': () => this.#options.listener.noRulesYet(),
  };

  constructor(options: XdsConfigSourceOptions) {
    this.#options = options;
    this.#node = nodeMessage(options.node);
    this.#session = new XdsSession(options);
    this.#limits = { ...defaultXdsSourceLimits, ...options.limits };
    this.#loader = new ResponseLoader({ ...options, ...this.#limits });
    this.#keepaliveMs = options.keepaliveMs;
  }

  /** Whether a stream to the server is open. */
  get connected(): boolean {
    return this.#session.isOpen;
  }

  /** The size of all resources that the server has sent by incremental xDS; 0 with state of the world. */
  get resourceBytes(): number {
    return sizeOfResources(this.#reported ?? noResources);
  }

  /** Starts to connect and returns at once. Rejects with a ConfigSourceError if TLS or token files cannot be used. */
  async start(listener: ConfigListener): Promise<void> {
    const { target, tls, listener: news } = this.#options;
    this.#transport = new AdsTransport(target, tls, (reason) => news.tlsFilesRejected(reason));
    this.#readToken();
    this.#listener = listener;
    this.#carryOut(this.#session.start());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#session.close();
    this.#callOffTimer?.();
    this.#stream?.close();
    await this.#loader.close();
  }

  #carryOut(actions: readonly SessionAction<Response>[]): void {
    for (const action of actions) {
      const carryOut = this.#handlers[action.do] as (action: SessionAction<Response>) => void;
      carryOut(action);
    }
  }

  /** A single timer is enough, because the session never waits for a stream to settle and for a retry at the same time. */
  #setTimer(delayMs: number, fire: () => SessionAction<Response>[]): void {
    this.#callOffTimer?.();
    this.#callOffTimer = this.#options.timers.after(delayMs, () => this.#carryOut(fire()));
  }

  #connect(): void {
    const { node, incremental, openStream } = this.#options;
    const isIncremental = incremental && !this.#isDeclined;
    this.#isDeclined = false;
    this.#reported = isIncremental ? noResources : undefined;
    try {
      this.#token = this.#readToken();
      const open: OpenStream = openStream ?? ((to, events) => new AdsStream(to, events));
      this.#stream = open(
        {
          ...this.#options,
          path: isIncremental ? adsPaths.incremental : adsPaths.stateOfTheWorld,
          credentials: this.#transport!.credentials(),
          token: this.#token,
          userAgent: `weir/${node.version}`,
          keepaliveMs: this.#keepaliveMs,
          pingTimeoutMs: this.#limits.pingTimeoutMs,
        },
        {
          opened: () => this.#carryOut(this.#session.opened()),
          received: (bytes) => this.#receive(bytes),
          ended: (end) => this.#ended(end),
        },
      );
    } catch (error) {
      this.#carryOut(this.#session.ended(errorText(error)));
    }
  }

  #encode(request: SessionRequest): Uint8Array {
    if (this.#reported === undefined) return encodeRequest(this.#node, request);
    const isFirst = request.nonce === '';
    if (isFirst) this.#reported = claimableResources(this.#resourcesInForce);
    return encodeDeltaRequest(this.#node, request, isFirst ? versionsOf(this.#reported) : {});
  }

  #ended({ reason, tooManyPings, unauthenticated, unimplemented }: StreamEnd): void {
    const other = unimplemented && this.#reported !== undefined ? this.#session.declined() : [];
    if (other.length > 0) {
      this.#isDeclined = true;
      if (!this.#isDeclineReported) this.#options.listener.notIncremental();
      this.#isDeclineReported = true;
      this.#carryOut(other);
      return;
    }
    // gRPC proposal A8: after "too many pings", a client doubles its keepalive interval.
    if (tooManyPings) this.#keepaliveMs *= 2;
    const reported = unauthenticated ? `${reason} (${this.#proofToFix()})` : reason;
    this.#carryOut(this.#session.ended(reported, unauthenticated && this.#hasNewToken()));
  }

  /** Names the setting to check when the server does not accept this limiter's identity. */
  #proofToFix(): string {
    const { tokenFile, headers } = this.#options;
    if (tokenFile !== undefined) return 'the server does not accept the token in CONFIG_GRPC_XDS_TOKEN_FILE';
    if (headers.some(([name]) => name.toLowerCase() === 'authorization'))
      return 'the server does not accept the authorization in CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS';
    return 'CONFIG_GRPC_XDS_TOKEN_FILE is not set';
  }

  /** Kubernetes replaces a projected token well before it expires. */
  #hasNewToken(): boolean {
    try {
      return this.#readToken() !== this.#token;
    } catch {
      return false;
    }
  }

  #readToken(): string | undefined {
    const { tokenFile } = this.#options;
    return tokenFile === undefined ? undefined : readTokenFile(tokenFile);
  }

  #receive(bytes: Uint8Array): void {
    // If responses arrive too fast during a load, the stream stops reading until the load ends.
    if (this.#session.isLoading && !this.#waiting.take(this.#options.clock.monotonicMs()))
      this.#stream?.pause();
    let response: Response | undefined;
    try {
      response = this.#decode(bytes);
    } catch (error) {
      // A NACK needs the nonce of the response, so the only answer is to end the stream.
      const kind = this.#reported === undefined ? 'DiscoveryResponse' : 'DeltaDiscoveryResponse';
      this.#endStream(`the server sent something other than a ${kind}: ${errorText(error)}`);
      return;
    }
    if (response !== undefined) this.#carryOut(this.#session.received(response));
  }

  #endStream(reason: string): void {
    this.#stream?.close();
    this.#carryOut(this.#session.ended(reason));
  }

  /** Returns undefined if the response was rejected. @throws if the bytes are not a response */
  #decode(bytes: Uint8Array): Response | undefined {
    if (this.#reported === undefined) {
      const { version, nonce, typeUrl } = decodeAnswer(bytes);
      checkLengths({ version, nonce, 'type URL': typeUrl });
      return { version, nonce, content: bytes };
    }
    const delta = decodeDelta(bytes);
    const { systemVersionInfo: version, nonce, typeUrl } = delta;
    checkLengths({ version, nonce, 'type URL': typeUrl });
    for (const { name, version: own } of delta.resources) checkLengths({ name, version: own });
    this.#isDeclineReported = false;
    const { bytes: maxBytes, setting } = this.#options.maxBytes;
    try {
      this.#reported = withChanges(this.#reported, delta, maxBytes);
    } catch (error) {
      if (!(error instanceof TooManyBytesError)) throw error;
      this.#rejectStream(nonce, `the resources have more than ${maxBytes} bytes in total (${setting})`);
      return undefined;
    }
    return { version, nonce, content: { resources: this.#reported, typeUrl } };
  }

  /**
   * Sends a NACK and ends the stream, because the limiter does not store these resources and cannot apply later changes to them. The
   * next stream starts from the resources in force, and the server sends every difference again.
   */
  #rejectStream(nonce: string, message: string): void {
    this.#listener?.failed([unplacedError('too-large', 'response', message)], 1);
    const last = { version: '', nonce, error: message };
    this.#stream?.closeAfter(encodeDeltaRequest(this.#node, last, {}));
    this.#reported = noResources;
    this.#carryOut(this.#session.ended(message));
  }

  async #load({ content }: Response): Promise<void> {
    await this.#pace();
    const startMs = this.#options.clock.monotonicMs();
    const { checks, review } = this.#options;
    const reported = 'resources' in content ? content.resources : undefined;
    const { bytes, over, parts } =
      'resources' in content ? this.#partsOf(content) : this.#partsOfAll(content);
    const isBad = reported === undefined && over.errors.length > 0;
    const outcome = isBad
      ? ({ ok: false, errors: over.errors, total: over.errors.length } as const)
      : await this.#loader.load({ bytes, ...checks, ...review, hashInForce: this.#hashInForce, parts });
    if (this.#isClosed) return;
    const loadMs = this.#options.clock.monotonicMs() - startMs;
    const loadResult = await this.#apply(withRejected(outcome, over), { loadMs, reported, over });
    if (this.#isClosed) return;
    this.#stream?.resume();
    this.#carryOut(this.#session.loaded(loadResult));
    const inForce = this.#resourcesInForce && withoutOverrides(this.#resourcesInForce);
    this.#loader.review(
      (found) => this.#reportReview(found, inForce),
      inForce && (() => this.#nextReview(inForce)),
    );
  }

  /** Limits the rate of loads, so that a server that sends without pause leaves the limiter time for its callers. */
  async #pace(): Promise<void> {
    const { clock, timers } = this.#options;
    const waitMs = this.#loads.waitMs(clock.monotonicMs());
    if (waitMs > 0) await new Promise<void>((resolve) => timers.after(waitMs, resolve));
    this.#loads.take(clock.monotonicMs());
  }

  #partsOf({ resources, typeUrl }: { resources: ResourceSet; typeUrl: string }): SplitResponse {
    const share = this.#table === undefined ? 0 : shareToChange(this.#table);
    const inForce = this.#resourcesInForce && withoutOverrides(this.#resourcesInForce);
    const { bytes, ...parts } = partsToLoad(withoutOverrides(resources), inForce, { typeUrl, share });
    return { bytes, parts, over: this.#overrides.ofResources(resources) };
  }

  #partsOfAll(content: Uint8Array): SplitResponse {
    const { bytes, ...over } = this.#overrides.ofResponse(content);
    return { bytes, parts: undefined, over };
  }

  #nextReview(inForce: ResourceSet): Reviewing {
    const { checks, review } = this.#options;
    const { bytes, parts, join } = partsToReview(inForce, this.#reviewed, review.counterKeys);
    return {
      request: { bytes, parts, ...checks, ...review, hashInForce: undefined },
      report: (found) => this.#reportReview('total' in found ? join(found) : found, inForce),
    };
  }

  #reportReview(review: RulesReviewOutcome, resources: ResourceSet | undefined): void {
    if (this.#isClosed) return;
    this.#reviewed = 'total' in review && resources !== undefined ? { resources, review } : undefined;
    this.#listener?.reviewed(review);
  }

  async #apply(
    outcome: LoadedResources | FailedLoad,
    { loadMs, reported, over }: { loadMs: number; reported: ResourceSet | undefined; over: ReadOverrides },
  ): Promise<LoadResult> {
    if (!outcome.ok) {
      this.#listener?.failed(outcome.errors, outcome.total);
      return { accepted: false, message: rejectionMessage(outcome) };
    }
    const { rules, hash, rejected } = outcome;
    const resources = rejected?.resources ?? [];
    this.#resourcesInForce = reported && resourcesInForce(reported, this.#resourcesInForce, resources);
    // Overrides come first, so that no request is decided by the first rules without their overrides.
    await this.#useOverrides(
      this.#resourcesInForce ? this.#overrides.ofResources(this.#resourcesInForce) : over,
    );
    if (rules !== undefined) {
      const loaded = loadedRules(rules, loadMs, this.#table);
      this.#table = loaded.table;
      await this.#listener?.loaded(loaded);
    } else if (rejected === undefined) {
      this.#listener?.unchanged(loadMs);
    }
    this.#hashInForce = hash;
    if (rejected === undefined) return { accepted: true };
    this.#listener?.failed(rejected.errors, rejected.total);
    return { accepted: false, message: rejectionMessage({ ok: false, ...rejected }), rejected: resources };
  }

  async #useOverrides({ overrides }: ReadOverrides): Promise<void> {
    const before = this.#overridesInForce;
    if (overrides.length === before.length && overrides.every((one, n) => one === before[n])) return;
    this.#overridesInForce = overrides;
    await this.#listener?.overrides?.(overrides);
  }
}

/** @throws Error that names the first text that is too long */
function checkLengths(texts: Record<string, string>): void {
  for (const [what, { length }] of Object.entries(texts))
    if (length > longestText)
      throw new Error(`its ${what} has ${length} characters; the maximum is ${longestText}`);
}

/** A response, split into rules and overrides. */
interface SplitResponse {
  bytes: Uint8Array;
  parts: Omit<PartsToLoad, 'bytes'> | undefined;
  over: ReadOverrides;
}
