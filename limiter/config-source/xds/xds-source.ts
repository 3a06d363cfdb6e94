import type { Node } from '../../../gen/envoy/config/core/v3/base_pb.ts';
import { errorText } from '../../../process/log/error-text.ts';
import type { Clock, Timers } from '../../../process/time/clock.ts';
import { TokenBucket } from '../../../process/time/pacing.ts';
import type { Override } from '../../../rules/override.ts';
import type { ReviewOptions } from '../../../rules/review/reviewed-load.ts';
import type { RuleTable } from '../../../rules/table/rule-table.ts';
import type { CheckOptions } from '../../../rules/validate-sources.ts';
import {
  brokenLoad,
  type ConfigListener,
  type ConfigSource,
  type FailedLoad,
  loadedRules,
  type ReviewOutcome,
  unplacedError,
} from '../config-source.ts';
import {
  type LoadThread,
  type LoadThreadLimits,
  type LoadThreadOptions,
  runLoadThread,
} from '../load-thread.ts';
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
  refusalMessage,
  type StreamEnd,
  type XdsNode,
} from './ads-stream.ts';
import {
  changedWorld,
  claimableWorld,
  decodeDelta,
  emptyWorld,
  type ReviewedWorld,
  shareToChange,
  TooManyBytesError,
  versionsOf,
  type World,
  type WorldParts,
  worldBytes,
  worldInForce,
  worldParts,
  worldToReview,
} from './delta-world.ts';
import {
  decodeAnswer,
  type LoadedResources,
  loadResources,
  type ResourcesRequest,
} from './load-resources.ts';
import { OverrideResources, type ReadOverrides, rulesOf, withRefused } from './override-resources.ts';
import {
  type LoadResult,
  type SessionAction,
  type SessionOptions,
  type SessionRequest,
  type VersionedResponse,
  XdsSession,
} from './xds-session.ts';

export interface ResponseLoaderOptions extends LoadThreadLimits {
  /** Longer responses are loaded in a thread. */
  maxInPlaceBytes: number;
  /** Rules that change by the second are reviewed when they have settled for so long. */
  reviewDelayMs: number;
  timers: Timers;
  /** Defaults to threads of Node. */
  startThread?: StartThread;
}

/** Begins a load where it does not keep anybody waiting. */
export type StartThread = (
  request: ResourcesRequest,
  options: LoadThreadOptions,
) => LoadThread<LoadedResources>;

/** What is to be looked at, and who learns what was found. */
interface Reviewing {
  request: ResourcesRequest;
  report(review: ReviewOutcome): void;
}

/** Loads responses: small ones in place, large ones in a thread, so that callers of the limiter need not wait. */
export class ResponseLoader {
  readonly #options: ResponseLoaderOptions;
  #running: { thread: LoadThread<LoadedResources>; request: ResourcesRequest } | undefined;
  /** What the rules in force are of, until they were reviewed. */
  #unreviewed: ResourcesRequest | undefined;
  #callOffReview = (): void => {};
  #isClosed = false;

  constructor(options: ResponseLoaderOptions) {
    this.#options = options;
  }

