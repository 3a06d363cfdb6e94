import { beforeEach, describe, expect, it } from 'vitest';
import { ApiError } from './api.ts';
import { WatchProgress } from './watch-progress.ts';

let progress: WatchProgress;

beforeEach(() => {
  progress = create();
});

function create(): WatchProgress {
  return new WatchProgress({ random: () => 0, pageSize: 2, firstDelayMs: 200, maxDelayMs: 1000 });
}

const error = (status: number, reason = ''): ApiError => new ApiError({ status, reason, message: 'no' });
const away = error(0, 'Unreachable');

/** The next request: a list with its page, or a watch with its version. */
const next = (): string =>
  progress.version === undefined ? `list ${progress.pageSize}` : `watch ${progress.version}`;
const end = (problem: ApiError | undefined, lastedMs = 1): number =>
  progress.watchEnded({ error: problem, lastedMs });

describe('WatchProgress', () => {
  it('begins with a list, and continues where it ended', () => {
    expect(next()).toBe('list 2');
    progress.listed('10');
    expect(next()).toBe('watch 10');
  });

  it('waits after a failed list', () => {
    expect(progress.listFailed(away)).toBe(100);
    expect(next()).toBe('list 2');
  });

  it('asks in one piece when the pages became too old, once', () => {
    progress.listFailed(error(410));
    expect(next()).toBe('list undefined');
    progress.listFailed(away);
    expect(next()).toBe('list 2');
    progress.listFailed(error(410));
    progress.listed('10');
    progress.received('11');
    end(error(410));
    expect(next()).toBe('list 2');
  });

  it('continues at once at the last version when a watch ends in order after an event', () => {
    progress.listed('10');
    progress.received('12');
    expect([end(undefined), next()]).toEqual([0, 'watch 12']);
    expect([end(undefined), next()]).toEqual([100, 'watch 12']);
  });

  it('continues at the version before if an event has none', () => {
    progress.listed('10');
    progress.received(undefined);
    expect([end(undefined), next()]).toEqual([0, 'watch 10']);
  });

  it('continues at once after 5 s without any event, and waits when a watch ends sooner', () => {
    progress.listed('10');
    expect([end(undefined, 5_000), next()]).toEqual([0, 'watch 10']);
    expect([end(undefined, 4_999), next()]).toEqual([100, 'watch 10']);
  });

  it('continues with a lost watch at the last version', () => {
    progress.listed('10');
    progress.received('20');
    expect([end(away, 9_000), next()]).toEqual([100, 'watch 20']);
  });

  it('lists at once when a watch has expired, also during an outage', () => {
    progress.listed('10');
    progress.received('20');
    expect([end(error(410)), next()]).toEqual([0, 'list 2']);
    progress.listed('30');
    end(away);
    expect([end(error(410)), next()]).toEqual([0, 'list 2']);
  });

  it('waits when a list is expired at once, so that there is no endless loop', () => {
    progress.listed('10');
    expect([end(error(410)), next()]).toEqual([100, 'list 2']);
  });

  it.each([400, 401, 403, 404])('lists after a watch that is rejected with %i', (status) => {
    progress.listed('10');
    expect([end(error(status)), next()]).toEqual([100, 'list 2']);
  });

  it.each([
    ['the server fails', error(500)],
    ['it breaks off', error(0, 'Unreadable')],
  ])('lists after three resumed watches in vain while %s', (_, problem) => {
    progress.listed('10');
    for (const wanted of ['watch 10', 'watch 10', 'watch 10', 'list 2']) {
      end(problem);
      expect(next()).toBe(wanted);
    }
  });

  it.each([
    ['is away', away],
    ['does not answer', error(0, 'Timeout')],
    ['asks for patience', error(429)],
  ])('never lists because the server %s', (_, problem) => {
    progress.listed('10');
    for (let count = 0; count < 10; count++) {
      end(problem);
      expect(next()).toBe('watch 10');
    }
  });

  it('waits longer after each failure, up to a bound, and briefly again after a useful watch', () => {
    progress.listed('10');
    const waits = Array.from({ length: 5 }, () => end(away));
    expect([waits, progress.failures]).toEqual([[100, 200, 400, 500, 500], 5]);
    progress.received('20');
    expect([end(away), progress.failures]).toEqual([100, 1]);
  });

  it('waits as long as the server asks', () => {
    const busy = new ApiError({ status: 429, reason: '', message: 'no', retryAfterMs: 3000 });
    expect(progress.listFailed(busy)).toBe(3_000);
  });
});
