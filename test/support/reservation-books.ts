/**
 * What Redis holds about reservations has to agree with itself (limiter/stores/redis/lua/reservation-records.ts). Wrong sums, times and
 * lines show in answers only much later.
 */
import type { Redis } from 'ioredis';

export interface BookOptions {
  recordMs: number;
  /** By the clock of the scripts. */
  nowMs: number;
  /** Whether that is the clock by which keys end, too. */
  isClockOfServer: boolean;
}

interface StoredRecord {
  state: string;
  tail: string;
  taken: number;
  due: number;
  /** Whether the fast path settled it, which leaves it among the open ones until they are swept. */
  isSettledInPlace: boolean;
}

/** Scores of records that are not open are higher by this number. */
const closed = 2 ** 52;
const anyReservedKey = 'weir:reserve-any';
/** Between the script and this check. */
const graceMs = 30_000;

/** One sentence for each thing that does not agree. `pattern` names hashes as KEYS does. */
export async function bookProblems(
  client: Redis,
  options: BookOptions,
  pattern = 'weir:reserve:*',
): Promise<string[]> {
  const hashes = await client.keys(pattern);
  const found = await Promise.all(hashes.map((hash) => problemsOf(client, hash, options)));
  return found.flatMap((problems, i) => problems.map((problem) => `${hashes[i]}: ${problem}`));
}