  /** Never rejects. One load at a time. */
  async load(request: ResourcesRequest): Promise<LoadedResources | FailedLoad> {
    await this.#breakOff();
    if (this.#isClosed) return brokenLoad('response', 'the load ended without a result');
    const isSmall = request.bytes.length <= this.#options.maxInPlaceBytes;
    const outcome = isSmall ? loadInPlace(request) : await this.#start(request).outcome;
    if (outcome.ok && outcome.rules !== undefined) this.#unreviewed = request;
    return outcome;
  }

  /**
   * Call when the rules of the last good load are in force. Says what there is to say of them, unless it was reported, or another
   * load comes before; never on this thread are they looked at. `begin`: what to look at instead of the last load, where
   * that is over.
   */
  review(report: (review: ReviewOutcome) => void, begin?: () => Reviewing): void {
    const request = this.#unreviewed;
    if (request === undefined) return;
    const running = this.#running;
    if (running?.request === request && request.parts?.change === undefined) {
      void this.#follow(running.thread, report);
      return;
    }
    const { timers, reviewDelayMs } = this.#options;
    this.#callOffReview = timers.after(reviewDelayMs, () => {
      const reviewing = begin?.() ?? { request, report };
      void this.#follow(this.#start({ ...reviewing.request, hashInForce: undefined }), reviewing.report);
    });
  }

  /** Breaks off a load in a thread; resolves when the thread is gone. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#breakOff();
  }

  #start(request: ResourcesRequest): LoadThread<LoadedResources> {
    const { startThread = startLoadThread } = this.#options;
    const thread = startThread(request, this.#options);
    this.#running = { thread, request };
    return thread;
  }

  async #follow(thread: LoadThread<unknown>, report: (review: ReviewOutcome) => void): Promise<void> {
    const review = await thread.review;
    if (review === undefined) return;
    this.#unreviewed = undefined;
    report(review);
  }

  async #breakOff(): Promise<void> {
    this.#callOffReview();
    const running = this.#running;
    if (running === undefined) return;
    running.thread.stop();
    await running.thread.review;
    if (this.#running === running) this.#running = undefined;
  }
}

const startLoadThread: StartThread = (request, options) => {
  // A copy, because the bytes may be part of a larger buffer that cannot move to the thread.
  const bytes = new Uint8Array(request.bytes);
  return runLoadThread<LoadedResources>(
    {
      program: './load-resources-worker',
      base: import.meta.url,
      request: { ...request, bytes },
      transfer: [bytes.buffer],
      source: 'response',
    },
    options,
  );
};

function loadInPlace(request: ResourcesRequest): LoadedResources | FailedLoad {
  try {
    return loadResources(request).outcome;
  } catch (error) {
    return brokenLoad('response', `the load broke off: ${errorText(error)}`);
  }
}

export interface XdsConfigSourceOptions
  extends SessionOptions,
    Pick<AdsStreamOptions, 'target' | 'headers' | 'maxMessageBytes' | 'keepaliveMs'> {
  /** Undefined: no TLS. */
  tls: AdsTls | undefined;
  /** File with the token that goes with each stream, read anew for each; undefined: none. */
  tokenFile: string | undefined;
  node: XdsNode;
  /** How many bytes the resources of incremental xDS may have together, and the setting that says so. */
  mostBytes: { bytes: number; setting: string };
  /** Ask for incremental xDS first. A server that does not know it is asked for the state of the world. */
  incremental: boolean;
  /** What is checked of rules: MERGE_DOMAIN_CONFIG, and what the store can count. */
  checks: CheckOptions;
  /** How rules are reviewed once they are in force. */
  review: ReviewOptions;
  clock: Clock;
  timers: Timers;
  listener: XdsListener;
  limits?: Partial<XdsSourceLimits>;
  /** Defaults to gRPC. */
  openStream?: OpenStream;
  /** Defaults to threads of Node. */
  startThread?: StartThread;
}

/** What happens beside the rules. */
export interface XdsListener {
  /** The first connection stands; later ones are reported by `ConfigListener.reachable`. */
  connected(): void;
  /** Another attempt of an outage that was reported by `ConfigListener.unreachable`. */
  attemptFailed(reason: string, retryMs: number): void;
  /** The server took the stream and has not sent any rules yet. Reported once. */
  noRulesYet(): void;
  /** TLS files changed and cannot be used: the last good ones stay. */
  tlsFilesRefused(reason: string): void;
  /** The server does not know incremental xDS. Reported once, until it does. */
  notIncremental(): void;
}

/** Chosen: bounds. */
export type XdsSourceLimits = Omit<ResponseLoaderOptions, 'timers' | 'startThread'> &
  Pick<AdsStreamOptions, 'pingTimeoutMs'>;

export const defaultXdsSourceLimits: Readonly<XdsSourceLimits> = {
  // A few milliseconds of work; a thread takes some 50 to begin.
  maxInPlaceBytes: 64 * 1024,
  reviewDelayMs: 1_000,
  maxHeapMiB: 4_096,
  timeoutMs: 300_000,
  reviewTimeoutMs: 30_000,
  pingTimeoutMs: 15_000,
};

/** Chosen, as the control plane's for requests: for loads, and for responses that come during one and wait for the next. */
const responseRate = { burst: 200, perSecond: 20 };
/** Chosen: a limiter repeats these, or holds one for each resource. Ours have 520 characters at most. */
const longestText = 4_096;

interface Response extends VersionedResponse {
  /** The response as it came; of incremental xDS what the server has reported with it. */
  content: Uint8Array | { world: World; typeUrl: string };
}

type ActionHandlers = {
  [Kind in SessionAction<Response>['do']]: (action: Extract<SessionAction<Response>, { do: Kind }>) => void;
};

