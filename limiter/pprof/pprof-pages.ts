/** The pages under `/debug/pprof/`, for `go tool pprof` and for browsers. */
import type { ServerResponse } from 'node:http';
import type { HttpCall } from '../../process/http/http-server.ts';
import type { PageKind } from '../../process/http/site-check.ts';
import { sendError } from '../../process/http/text-response.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { ThreadsOf } from '../capabilities/messages.ts';
import type { DebugPages } from '../http/debug-pages.ts';
import { CpuProfiler } from './cpu-profile.ts';
import { HeapSampler } from './heap-profile.ts';
import type { ProfileMessages } from './messages.ts';

const pprofRoot = '/debug/pprof/';

/** The default duration, as in Go. */
const defaultSeconds = 30;
const maxSeconds = 300;

export class PprofPages implements DebugPages {
  readonly root = pprofRoot;
  readonly described = {
    [pprofRoot]: 'root of various pprof endpoints. hit for help.',
    [`${pprofRoot}heap`]: 'memory profiling endpoint',
    [`${pprofRoot}profile`]: 'CPU profiling endpoint',
  };
  readonly #cpu: CpuProfiler;
  readonly #heap: HeapSampler;
  readonly #workers: ThreadsOf<ProfileMessages>;
  /** Workers with a running CPU profile. */
  readonly #busyWorkers = new Set<number>();
  readonly #ended: Promise<void>;
  #end = (): void => {};

  constructor(clock: Clock, workers: ThreadsOf<ProfileMessages>) {
    this.#workers = workers;
    this.#cpu = new CpuProfiler(clock);
    this.#heap = new HeapSampler(clock);
    this.#ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  kindOf(path: string): PageKind {
    return path === pprofRoot ? 'profile-index' : 'profile';
  }

  /** Begins to sample the heap. */
  opened(): Promise<void> {
    return this.#heap.start();
  }

  /** Ends a running CPU profile. Its response contains the samples so far. */
  closing(): void {
    this.#end();
  }

  /** Ends the sampling of the heap. */
  closed(): void {
    this.#heap.stop();
  }

  async answer({ response, target: { path, query } }: HttpCall): Promise<void> {
    const page = path.slice(pprofRoot.length);
    if (page === '') sendIndex(response);
    else if (page === 'profile') await this.#answerCpu(response, query);
    else if (page === 'heap') await this.#answerHeap(response, query);
    else if (page === 'trace') {
      reject(response, 404, 'Unknown profile: traces are of the Go runtime; see /debug/pprof/profile');
    } else reject(response, 404, 'Unknown profile');
  }

  async #answerCpu(response: ServerResponse, query: URLSearchParams): Promise<void> {
    const asked = query.get('seconds');
    const seconds = asked === null ? defaultSeconds : Number(asked);
    if (asked === '' || !Number.isInteger(seconds) || seconds < 1 || seconds > maxSeconds) {
      reject(response, 400, `seconds must be a whole number from 1 to ${maxSeconds}, not "${asked}"`);
    } else if (query.has('worker')) {
      await this.#answerOfWorker(response, query, { seconds });
    } else if (this.#cpu.busy) {
      reject(response, 409, 'Could not enable CPU profiling: cpu profiling already in use');
    } else {
      const gone = new Promise<void>((resolve) => response.once('close', resolve));
      const profile = await this.#cpu.profile(seconds, Promise.race([gone, this.#ended]));
      sendProfile(response, 'profile', profile);
    }
  }

  async #answerHeap(response: ServerResponse, query: URLSearchParams): Promise<void> {
    if (query.has('seconds')) {
      reject(response, 400, 'the heap profile has no duration: ask without seconds');
      return;
    }
    const collect = query.get('gc') === '1';
    if (query.has('worker')) await this.#answerOfWorker(response, query, { collect });
    else sendProfile(response, 'heap', await this.#heap.profile({ collect }));
  }

  async #answerOfWorker(
    response: ServerResponse,
    query: URLSearchParams,
    question: { seconds: number } | { collect: boolean },
  ): Promise<void> {
    const workers = this.#workers;
    const number = Number(query.get('worker'));
    if (!Number.isInteger(number) || number < 1 || number > workers.count) {
      reject(response, 404, `there is no worker "${query.get('worker')}"`);
      return;
    }
    const isCpu = 'seconds' in question;
    if (isCpu && this.#busyWorkers.has(number)) {
      reject(response, 409, 'Could not enable CPU profiling: cpu profiling already in use');
      return;
    }
    const profile = await (isCpu
      ? this.#cpuOfWorker(number, question)
      : workers.askOne(number, 'heap', question));
    if (profile === undefined) reject(response, 503, `worker ${number} does not answer`);
    else sendProfile(response, isCpu ? 'profile' : 'heap', profile);
  }

  async #cpuOfWorker(number: number, question: { seconds: number }): Promise<Uint8Array | undefined> {
    this.#busyWorkers.add(number);
    try {
      return await this.#workers.askOne(number, 'cpu', question);
    } finally {
      this.#busyWorkers.delete(number);
    }
  }
}

/** Answers with an error, and with the header that lets `go tool pprof` show the text. */
function reject(response: ServerResponse, status: number, text: string): void {
  response.setHeader('X-Go-Pprof', '1');
  sendError(response, status, text);
}

function sendProfile(response: ServerResponse, name: string, profile: Uint8Array): void {
  response.writeHead(200, {
    'Content-Type': 'application/octet-stream',
    'Content-Disposition': `attachment; filename="${name}"`,
    'Content-Length': profile.length,
    'X-Content-Type-Options': 'nosniff',
  });
  response.end(profile);
}

const index = `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>/debug/pprof/</title></head>
<body>
<h1>/debug/pprof/</h1>
<p>Profiles of the main thread, in the format of <code>go tool pprof</code>. Where LIMITER_WORKERS is above 1,
<code>worker=2</code> asks for those of the second worker thread instead.</p>
<dl>
<dt><a href="heap">heap</a></dt>
<dd>JavaScript objects that are alive, by the function that allocated them, sampled since the start.
<a href="heap?gc=1">heap?gc=1</a> collects garbage first, which stops the process for a moment.</dd>
<dt><a href="profile">profile</a></dt>
<dd>CPU time by function, taken for ${defaultSeconds} seconds or as long as <code>seconds=</code> says (1 to ${maxSeconds}).
One profile at a time.</dd>
</dl>
<pre>go tool pprof http://HOST:PORT/debug/pprof/profile?seconds=5
go tool pprof http://HOST:PORT/debug/pprof/heap</pre>
</body>
</html>
`;

function sendIndex(response: ServerResponse): void {
  response.writeHead(200, {
    'Content-Type': 'text/html; charset=utf-8',
    'Content-Length': Buffer.byteLength(index),
  });
  response.end(index);
}
