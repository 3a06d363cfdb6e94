/**
 * The language of rule tests and of `decisions` blocks in documents: requests and expected answers.
 *
 *     remote_address=203.0.113.7 -> OK (4 left), OK x4, OVER_LIMIT
 *     user=ann hits 600 + team=red -> OK
 *     reports=in-flight, tenant=acme hits -1 -> no limit
 *     path="/a, b" -> unlimited
 *     after 60s
 *
 * Descriptors come before the arrow, with ` + ` between them. Each has entries, with commas between them, and the hits that it adds or,
 * below 0, gives back. A key or value in double quotes may hold any character, with \" and \\ for these two. After the arrow there is
 * one answer for each time that the request is sent, in order; ` x4` stands for four equal answers.
 */
import type { Descriptor } from '../../limiter/decide/messages.ts';
import type { Entry } from '../../rules/model.ts';
import { hintOf } from '../shared/flags.ts';

/** `OK`: a limit applies and has room. */
export const answerCodes = ['OK', 'OVER_LIMIT', 'no limit', 'unlimited'] as const;
export type AnswerCode = (typeof answerCodes)[number];

export interface ExpectedAnswer {
  code: AnswerCode;
  /** Hits left in the tightest limit of the request. */
  remaining?: number | undefined;
  /** The rule that decides, as `/rlconfig` names it. */
  rule?: string | undefined;
  /** Headers by name, in upper or lower case; undefined: the answer must not have the header. */
  headers?: ReadonlyMap<string, string | undefined> | undefined;
}

/** A request that is sent once for each answer. */
export interface AskStep {
  descriptors: Descriptor[];
  /** The hits of the request, if the step names them. */
  hits?: number | undefined;
  answers: ExpectedAnswer[];
}

export type DecisionStep = { afterMs: number } | AskStep;

/** An error in a text of this language. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

/** Reads the steps of a `decisions` block, one on each line. Comments begin with `#`. */
export function parseDecisions(text: string): { line: string; step: DecisionStep }[] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({ line, step: parseStep(line) }));
}

/** Reads one line. @throws StepError */
export function parseStep(line: string): DecisionStep {
  const time = /^after (\S+)$/.exec(line)?.[1];
  if (time !== undefined) return { afterMs: parseDuration(time) };
  const [asked, answered, ...more] = new QuotedText(line).split(' -> ');
  if (asked === undefined || answered === undefined || more.length > 0)
    throw new StepError(`${JSON.stringify(line)} is not of the form key=value -> OK x2, OVER_LIMIT`);
  return { descriptors: descriptorsOf(asked), answers: parseAnswers(answered.text) };
}

/** Reads the part before the arrow. @throws StepError */
export function parseDescriptors(text: string): Descriptor[] {
  return descriptorsOf(new QuotedText(text));
}

const answer = /^(OK|OVER_LIMIT|no limit|unlimited)(?: \((\d+) left\))?(?: x(0*[1-9]\d{0,4}))?$/;

/** Reads the part after the arrow. @throws StepError */
export function parseAnswers(text: string): ExpectedAnswer[] {
  return text.split(',').flatMap((one) => {
    const [, code, left, times = 1] = answer.exec(one.trim()) ?? [];
    if (code === undefined) throw new StepError(answerProblem(one.trim()));
    const remaining = left === undefined ? undefined : Number(left);
    return Array.from({ length: Number(times) }, () => ({ code: code as AnswerCode, remaining }));
  });
}

function answerProblem(text: string): string {
  const [, code = text, more] = /^(.*?)( [(x].*)?$/s.exec(text) ?? [];
  const isKnown = answerCodes.some((known) => known === code);
  if (isKnown && /^ x0+$/.test(more ?? '')) return `"${text}" expects nothing: write x1 or more`;
  const hint = isKnown ? '' : hintOf(code, answerCodes);
  return `"${text}": expected one of ${answerCodes.join(', ')}, also as OK (2 left) or OK x3${hint}`;
}

const msOf = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Reads a duration such as `90s`, `1m30s`, `0.5s` or `2d`. @throws StepError */
export function parseDuration(text: string): number {
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== text)
    throw new StepError(`"${text}" is no length of time such as 1m, 90s, 1h30m or 2d`);
  return Math.round(
    parts.reduce((sum, [, count, unit]) => sum + Number(count) * msOf[unit as keyof typeof msOf], 0),
  );
}

const quotedWord = /(?<=^|=|,| \+ |, )"((?:[^"\\]|\\["\\])*)"(?=[=, ]|$)/g;
const misquoted = /(?<=^|=|,| \+ |, )"(?:((?:[^"\\]|\\.)*)")?/s;

