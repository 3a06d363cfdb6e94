/** What the limiter leaves in Redis: how long each key may live at most, by its name. docs/store.md has the same as a table. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';

export interface KeyLifetimes {
  /** Beginnings of keys that the test writes itself. Defaults to none. */
  readonly own?: readonly string[];
  /** EXPIRATION_JITTER_MAX_SECONDS. Defaults to 300, as the setting does. */
  readonly jitterSeconds?: number;
  /** BUDGET_RECORD_TTL. Defaults to 600, as the setting does. */
  readonly recordSeconds?: number;
  /** All windows are so short that no key is left a few seconds after the last request. Defaults to false. */
  readonly endsEmpty?: boolean;
}

/** A user that every server of a test has, whatever a test does to its other users. */
const inspector = { name: 'inspector', password: 'inspects' };
export const inspectorArguments: readonly string[] = [
  '--user',
  inspector.name,
  'on',
  `>${inspector.password}`,
  '~*',
  '&*',
  '+@all',
];

const second = 1;
const minute = 60;
const hour = 3_600;
const day = 86_400;
const year = 366 * day;
/** Of windows whose keys name no length, as in the Go service, the longest first. */
const units = [365 * day, 30 * day, 7 * day, day, hour, minute, second];
const calendarDays: Record<string, number> = { day: 1, week: 7, month: 31, year: 366 };
/** BUDGET_MAX_TTL. */
const longestTtlSeconds = day;
/** A clock change moves the end of a calendar's window. */
const clockChangeSeconds = hour;
const claimSlackSeconds = minute;
/** What is rounded, and the time of this check. */
const graceSeconds = 2;

/** Operators' records: one key of each, whatever callers send. */
const endless = /^weir:\{.*\}:(?:limiters|overrides|revisions)$/s;

/** The longest time to live that a key may have; undefined for one that never ends. */
export function longestLifeSeconds(
  key: string,
  { jitterSeconds = 300, recordSeconds = 600 }: KeyLifetimes = {},
): number | undefined {
  if (endless.test(key)) return undefined;
  if (/^weir:reserve(?:-due)?:|^weir:reserve-any$/.test(key))
    return 1.125 * (longestTtlSeconds + recordSeconds) + 60;
  if (key.startsWith('weir:reserve-note:')) return longestTtlSeconds + recordSeconds;
  if (key.startsWith('weir:reserve-tally:')) return 1.125 * (longestTtlSeconds + recordSeconds) + 2;
  const [, claimed] = /^weir:claim:(.*)$/s.exec(key) ?? [];
  if (claimed !== undefined) return lifeOfCounterSeconds(claimed) + claimSlackSeconds;
  const [, leased] = /^weir:lease:\{?(.*?)\}?$/s.exec(key) ?? [];
  return lifeOfCounterSeconds(leased ?? key) + jitterSeconds;
}

/** Without jitter. Of a name that says nothing about its window it is a year. */
function lifeOfCounterSeconds(key: string): number {
  const [, length, kind] = /\}(\d+):(\d+|sliding|bucket)$/.exec(key) ?? [];
  if (kind === 'sliding') return 2 * Number(length);
  if (kind !== undefined && kind !== 'bucket') return Number(length);
  const [, unit] = /\}(day|week|month|year)(?:@[^:]*)?:-?\d+$/.exec(key) ?? [];
  if (unit !== undefined) return calendarDays[unit]! * day + clockChangeSeconds;
  const [, start] = /_(\d{9,})$/.exec(key) ?? [];
  if (start !== undefined) return units.find((seconds) => Number(start) % seconds === 0)!;
  return year;
}

/** Chosen: longer than four seconds, as a sliding window of two lives, on a slow machine. */
const maxWaitMs = 15_000;

/** Throws an Error that names keys which live longer than they may, or for good. Of a replica nothing is asked. */
export async function checkKeyLifetimes(port: number, lifetimes: KeyLifetimes = {}): Promise<void> {
  const client = new Redis(port, '127.0.0.1', {
    protocol: 2,
    enableReadyCheck: false,
    retryStrategy: () => null,
    commandTimeout: 10_000,
  });
  client.on('error', () => {});
  try {
    // One that knows no AUTH lets everybody in.
    await client.call('AUTH', inspector.name, inspector.password).catch(() => {});
    const replication = await client.info('replication');
    if (/^role:slave/m.test(replication)) return;
    if (/^(?:redis|server)_mode:cluster/m.test(await client.info('server')))
      await client.config('SET', 'cluster-allow-reads-when-down', 'yes');
    const endMs = performance.now() + maxWaitMs;
    for (;;) {
      const left = await keysLeft(client, lifetimes);
      const wrong = left.filter(({ isWrong }) => isWrong);
      if (wrong.length > 0) throw new Error(`keys that live too long: ${reported(wrong)}`);
      if (lifetimes.endsEmpty !== true || left.length === 0) return;
      if (performance.now() > endMs) throw new Error(`keys are left: ${reported(left)}`);
      await sleep(100);
    }
  } finally {
    client.disconnect();
  }
}

interface LeftKey {
  readonly key: string;
  readonly lifeMs: number;
  readonly isWrong: boolean;
}

/** All keys but those of the test itself and those that may stay. */
async function keysLeft(client: Redis, lifetimes: KeyLifetimes): Promise<LeftKey[]> {
  const { own = [] } = lifetimes;
  const left: LeftKey[] = [];
  let cursor = '0';
  do {
    const [next, page] = await client.scan(cursor, 'COUNT', 1000);
    cursor = next;
    const keys = page.filter((key) => !own.some((beginning) => key.startsWith(beginning)));
    const pipeline = client.pipeline();
    for (const key of keys) pipeline.pttl(key);
    const lives = (await pipeline.exec()) ?? [];
    for (const [i, key] of keys.entries()) {
      const [error, lifeMs] = lives[i] as [Error | null, number];
      // A slot that went to another node: its keys are there.
      if (error !== null && /^(MOVED|ASK) /.test(error.message)) continue;
      if (error !== null) throw error;
      const max = longestLifeSeconds(key, lifetimes);
      if (max === undefined || lifeMs === -2) continue;
      left.push({ key, lifeMs, isWrong: lifeMs === -1 || lifeMs > (max + graceSeconds) * 1000 });
    }
  } while (cursor !== '0');
  return left;
}

function reported(left: readonly LeftKey[]): string {
  const some = left.slice(0, 5).map(({ key, lifeMs }) => `${JSON.stringify(key)} (PTTL ${lifeMs})`);
  return `${some.join(', ')}${left.length > some.length ? `, and ${left.length - some.length} more` : ''}`;
}
