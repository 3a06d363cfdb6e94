/**
 * The stream of one limiter: the responses that are due, the meaning of its requests, and the transport that carries both, which is gRPC
 * or memory.
 */
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import { plainText } from '../../process/log/error-text.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { PacingTokenBucket } from '../../process/time/pacing.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import {
  addressOf,
  type FleetsOfClients,
  fleetRejection,
  type Identity,
  unauthenticated,
} from './caller-identity.ts';
import type { DiscoveryForm, RequestRejection, StreamRequest } from './discovery-form.ts';
import {
  type FleetResponse,
  type FleetResponses,
  type Sender,
  type SendTurns,
  withNonce,
} from './fleet-response.ts';
import { boundedRejection, firstReport, type NodeIdentity, nodeIdentity } from './limiter-report.ts';
import { DiscoveryStreamState } from './stream-state.ts';

/** The parts that all streams share. */
export interface StreamContext extends Telemetry {
  replicaName: string;
  clock: Clock;
  timers: Timers;
  turns: SendTurns;
  responses: FleetResponses;
  /** Undefined if every client may request every fleet. */
  fleetsOfClients?: FleetsOfClients;
  answerTimeoutMs: number;
  /** Returns whether the served rules may be older than the rules that limiters have from other replicas. */
  isCutOff(): boolean;
  /** See `LimiterStreamsOptions.confirm`. */
  confirm(then: () => void): void;
  /** Called when the server's `limiters` has changed. */
  changed(): void;
  sent(limiter: LimiterReport): void;
  /** Reports a stream that ends because of its requests. */
  reject(peer: string, reason: string): void;
  /** Called when the stream is being ended. It may stay open for a moment. */
  ending(stream: LimiterStream): void;
  /** Called once. */
  closed(stream: LimiterStream): void;
  /** The limiter ended its stream, or lost it, while a response was in flight. */
  leftUnanswered(limiter: LimiterReport): void;
  /** Called when a stream was ended because of its token. The limiter will return with another token. */
  renewing(limiter: LimiterReport): void;
  answered(limiter: LimiterReport): void;
}

/** Chosen: the text is for the log. */
const longestTypeUrl = 1024;
/** Chosen: a request contains a node, a nonce and perhaps every error of a validator. For the first request, see `DiscoveryForm`. */
const longestRequestBytes = 1024 * 1024;
/** Chosen: timers of Node support at most 24 days. */
const longestTimerMs = 86_400_000;
/** Chosen: a peer that reads receives the end of its stream much sooner. */
const cutAfterMs = 5_000;

/**
 * Chosen: for requests in addition to one for each response. That one is the response's ACK or NACK, and is as frequent as changes of
 * rules. Requests beyond `longRequestBytes` also count.
 */
const requestRate = { burst: 200, perSecond: 20 };
const longRequestRate = { burst: 10, perSecond: 2 };
const longRequestBytes = 64 * 1024;

const tooMany: GrpcStatus = {
  code: GrpcCode.RESOURCE_EXHAUSTED,
  message: `the stream sends more than ${requestRate.perSecond} requests a second that do not answer a response, or ${longRequestRate.perSecond} of more than ${longRequestBytes} bytes`,
};

const undecodable = invalid('cannot decode the discovery request');

/** The stream of a limiter. It passes requests to the state machine, and due responses to the transport. */
export class LimiterStream implements Sender {
  readonly #call: DiscoveryCall;
  readonly #context: StreamContext;
  readonly #id: string;
  readonly peer: string;
  /** The group of the address: see `addressGroup`. */
  readonly group: string;
  readonly #identity: Identity;
  readonly #state: DiscoveryStreamState;
  readonly #form: DiscoveryForm;
  #identified: NodeIdentity | { problem: string } | undefined;
  readonly #requests = new PacingTokenBucket(requestRate);
  readonly #longRequests = new PacingTokenBucket(longRequestRate);
  /** Whether a response was sent since the last request. */
  #isAnswerDue = false;
  /** The memory of its connection for this stream. */
  #bufferedBytes = 0;
  #report: LimiterReport | undefined;
  #offered: FleetResponse | undefined;
  /** The time at which the response in flight was sent. */
  #sentMs = 0;
  #stopWaiting = (): void => {};
  #callOffExpiry = (): void => {};
  #isEnding = false;
  /** Whether this process ended the stream with an error. */
  #isRejected = false;
  #isClosed = false;
  /** Whether no ACK or NACK arrived in time. */
  #gaveUp = false;
  #askedOtherType = false;
  /** Whether the limiter arrived with other rules than those that are served, and it is unknown which are older. */
  #isInDoubt = false;