/** A text whose quoted parts contain no separators. */
class QuotedText {
  readonly text: string;
  readonly #words: readonly string[];

  constructor(text: string, words?: readonly string[]) {
    if (words !== undefined) {
      this.text = text;
      this.#words = words;
      return;
    }
    const held: string[] = [];
    this.text = text.replaceAll('\0', '').replace(quotedWord, (_, word: string) => {
      return `\0${held.push(word.replace(/\\(.)/g, '$1')) - 1}\0`;
    });
    this.#words = held;
    const [found, inner] = misquoted.exec(this.text) ?? [];
    if (found !== undefined) throw new StepError(quoteProblem(inner));
  }

  split(separator: string | RegExp): QuotedText[] {
    return this.text.split(separator).map((part) => new QuotedText(part, this.#words));
  }

  get trimmed(): QuotedText {
    return new QuotedText(this.text.trim(), this.#words);
  }

  /** The text without quotes and escapes. */
  get plain(): string {
    return this.text.replace(/\0(\d+)\0/g, (_, index: string) => this.#words[Number(index)]!);
  }
}

/** `inner`: a quoted word that cannot be read; undefined if its quote is not closed. */
function quoteProblem(inner: string | undefined): string {
  if (inner === undefined) return 'a double quote is not closed';
  const [, pair] = /^(?:[^\\]|\\["\\])*(\\.)/s.exec(inner) ?? [];
  if (pair === undefined) return `text follows the closing quote of "${inner}"`;
  return `${pair} is not known in double quotes: only \\" and \\\\ are`;
}

function descriptorsOf(text: QuotedText): Descriptor[] {
  return text.split(' + ').map((one) => {
    const [listed, hits, ...more] = one.trimmed.split(/ hits(?: |$)/);
    if (listed === undefined || more.length > 0) throw new StepError('a descriptor has hits once');
    const entries = listed.split(',').map(entryOf);
    const number = hits === undefined ? undefined : hitsOf(hits.text.trim());
    return {
      entries,
      limit: undefined,
      hitsAddend: number === undefined ? undefined : Math.abs(number),
      isNegativeHits: number !== undefined && number < 0,
    };
  });
}

function hitsOf(text: string): number {
  if (/^-?\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text);
  throw new StepError(
    `hits: expected a whole number, not "${text}"; put a value with " hits" in double quotes`,
  );
}

function entryOf(text: QuotedText): Entry {
  const [key, ...values] = text.trimmed.split('=');
  if (key === undefined || key.text === '' || values.length === 0)
    throw new StepError(
      `"${text.plain}" is not of the form key=value; put a value with a comma in double quotes`,
    );
  return { key: key.plain, value: values.map(({ plain }) => plain).join('=') };
}

/** Formats descriptors, with quotes where needed. */
export function descriptorsText(descriptors: readonly Descriptor[]): string {
  return descriptors
    .map(({ entries, hitsAddend, isNegativeHits }) => {
      const hits = hitsAddend === undefined ? '' : ` hits ${isNegativeHits ? '-' : ''}${hitsAddend}`;
      return (
        entries.map(({ key, value }) => `${word(key, /[\s",=]/)}=${word(value, /[\s",]/)}`).join(', ') + hits
      );
    })
    .join(' + ');
}

function word(text: string, special: RegExp): string {
  return special.test(text) ? `"${text.replace(/["\\]/g, '\\$&')}"` : text;
}

/** Formats answers, for example `OK x2, OVER_LIMIT`: equal answers in a row are joined. */
export function answersText(answers: readonly ShownAnswer[]): string {
  const runs: { text: string; times: number }[] = [];
  for (const answer of answers) {
    const text = answerText(answer);
    const last = runs.at(-1);
    if (last?.text === text) last.times += 1;
    else runs.push({ text, times: 1 });
  }
  return runs.map(({ text, times }) => (times === 1 ? text : `${text} x${times}`)).join(', ');
}

type ShownAnswer = Partial<Omit<ExpectedAnswer, 'code'>> & { code?: string; problem?: string };

function answerText({ code = '', remaining, rule, headers = new Map(), problem }: ShownAnswer): string {
  const more = [
    ...(rule === undefined ? [] : [`rule ${rule}`]),
    ...Array.from(headers, ([name, value]) => `${name}: ${value ?? '(none)'}`),
    ...(problem === undefined ? [] : [problem]),
  ];
  const left = remaining === undefined ? '' : ` (${remaining} left)`;
  return `${code}${left}${more.length === 0 ? '' : ` [${more.join('; ')}]`}`;
}