async function problemsOf(client: Redis, hash: string, options: BookOptions): Promise<string[]> {
  const set = hash.replace('weir:reserve:', 'weir:reserve-due:');
  const [fields, head, members, hashLifeMs, setLifeMs, anyLifeMs] = await Promise.all([
    client.hgetall(hash),
    client.hgetBuffer(hash, 'h'),
    client.zrange(set, '0', '-1', 'WITHSCORES'),
    client.pttl(hash),
    client.pttl(set),
    options.isClockOfServer ? client.pttl(anyReservedKey) : 0,
  ]);
  // It ended meanwhile, or was never any.
  if (Object.keys(fields).length === 0) return [];
  if (head === null) return ['has no head'];
  const problems: string[] = [];
  const expectSame = (what: string, stored: unknown, recomputed: unknown): void => {
    if (stored !== recomputed) problems.push(`${what} is ${stored}, and should be ${recomputed}`);
  };
  const expectMost = (what: string, stored: number, max: number): void => {
    if (stored > max) problems.push(`${what} is ${stored}, and should be at most ${max}`);
  };
  const [window, count, taken, due, forget, ends, others] = [0, 1, 2, 3, 4, 5, 6].map((i) =>
    head.readDoubleLE(8 * i),
  ) as [number, number, number, number, number, number, number];
  const records = new Map<string, StoredRecord>();
  for (const [name, text] of Object.entries(fields)) {
    if (/^(?:p|\d+[:;!])/.test(name)) records.set(name, recordOf(text));
  }
  const scores = new Map<string, number>();
  for (let i = 0; i < members.length; i += 2) scores.set(members[i]!, Number(members[i + 1]));

  const open = [...records.values()].filter(({ state }) => state === 'o');
  const inWindow = (tail: string): StoredRecord[] => open.filter((record) => record.tail === tail);
  const takenBy = (some: readonly StoredRecord[]): number => some.reduce((sum, one) => sum + one.taken, 0);
  const headTail = window === -1 ? '' : window === -2 ? '-' : String(window);
  const atHead = inWindow(headTail);
  expectSame('the number of open records', count, atHead.length);
  expectSame('what they took', taken, takenBy(atHead));
  const otherTails = new Set(open.map(({ tail }) => tail).filter((tail) => tail !== headTail));
  const named = Object.keys(fields).filter((name) => name.startsWith('o'));
  expectSame(
    'the list of other windows',
    named.sort().join(),
    [...otherTails]
      .map((tail) => `o${tail}`)
      .sort()
      .join(),
  );
  for (const tail of otherTails) {
    const its = inWindow(tail);
    expectSame(`window ${tail}`, fields[`o${tail}`], `${its.length} ${takenBy(its)}`);
    expectMost(`window ${tail}`, Number(tail), window);
  }
  const lines = Object.keys(fields).filter((name) => name.startsWith('m'));
  expectSame('the number of lines and others', others, lines.length + open.length - atHead.length);

  expectSame('the list by time', [...scores.keys()].sort().join(), [...records.keys()].sort().join());
  for (const [name, record] of records) {
    const score = scores.get(name) ?? Number.NaN;
    const isOpen = record.state === 'o' || (record.isSettledInPlace && score < closed);
    expectSame(`whether ${name} is among the open ones`, score < closed, isOpen);
    if (isOpen) {
      expectSame(`the time of ${name}`, score, record.due);
      if (record.state === 'o') expectMost('the next time', due, record.due);
      expectMost(`the end of ${name}`, record.due + options.recordMs, ends);
      continue;
    }
    const until = score - closed;
    expectMost(`the time to forget anything, for ${name}`, forget, until);
    expectMost(`the end of ${name}`, until, ends);
    const min = record.due + (/^\d+!/.test(name) ? 0 : options.recordMs);
    expectMost(`the least time of ${name}`, min, until);
    if (record.state !== 's' && record.state !== 'e') expectSame(`the time of ${name}`, until, min);
    else expectMost(`the time of ${name}`, until, Math.max(min, options.nowMs + options.recordMs));
  }

  const markers = [...records.keys()].flatMap((name) => /^(\d+)([:;!].*)$/s.exec(name) ?? []);
  const byLine = new Map<string, number[]>();
  for (let i = 0; i < markers.length; i += 3)
    byLine.set(markers[i + 2]!, [...(byLine.get(markers[i + 2]!) ?? []), Number(markers[i + 1])]);
  for (const line of new Set([...byLine.keys(), ...lines.map((name) => name.slice(1))])) {
    const numbers = byLine.get(line) ?? [];
    const stored = fields[`m${line}`];
    const [first, next] = stored?.split(' ').map(Number) ?? [0, 1];
    expectSame(`the first of ${line}`, Math.min(...numbers), first);
    expectMost(`the last of ${line}`, Math.max(...numbers), next! - 1);
  }
  const empty = [...records.keys()].filter((name) => /^\d+!/.test(name));
  expectSame('the number of markers that hold nothing', Number(fields['l'] ?? 0), empty.length);
  if (fields['g'] !== undefined) {
    const returnable = [...records.values()].filter(({ state }) => state === 'o' || state === 'c');
    expectSame('what may be given back', Number(fields['g'].split(' ')[0]), takenBy(returnable));
  }

  if (options.isClockOfServer) {
    const life = ends - options.nowMs;
    const expectLife = (what: string, lifeMs: number): void => {
      if (Math.abs(lifeMs - life) > graceMs) problems.push(`${what} ends in ${lifeMs} ms instead of ${life}`);
    };
    expectLife('the hash', hashLifeMs);
    if (scores.size > 0) expectLife('the set', setLifeMs);
    if (open.length > 0) expectMost('the life of the set', setLifeMs, anyLifeMs + graceMs);
  }
  return problems;
}

function recordOf(text: string): StoredRecord {
  const settled = /^s\d+ (o.*)$/s.exec(text);
  const record = /^([a-z])[rc](\d*) (\d+) \d+ (\d+) \d+ \d+(?: (\d+) .*)?$/s.exec(settled?.[1] ?? text);
  if (record === null) throw new Error(`no record: ${text}`);
  const [, state, tail, amount, due, taken = amount] = record;
  return {
    state: settled === null ? state! : 's',
    tail: tail!,
    taken: settled === null ? Number(taken) : 0,
    due: Number(due),
    isSettledInPlace: settled !== null,
  };
}