/** Rules from an xDS server. Those of the last good response stay in force for as long as the server is away. */
export class XdsConfigSource implements ConfigSource {
  readonly #options: XdsConfigSourceOptions;
  readonly #limits: XdsSourceLimits;
  readonly #node: Node;
  readonly #session: XdsSession<Response>;
  readonly #loader: ResponseLoader;
  #listener: ConfigListener | undefined;
  #transport: AdsTransport | undefined;
  #stream: DiscoveryStream | undefined;
  readonly #loads = new TokenBucket(responseRate);
  readonly #waiting = new TokenBucket(responseRate);
  #callOffTimer: (() => void) | undefined;
  #hashInForce: string | undefined;
  #table: RuleTable | undefined;
  readonly #overrides = new OverrideResources();
  #overridesInForce: readonly Override[] = [];
  /** The resources of these rules; undefined where they came without names. */
  #worldInForce: World | undefined;
  /** What was said of the rules that were reviewed last. */
  #reviewed: ReviewedWorld | undefined;
  /** Of the stream that is open, or was last: what the server has reported; undefined: it shows the state of the world. */
  #reported: World | undefined;
  /** The server has just said that it does not know incremental xDS. */
  #isDeclined = false;
  #isDeclineReported = false;
  #keepaliveMs: number;
  #isClosed = false;
  /** Of the stream that is open, or was last. */
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

  /** Of the resources that the server has sent by incremental xDS; 0 with the state of the world. */
  get resourceBytes(): number {
    return worldBytes(this.#reported ?? emptyWorld);
  }

  /** Connects without waiting for it. Rejects with a ConfigSourceError on files that cannot be used. */
  async start(listener: ConfigListener): Promise<void> {
    const { target, tls, listener: news } = this.#options;
    this.#transport = new AdsTransport(target, tls, (reason) => news.tlsFilesRefused(reason));
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

  /** One timer is enough: a stream that settles and a wait exclude each other. */
  #setTimer(delayMs: number, fire: () => SessionAction<Response>[]): void {
    this.#callOffTimer?.();
    this.#callOffTimer = this.#options.timers.after(delayMs, () => this.#carryOut(fire()));
  }

  #connect(): void {
    const { node, incremental, openStream } = this.#options;
    const isIncremental = incremental && !this.#isDeclined;
    this.#isDeclined = false;
    this.#reported = isIncremental ? emptyWorld : undefined;
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
    if (isFirst) this.#reported = claimableWorld(this.#worldInForce);
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
    // gRPC proposal A8: a client that is notified pings half as often.
    if (tooManyPings) this.#keepaliveMs *= 2;
    const reported = unauthenticated ? `${reason} (${this.#proofToFix()})` : reason;
    this.#carryOut(this.#session.ended(reported, unauthenticated && this.#hasNewToken()));
  }

  /** What an operator is to look at where the server does not know who this is. */
  #proofToFix(): string {
    const { tokenFile, headers } = this.#options;
    if (tokenFile !== undefined) return 'the token in CONFIG_GRPC_XDS_TOKEN_FILE is not taken';
    if (headers.some(([name]) => name.toLowerCase() === 'authorization'))
      return 'the authorization in CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS is not taken';
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
    // A flood waits at the server until the load is over.
    if (this.#session.isLoading && !this.#waiting.take(this.#options.clock.monotonicMs()))
      this.#stream?.pause();
    let response: Response | undefined;
    try {
      response = this.#decode(bytes);
    } catch (error) {
      // Without its nonce it cannot be refused.
      const kind = this.#reported === undefined ? 'DiscoveryResponse' : 'DeltaDiscoveryResponse';
      this.#endStream(`the server sent what is no ${kind}: ${errorText(error)}`);
      return;
    }
    if (response !== undefined) this.#carryOut(this.#session.received(response));
  }