  constructor(
    call: DiscoveryCall,
    context: StreamContext,
    { identity, noncePrefix, form }: { identity: Identity; noncePrefix: string; form: DiscoveryForm },
  ) {
    this.#call = call;
    this.#context = context;
    this.#identity = identity;
    this.#id = `${context.replicaName}/${noncePrefix}`;
    this.peer = call.peer;
    this.group = addressGroup(addressOf(this.peer));
    this.#form = form;
    this.#state = new DiscoveryStreamState(noncePrefix);
    const { timers, answerTimeoutMs } = context;
    this.#stopWaiting = timers.after(answerTimeoutMs, () => this.end(notAsked(answerTimeoutMs)));
    call.follow({
      received: (bytes) => this.#read(bytes),
      // A caller that sends one request and stops reading has its response by now.
      finished: () => this.#finish(),
      givenUp: () => this.#givenUp(),
      closed: () => this.#close(),
    });
    if (identity.expiresMs !== undefined) this.#awaitExpiry(identity.expiresMs);
  }

  /** The report of the limiter. Undefined before the first request for rules. */
  get report(): LimiterReport | undefined {
    const { phase, sentVersion } = this.#state;
    if (this.#report === undefined || phase !== 'in flight') return this.#report;
    return { ...this.#report, sentVersion };
  }

  /** Called when the served rules have changed. */
  update(): void {
    if (this.#report === undefined || this.#isEnding) return;
    const { fleet, capabilities, acceptedVersion } = this.#report;
    this.#offered = this.#context.responses.get(fleet, capabilities);
    if (this.#offered === undefined) return;
    this.#state.offer(this.#offered.version);
    // The served rules are again those that the limiter accepted, but others may have reached it in between.
    const isBack = this.#offered.version === acceptedVersion;
    if (isBack && this.#state.phase === 'in flight') this.#context.changed();
    if (this.#isDue) this.#context.turns.ask(this);
  }

  /** Called when the known tokens have changed. `staleness` returns why a stream must end. */
  checkToken(staleness: (identity: Identity) => GrpcStatus | undefined): void {
    const stale = staleness(this.#identity);
    if (stale !== undefined) this.#endForToken(stale);
  }

  #awaitExpiry(expiresMs: number): void {
    const { clock, timers } = this.#context;
    const leftMs = expiresMs - clock.nowMs();
    if (leftMs <= 0) {
      this.#endForToken(unauthenticated('the token of this stream has expired: show a newer one'));
      return;
    }
    const delayMs = Math.min(leftMs, longestTimerMs);
    this.#callOffExpiry = timers.after(delayMs, () => this.#awaitExpiry(expiresMs));
  }

  #endForToken(status: GrpcStatus): void {
    if (this.#isEnding) return;
    if (this.#report !== undefined) this.#context.renewing(this.#report);
    this.end(status);
  }

  /** A limiter with rules retains them while ours may be older. For a limiter without rules, old rules are better than none. */
  get #isDue(): boolean {
    if (!this.#state.isDue) return false;
    const hasRules = this.#form.claimedVersion !== '' || this.#report?.acceptedVersion !== undefined;
    return !(hasRules && (this.#isInDoubt || this.#context.isCutOff()));
  }

  /**
   * A limiter that was connected to another replica may have newer rules, while this replica does not know that it is disconnected from
   * the others.
   */
  #confirm({ fleet, capabilities }: LimiterReport): void {
    const { responses, confirm } = this.#context;
    const { claimedVersion } = this.#form;
    if (claimedVersion === '' || claimedVersion === responses.get(fleet, capabilities)?.version) return;
    this.#isInDoubt = true;
    confirm(() => {
      this.#isInDoubt = false;
      if (this.#isDue) this.#context.turns.ask(this);
    });
  }

  dueBytes(): number {
    if (this.#isEnding || this.#offered === undefined || !this.#isDue) return 0;
    return this.#form.bytesOf(this.#offered).length;
  }

  send(taken: () => void): void {
    const { clock, timers, answerTimeoutMs, metrics, sent } = this.#context;
    const response = this.#offered as FleetResponse;
    const bytes = this.#form.bytesOf(response);
    const { version, nonce } = this.#state.send();
    this.#form.sent(response);
    this.#sentMs = clock.monotonicMs();
    this.#stopWaiting = timers.after(answerTimeoutMs, () => this.#giveUp(version));
    this.#isAnswerDue = true;
    this.#hold(bytes.length);
    this.#call.send(withNonce(bytes, nonce), () => {
      this.#hold(0);
      taken();
    });
    metrics.all.pushes.inc();
    metrics.all.pushedBytes.inc(bytes.length);
    sent(this.#report as LimiterReport);
  }

  /** The peer gets the reason. Later messages from it are dropped. */
  end(status: GrpcStatus): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#isRejected = true;
    this.#stopWaiting();
    const { timers, ending } = this.#context;
    // A client that does not read does not receive the end of its stream, either.
    this.#stopWaiting = timers.after(cutAfterMs, () => this.#call.cut());
    ending(this);
    this.#call.fail(status);
  }

  #finish(): void {
    if (this.#isEnding) return;
    this.#isEnding = true;
    this.#call.end();
  }

  /** Called right after the end of the stream, unless this process ends it or the caller stopped reading. */
  #givenUp(): void {
    const { report } = this;
    const isUnanswered = !this.#isRejected && this.#state.phase === 'in flight';
    if (report !== undefined && isUnanswered) this.#context.leftUnanswered(report);
    this.#close();
  }

  #close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#isEnding = true;
    const { log, changed } = this.#context;
    this.#stopWaiting();
    this.#callOffExpiry();
    this.#hold(0);
    this.#context.closed(this);
    if (this.#report === undefined) return;
    const isUnanswered = this.#state.phase === 'in flight' && !this.#gaveUp;
    (isUnanswered ? lines.limiterLeftUnanswered : lines.limiterDisconnected)(log, named(this.#report));
    changed();
  }

  #read(bytes: Buffer): void {
    if (this.#isEnding) return;
    if (!this.#mayAsk(bytes)) {
      this.#reject(tooMany);
      return;
    }
    try {
      const longest = this.#report === undefined ? this.#form.longestFirstRequestBytes : longestRequestBytes;
      const request = bytes.length > longest ? undefined : this.#form.read(bytes);
      if (request !== undefined) this.#take(request);
      else this.#reject(bytes.length > longest ? tooLong(bytes.length, longest) : undecodable);
    } catch (error) {
      const { log, metrics } = this.#context;
      metrics.all.faults.inc();
      lines.fault(log, { call: 'aggregated discovery', error });
      this.end({ code: GrpcCode.INTERNAL, message: 'internal error' });
    }
  }

  #take(request: StreamRequest): void {
    // A client may omit the node in all requests except the first.
    if (request.node !== undefined) this.#identified ??= nodeIdentity(request.node, this.peer);
    if (request.typeUrl !== rateLimitConfigTypeUrl) this.#passOver(request.typeUrl);
    else if (this.#report === undefined) this.#subscribe();
    else {
      const isAsking = this.#form.subscribe(false);
      if (typeof isAsking === 'object') this.#reject(invalid(isAsking.problem));
      else this.#answer(this.#report, request, isAsking);
    }
  }

  /** Ignores a request for another discovery service on the same stream. A missing service must not end this stream. */
  #passOver(typeUrl: string): void {
    if (this.#askedOtherType) return;
    this.#askedOtherType = true;
    const asked = plainText(typeUrl, longestTypeUrl);
    lines.otherTypeAsked(this.#context.log, { peer: this.peer, typeUrl: asked });
  }

  #subscribe(): void {
    const identity = this.#identify();
    if (identity === undefined) return;
    const subscribed = this.#form.subscribe(true);
    if (typeof subscribed === 'object') {
      this.#reject(invalid(subscribed.problem));
      return;
    }
    this.#stopWaiting();
    const { clock, log, changed } = this.#context;
    this.#report = firstReport(identity, {
      id: this.#id,
      peer: this.peer,
      podUid: this.#identity.podUid,
      claimedVersion: this.#form.claimedVersion,
      connectedMs: clock.nowMs(),
    });
    this.#state.subscribe();
    lines.limiterConnected(log, { ...named(this.#report), isWeir: identity.isWeir });
    changed();
    this.#confirm(this.#report);
    this.update();
  }

  /** Returns undefined if the stream was rejected. */
  #identify(): NodeIdentity | undefined {
    const identity = this.#identified ?? nodeIdentity(undefined, this.peer);
    if ('problem' in identity) {
      this.#reject(invalid(identity.problem));
      return undefined;
    }
    const { fleetsOfClients } = this.#context;
    const { caller } = this.#identity;
    if (fleetsOfClients === undefined || caller === undefined) return identity;
    const message = fleetRejection(fleetsOfClients, caller, identity.fleet);
    if (message === undefined) return identity;
    this.#reject({ code: GrpcCode.PERMISSION_DENIED, message });
    return undefined;
  }

  #answer(report: LimiterReport, { nonce, rejection }: StreamRequest, isAsking: boolean): void {
    if (isAsking) this.#state.ask();
    const version = this.#state.answer(nonce);
    if (version !== undefined) this.#settle(report, version, rejection);
    if (this.#isDue) this.#context.turns.ask(this);
  }

  #settle(report: LimiterReport, version: string, rejection: RequestRejection | undefined): void {
    const { clock, log, metrics, changed } = this.#context;
    this.#stopWaiting();
    this.#context.answered(report);
    if (rejection === undefined) {
      this.#report = { ...report, acceptedVersion: version, refusal: undefined };
      metrics.all.acks.inc();
      metrics.all.pushToAck.observe((clock.monotonicMs() - this.#sentMs) / 1000);
      lines.limiterAccepted(log, { ...named(report), version });
    } else {
      const reported = boundedRejection(version, rejection);
      this.#report = { ...report, refusal: reported };
      metrics.all.nacks.inc();
      lines.limiterRejected(log, { ...named(report), version, message: reported.message });
    }
    changed();
  }

  #giveUp(version: string): void {
    const { answerTimeoutMs: timeoutMs, log, metrics } = this.#context;
    this.#gaveUp = true;
    metrics.all.unanswered.inc();
    lines.limiterUnanswered(log, { ...named(this.#report as LimiterReport), version, timeoutMs });
    this.end({
      code: GrpcCode.UNAVAILABLE,
      message: `no answer to version ${version} within ${timeoutMs} ms`,
    });
  }

  /** Sets the number of bytes that the connection holds for this stream. */
  #hold(bytes: number): void {
    this.#call.hold(bytes - this.#bufferedBytes);
    this.#bufferedBytes = bytes;
  }

  #mayAsk({ length }: Buffer): boolean {
    if (this.#isAnswerDue) {
      this.#isAnswerDue = false;
      return true;
    }
    const nowMs = this.#context.clock.monotonicMs();
    return this.#requests.take(nowMs) && (length <= longRequestBytes || this.#longRequests.take(nowMs));
  }

  #reject(status: GrpcStatus): void {
    this.#context.reject(this.peer, status.message);
    this.end(status);
  }
}

/** The fields of every line about a limiter. */
function named({ name, fleet }: LimiterReport): { limiter: string; fleet: string } {
  return { limiter: name, fleet };
}

function invalid(message: string): GrpcStatus {
  return { code: GrpcCode.INVALID_ARGUMENT, message };
}

function notAsked(timeoutMs: number): GrpcStatus {
  return { code: GrpcCode.DEADLINE_EXCEEDED, message: `no request for rules within ${timeoutMs} ms` };
}

function tooLong(bytes: number, longest: number): GrpcStatus {
  const message = `the request has ${bytes} bytes, the bound is ${longest}`;
  return { code: GrpcCode.RESOURCE_EXHAUSTED, message };
}

/** A discovery stream over any transport: gRPC, or memory in simulations. */
export interface DiscoveryCall {
  /** The peer as `address:port`, with IPv6 in brackets. */
  readonly peer: string;
  /** Sets the listener. Called once, at the beginning. */
  follow(listener: CallListener): void;
  /** Sends bytes, and calls `taken` when the network has accepted them. */
  send(bytes: Buffer, taken: () => void): void;
  end(): void;
  /** Ends the stream with an error. Unsent bytes are dropped. */
  fail(status: GrpcStatus): void;
  /** Destroys the connection. */
  cut(): void;
  /** The connection holds this number of bytes more, or fewer if it is negative, for a peer that has not done its part. */
  hold(bytes: number): void;
}

export interface CallListener {
  received(bytes: Buffer): void;
  /** The peer sends nothing more. */
  finished(): void;
  /** The peer ended the stream, or lost it. */
  givenUp(): void;
  /** The stream has ended, for any reason. */
  closed(): void;
}
