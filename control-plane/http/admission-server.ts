/** The listener for the ValidatingWebhookConfiguration: the API server calls `POST /validate` over TLS. It changes nothing. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestMemory } from '../../process/http/http-connection.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { HttpCall, HttpListener } from '../../process/http/http-server.ts';
import { discardBody, readBody } from '../../process/http/request-body.ts';
import { sendError, sendNotFound } from '../../process/http/text-response.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { TlsFiles } from '../../process/net/tls-credentials.ts';
import { FairQueue } from '../../process/queues/fair-queue.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type AdmissionAnswer, type AdmissionRequest, readReview, reviewAnswer } from './admission-answer.ts';
import { openTlsListener, reportedMs } from './ports.ts';

export interface AdmissionServerOptions extends Telemetry {
  files: TlsFiles;
  answer(request: AdmissionRequest): Promise<AdmissionAnswer>;
  /** Bounds on the listener's connections and on their memory. */
  connections: HttpConnectionsOptions;
  clock: Clock;
  timers: Timers;
  /** The interval at which files are checked. Defaults to 5 s. */
  reloadIntervalMs?: number;
  /** How long requests may continue at shutdown before they are cut. */
  closeGraceMs: number;
}

/** Chosen: the API server accepts requests of 3 MiB, and stores 1.5 MiB. A review contains an object and its previous version. */
const maxBodyBytes = 8 * 1024 * 1024;
/** Chosen: far longer than a body takes within a cluster. */
const bodyTimeoutMs = 5_000;
const discardMs = 1_000;

/** Opens the server, which then has to `listen`. Rejects with a WatchedFilesError if the certificate is invalid at the start. */
export function openAdmissionServer(options: AdmissionServerOptions): Promise<HttpListener> {
  const desk = new AdmissionDesk(options);
  return openTlsListener({
    ...options,
    name: 'admission',
    serve: (call) => desk.serve(call),
    closed: () => desk.close(),
  });
}

/** Reads reviews, and answers them one at a time: see `ReviewLine`. */
class AdmissionDesk {
  readonly #options: AdmissionServerOptions;
  readonly #rejections: LogThrottle<{ object: string; reason: string; message: string }>;
  readonly #unread: LogThrottle<{ from: string; reason: string }>;
  readonly #line: ReviewLine;

  constructor(options: AdmissionServerOptions) {
    const { timers, log } = options;
    this.#options = options;
    this.#line = new ReviewLine(options);
    this.#rejections = new LogThrottle(
      timers,
      (rejection, times) => lines.admissionRejected(log, { ...rejection, times }),
      reportedMs,
    );
    this.#unread = new LogThrottle(
      timers,
      (unread, times) => lines.admissionUnread(log, { ...unread, times }),
      reportedMs,
    );
  }

  /** Logs rejections that were not logged yet. */
  close(): void {
    this.#rejections.close();
    this.#unread.close();
  }

  async serve({ target, request, response, memory }: HttpCall): Promise<void> {
    if (target.path !== '/validate') return sendNotFound(response);
    const length = Number(request.headers['content-length'] ?? Number.NaN);
    const problem = headProblem(request, length);
    if (problem !== undefined) {
      // A caller that is still sending would see a broken connection instead of an answer.
      await discardBody(request, { longestMs: discardMs, memory });
      if (problem.status === 405) response.setHeader('Allow', 'POST');
      this.#reject(request, response, problem);
      return;
    }
    const callOff = this.#options.timers.after(bodyTimeoutMs, () => request.destroy());
    const body = await readBody(request, { maxBytes: length, storedBytes: length, memory }).finally(callOff);
    if (body.kind === 'whole') {
      const call = { request, response, memory };
      const work = (): Promise<void> => this.#review(request, response, body.bytes);
      if ((await this.#line.take(call, body.bytes.length, work)) === 'shed')
        this.#reject(request, response, tooMany);
    } else if (body.kind === 'givenUp') this.#reject(request, response, tooMany);
    else if (body.kind !== 'aborted') this.#reject(request, response, { status: 400, text: 'damaged body' });
  }

  async #review(request: IncomingMessage, response: ServerResponse, bytes: Uint8Array): Promise<void> {
    // The API server has stopped waiting.
    if (response.destroyed) return;
    const review = readReview(bytes);
    if ('problem' in review) {
      this.#reject(request, response, { status: 400, text: review.problem });
      return;
    }
    const answer = await this.#options.answer(review);
    if (answer.allowed) {
      this.#count(answer.warnings.length === 0 ? 'allowed' : 'warned');
    } else {
      this.#count('refused');
      const { namespace = '', name = '' } = review.object?.metadata ?? {};
      const { reason, message } = answer;
      this.#rejections.note({ object: `${namespace}/${name}`, reason, message });
    }
    response.setHeader('Content-Type', 'application/json');
    response.end(reviewAnswer(review.uid, answer));
  }

  #count(answer: string): void {
    this.#options.metrics.all.admissionReviews.inc({ answer });
  }

  #reject(request: IncomingMessage, response: ServerResponse, problem: Problem): void {
    this.#count(problem.status === 503 ? 'busy' : 'bad request');
    this.#unread.note(
      { from: request.socket.remoteAddress ?? 'unknown', reason: problem.text },
      problem.text,
    );
    // The rest of the body is not read.
    if (!request.complete) response.setHeader('Connection', 'close');
    sendError(response, problem.status, problem.text);
  }
}

