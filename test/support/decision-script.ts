/**
 * The language of `decisions` blocks in documents, which say what is asked and what is answered:
 *
 *     remote_address=203.0.113.7 -> OK (4 left), OK x4, OVER_LIMIT
 *     user=ann hits 600 + team=red -> OK
 *     reports=in-flight, tenant=acme hits -1 -> OK
 *     after 60s
 *     # a comment
 *
 * Before the arrow stand descriptors between ` + `, each with its entries between commas and the hits that it adds (or,
 * below 0, gives back). Behind it stands one outcome for each time that this is asked, in order; ` x4` is four of them.
 */
import type { JsonAnswer } from './in-process-limiter.ts';

export interface AskedDescriptor {
  entries: { key: string; value: string }[];
  hitsAddend?: string;
  isNegativeHits?: boolean;
}

export type DecisionStep =
  | { line: string; afterMs: number }
  | { line: string; descriptors: AskedDescriptor[]; outcomes: string[] };

export function parseDecisions(text: string): DecisionStep[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map(parseLine);
}

function parseLine(line: string): DecisionStep {
  const seconds = /^after (\d+)s$/.exec(line)?.[1];
  if (seconds !== undefined) return { line, afterMs: Number(seconds) * 1000 };
  const [asked, answered, more] = line.split(' -> ');
  if (asked === undefined || answered === undefined || more !== undefined)
    throw new Error(`not a decision: ${line}`);
  return {
    line,
    descriptors: asked.split(' + ').map(parseDescriptor),
    outcomes: answered.split(', ').flatMap(repeated),
  };
}

function parseDescriptor(text: string): AskedDescriptor {
  const [, listed = '', hits] = /^(.*?)(?: hits (-?\d+))?$/.exec(text.trim()) ?? [];
  const entries = listed.split(', ').map((pair) => {
    const [, key, value] = /^([^=]+)=(.*)$/.exec(pair) ?? [];
    if (key === undefined || value === undefined) throw new Error(`not an entry: ${pair}`);
    return { key, value };
  });
  if (hits === undefined) return { entries };
  return hits.startsWith('-')
    ? { entries, hitsAddend: hits.slice(1), isNegativeHits: true }
    : { entries, hitsAddend: hits };
}

function repeated(outcome: string): string[] {
  const [, what = '', times] = /^(.*?)(?: x(\d+))?$/.exec(outcome.trim()) ?? [];
  if (!/^(OK( \(\d+ left\))?|OVER_LIMIT|no limit|unlimited)$/.test(what))
    throw new Error(`not an outcome: ${outcome}`);
  return Array.from({ length: Number(times ?? 1) }, () => what);
}

const unlimitedRemaining = 4_294_967_295;

/** Whether an answer is what the outcome says. `OK` says nothing of what is left. */
export function describeAnswer(answer: JsonAnswer, expected: string): string {
  const { overallCode, statuses = [] } = answer.body ?? {};
  if (overallCode !== 'OK') return overallCode ?? `status ${answer.status}: ${answer.error}`;
  const all = statuses as { currentLimit?: unknown; limitRemaining?: number }[];
  if (all.every(({ currentLimit }) => currentLimit === undefined)) {
    const isUnlimited = all.every(({ limitRemaining }) => limitRemaining === unlimitedRemaining);
    return isUnlimited ? 'unlimited' : 'no limit';
  }
  return /left/.test(expected) ? `OK (${all[0]?.limitRemaining ?? 0} left)` : 'OK';
}