  #endStream(reason: string): void {
    this.#stream?.close();
    this.#carryOut(this.#session.ended(reason));
  }

  /** Undefined: it has been refused. @throws on bytes that are no response */
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
    const { bytes: mostBytes, setting } = this.#options.mostBytes;
    try {
      this.#reported = changedWorld(this.#reported, delta, mostBytes);
    } catch (error) {
      if (!(error instanceof TooManyBytesError)) throw error;
      this.#refuseStream(nonce, `the resources have more than ${mostBytes} bytes in total (${setting})`);
      return undefined;
    }
    return { version, nonce, content: { world: this.#reported, typeUrl } };
  }

  /**
   * Sends a NACK and ends the stream: a part of the server's resources is unknown from now on. The next stream begins with what is in
   * force, and the server says again what is different.
   */
  #refuseStream(nonce: string, message: string): void {
    this.#listener?.failed([unplacedError('too-large', 'response', message)], 1);
    const last = { version: '', nonce, error: message };
    this.#stream?.closeAfter(encodeDeltaRequest(this.#node, last, {}));
    this.#reported = emptyWorld;
    this.#carryOut(this.#session.ended(message));
  }

  async #load({ content }: Response): Promise<void> {
    await this.#pace();
    const startMs = this.#options.clock.monotonicMs();
    const { checks, review } = this.#options;
    const reported = 'world' in content ? content.world : undefined;
    const { bytes, over, parts } = 'world' in content ? this.#partsOf(content) : this.#partsOfAll(content);
    const isBad = reported === undefined && over.errors.length > 0;
    const outcome = isBad
      ? ({ ok: false, errors: over.errors, total: over.errors.length } as const)
      : await this.#loader.load({ bytes, ...checks, ...review, hashInForce: this.#hashInForce, parts });
    if (this.#isClosed) return;
    const loadMs = this.#options.clock.monotonicMs() - startMs;
    const loadResult = await this.#apply(withRefused(outcome, over), { loadMs, reported, over });
    if (this.#isClosed) return;
    this.#stream?.resume();
    this.#carryOut(this.#session.loaded(loadResult));
    const inForce = this.#worldInForce && rulesOf(this.#worldInForce);
    this.#loader.review(
      (found) => this.#reportReview(found, inForce),
      inForce && (() => this.#nextReview(inForce)),
    );
  }

  /** A server that sends as fast as it can leaves the limiter time for its callers. */
  async #pace(): Promise<void> {
    const { clock, timers } = this.#options;
    const waitMs = this.#loads.waitMs(clock.monotonicMs());
    if (waitMs > 0) await new Promise<void>((resolve) => timers.after(waitMs, resolve));
    this.#loads.take(clock.monotonicMs());
  }

  #partsOf({ world, typeUrl }: { world: World; typeUrl: string }): LoadParts {
    const share = this.#table === undefined ? 0 : shareToChange(this.#table);
    const inForce = this.#worldInForce && rulesOf(this.#worldInForce);
    const { bytes, ...parts } = worldParts(rulesOf(world), inForce, { typeUrl, share });
    return { bytes, parts, over: this.#overrides.ofWorld(world) };
  }

  #partsOfAll(content: Uint8Array): LoadParts {
    const { bytes, ...over } = this.#overrides.ofResponse(content);
    return { bytes, parts: undefined, over };
  }

  #nextReview(inForce: World): Reviewing {
    const { checks, review } = this.#options;
    const { bytes, parts, join } = worldToReview(inForce, this.#reviewed, review.counterKeys);
    return {
      request: { bytes, parts, ...checks, ...review, hashInForce: undefined },
      report: (found) => this.#reportReview('total' in found ? join(found) : found, inForce),
    };
  }

  #reportReview(review: ReviewOutcome, world: World | undefined): void {
    if (this.#isClosed) return;
    this.#reviewed = 'total' in review && world !== undefined ? { world, review } : undefined;
    this.#listener?.reviewed(review);
  }

  async #apply(
    outcome: LoadedResources | FailedLoad,
    { loadMs, reported, over }: { loadMs: number; reported: World | undefined; over: ReadOverrides },
  ): Promise<LoadResult> {
    if (!outcome.ok) {
      this.#listener?.failed(outcome.errors, outcome.total);
      return { accepted: false, message: refusalMessage(outcome) };
    }
    const { rules, hash, refused } = outcome;
    const resources = refused?.resources ?? [];
    this.#worldInForce = reported && worldInForce(reported, this.#worldInForce, resources);
    // First, so that no request comes between the first rules and these.
    await this.#useOverrides(this.#worldInForce ? this.#overrides.ofWorld(this.#worldInForce) : over);
    if (rules !== undefined) {
      const loaded = loadedRules(rules, loadMs, this.#table);
      this.#table = loaded.table;
      await this.#listener?.loaded(loaded);
    } else if (refused === undefined) {
      this.#listener?.unchanged(loadMs);
    }
    this.#hashInForce = hash;
    if (refused === undefined) return { accepted: true };
    this.#listener?.failed(refused.errors, refused.total);
    return { accepted: false, message: refusalMessage({ ok: false, ...refused }), refused: resources };
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
      throw new Error(`its ${what} has ${length} characters, and ${longestText} are the most`);
}

/** What of a response goes where. */
interface LoadParts {
  bytes: Uint8Array;
  parts: Omit<WorldParts, 'bytes'> | undefined;
  over: ReadOverrides;
}