interface Problem {
  status: number;
  text: string;
}

const tooMany: Problem = { status: 503, text: 'too many reviews at the same time' };

function headProblem({ method, headers }: IncomingMessage, length: number): Problem | undefined {
  if (method !== 'POST') return { status: 405, text: 'Method Not Allowed' };
  if (!/^application\/json *(;|$)/i.test(headers['content-type'] ?? '')) {
    return { status: 415, text: 'the content type must be application/json' };
  }
  if (Number.isNaN(length)) return { status: 411, text: 'the content length is missing' };
  if (length <= maxBodyBytes) return undefined;
  return { status: 413, text: `the body is longer than ${maxBodyBytes} bytes` };
}

/** Chosen: an API server with more unanswered reviews than this gives up on them before their turn comes. */
const maxWaiting = 64;

/**
 * `turn`: the work was done. `shed`: the review was dropped in favor of others, so its caller needs an answer. `gone`: its caller left.
 */
export type LineEnd = 'turn' | 'shed' | 'gone';

export interface WaitingCall {
  request: IncomingMessage;
  response: ServerResponse;
  memory: RequestMemory;
}

interface QueuedReview {
  readonly group: string;
  end(end: LineEnd): void;
}

/** The queue of reviews with complete bodies, which are answered one at a time. Addresses take turns. */
export class ReviewLine {
  readonly #clock: Clock;
  readonly #timers: Timers;
  readonly #waiting = new FairQueue<QueuedReview>();
  #isBusy = false;

  constructor({ clock, timers }: { clock: Clock; timers: Timers }) {
    this.#clock = clock;
    this.#timers = timers;
  }

  /** Does the work when its turn comes, and then pauses for as long as the work took, so that limiters are served meanwhile. */
  async take(call: WaitingCall, bufferedBytes: number, work: () => Promise<void>): Promise<LineEnd> {
    const end = await this.#wait(call, bufferedBytes);
    if (end !== 'turn') return end;
    const startMs = this.#clock.monotonicMs();
    try {
      await work();
    } finally {
      this.#timers.after(this.#clock.monotonicMs() - startMs, () => {
        this.#isBusy = false;
        this.#next();
      });
    }
    return end;
  }

  #wait({ request, response, memory }: WaitingCall, bufferedBytes: number): Promise<LineEnd> {
    return new Promise((resolve) => {
      const leave = (): void => entry.end('gone');
      const entry: QueuedReview = {
        group: addressGroup(request.socket.remoteAddress),
        end: (end) => {
          this.#waiting.remove(entry);
          response.off('close', leave);
          memory.giveUp = undefined;
          memory.hold(0);
          resolve(end);
        },
      };
      if (response.destroyed) return resolve('gone');
      response.once('close', leave);
      this.#waiting.add(entry);
      memory.giveUp = () => entry.end('shed');
      // Holding this memory may end another review, or this one.
      memory.hold(bufferedBytes);
      if (this.#waiting.size > maxWaiting) this.#waiting.shed()?.end('shed');
      this.#next();
    });
  }

  #next(): void {
    if (this.#isBusy) return;
    const next = this.#waiting.next();
    if (next === undefined) return;
    this.#isBusy = true;
    next.end('turn');
  }
}
