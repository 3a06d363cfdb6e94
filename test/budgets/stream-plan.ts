/** What streams of answers of a language model cost, and whose budgets they are charged to. Follows from the seed alone. */
import { seededRandom } from '../../bench/zipf.ts';

export const domain = 'budgets';

/** An entry of a descriptor; each stream has one of every key. */
export interface Scope {
  key: string;
  value: string;
}

export interface StreamPlan {
  /** Of its reservation. */
  id: string;
  scopes: readonly Scope[];
  /** Tokens: what it may cost, and what it does. */
  estimate: number;
  actual: number;
  beginMs: number;
  lastsMs: number;
  /** Whether it never says what it cost, or says it twice. */
  dies: boolean;
  isTwice: boolean;
}

export interface LoadShape {
  seed: number;
  streams: number;
  /** All begin within so long. */
  withinMs: number;
  /** The shortest and the longest. */
  lastMs: readonly [number, number];
}

/** How many budgets there are of each kind, and how many tokens of one stream each has: fewer than the 760 that are asked for. */
const kinds = [
  { key: 'model', budgets: 1, tokensPerStream: 600 },
  { key: 'team', budgets: 10, tokensPerStream: 620 },
  { key: 'user', budgets: 100, tokensPerStream: 650 },
] as const;

const meanEstimate = 1000;

export function planStreams({ seed, streams, withinMs, lastMs: [min, max] }: LoadShape): StreamPlan[] {
  const random = seededRandom(seed);
  return Array.from({ length: streams }, (_, index) => {
    const estimate = 100 + Math.floor(random() * (2 * (meanEstimate - 100) + 1));
    // One in ten costs more than was estimated; all together 0.8 of it.
    const part = random() < 0.1 ? 1 + random() / 2 : 0.5 + random() / 2;
    const chance = random();
    return {
      id: `stream-${index}`,
      scopes: kinds.map(({ key, budgets }) => ({ key, value: String(Math.floor(random() * budgets)) })),
      estimate,
      actual: Math.round(part * estimate),
      beginMs: random() * withinMs,
      lastsMs: min + random() * (max - min),
      dies: chance < 0.05,
      isTwice: chance >= 0.98,
    };
  });
}

/** Tokens of one budget, for so many streams. */
export function limitOf(key: string, streams: number): number {
  const kind = kinds.find((one) => one.key === key);
  if (kind === undefined) throw new Error(`no budget is for a ${key}`);
  return Math.round((kind.tokensPerStream * streams) / kind.budgets);
}

/** In windows that do not turn during a run. */
export function rulesFor(streams: number): string {
  const rules = kinds.map(
    ({ key }) =>
      `  - key: ${key}\n    rate_limit: { unit: year, requests_per_unit: ${limitOf(key, streams)}, hits_unit: tokens }\n`,
  );
  return `domain: ${domain}\ndescriptors:\n${rules.join('')}`;
}

/** As the counter's key begins in the store; what follows is the start of the window. */
export function counterName({ key, value }: Scope): string {
  return `${domain}_${key}_${value}`;
}

/** All budgets that there are. */
export const scopes: readonly Scope[] = kinds.flatMap(({ key, budgets }) =>
  Array.from({ length: budgets }, (_, value) => ({ key, value: String(value) })),
);
