/**
 * Test files, `*.test.yaml`: requests and the answers that limits should give. All mistakes of a file are reported together, with line
 * and column. docs/test.md describes the format. Every scalar is read as its text, so that no value needs quotes.
 */
import { isObject } from '../../rules/model.ts';
import { fieldPath } from '../../rules/rule-error.ts';
import { readDocument } from '../../rules/yaml/document.ts';
import {
  type DocumentPath,
  LineIndex,
  type PathProblem,
  placedProblems,
  type TextPlace,
  valuePlacer,
} from '../../rules/yaml/places.ts';
import { endOfTimeMs, hintOf, readTime, UsageError } from '../shared/flags.ts';
import {
  type AskStep,
  type DecisionStep,
  type ExpectedAnswer,
  parseAnswers,
  parseDescriptors,
  parseDuration,
  parseStep,
  StepError,
} from './decision-steps.ts';

/** One test. It starts with empty counters. */
export interface RuleTest extends TextPlace {
  name: string;
  atMs: number;
  /** Undefined for the only domain of the rules. */
  domain: string | undefined;
  steps: PlacedStep[];
}

/** A step, with its place in the file. */
export type PlacedStep = DecisionStep & TextPlace;

/** A text, with its place in the file. */
export type PlacedText = TextPlace & { text: string };

export interface TestFile {
  /** Paths relative to the folder of the file; empty for the rules beside it. */
  rules: PlacedText[];
  /** Settings, each as NAME=VALUE. */
  settings: PlacedText[];
  tests: RuleTest[];
}

export type TestFileReading = TestFile | { problems: (TextPlace & { message: string })[] };

/** The time at which tests start, unless their file has `at`. */
export const defaultStart = '2026-01-01T00:00:00Z';

const fileFields = ['domain', 'rules', 'at', 'settings', 'steps', 'tests'] as const;
const testFields = ['name', 'domain', 'at', 'steps'] as const;
const stepFields = ['after', 'request', 'hits', 'expect', 'code', 'rule', 'remaining', 'headers'] as const;

type Fields<Name extends string> = Partial<Record<Name, unknown>>;

/** `name` is the name of the only test if the file names none. Never throws. */
export function readTestFile(text: string, name: string): TestFileReading {
  const document = readDocument(text, 'texts');
  if (!('tape' in document))
    return { problems: [{ ...new LineIndex(text).placeOf(document.offset), message: document.text }] };
  const reader = new TestFileReader(valuePlacer(document.tape));
  const file = reader.file(document.value, name);
  if (document.hasMore) reader.reject([], 'contains several documents, expected one');
  if (file === undefined || reader.problems.length > 0)
    return { problems: placedProblems(document.tape, reader.problems) };
  return file;
}

class TestFileReader {
  readonly problems: PathProblem[] = [];
  readonly #placeOf: (path: DocumentPath) => TextPlace;

  constructor(placeOf: (path: DocumentPath) => TextPlace) {
    this.#placeOf = placeOf;
  }

  reject(path: DocumentPath, message: string, isKey = false): undefined {
    this.problems.push({ path, message, isKey });
    return undefined;
  }

  file(value: unknown, name: string): TestFile | undefined {
    const file = this.#map([], value, fileFields, 'a file of tests');
    if (file === undefined) return undefined;
    const { domain, rules, at = defaultStart, settings = {}, steps, tests } = file;
    if ((steps === undefined) === (tests === undefined))
      this.reject([], 'a file of tests has either `steps`, or `tests` with steps each');
    const shared = { domain: this.#text(['domain'], domain), atMs: this.#time(['at'], at) };
    return {
      rules: this.#rules(rules ?? []),
      settings: this.#settings(settings),
      tests: tests === undefined ? this.#only({ name, ...shared }, steps) : this.#tests(tests, shared),
    };
  }

  /** Returns the only test of a file with steps at the top level. */
  #only(test: Pick<RuleTest, 'name' | 'domain' | 'atMs'>, steps: unknown): RuleTest[] {
    if (steps === undefined) return [];
    return [{ ...test, ...this.#placeOf(['steps']), steps: this.#steps(['steps'], steps, test.atMs) }];
  }

  #rules(value: unknown): PlacedText[] {
    if (!Array.isArray(value))
      return this.#texts(['rules'], value).map((text) => ({ text, ...this.#placeOf(['rules']) }));
    return value.flatMap((_, index) => {
      const path = ['rules', index];
      return this.#texts(path, value[index]).map((text) => ({ text, ...this.#placeOf(path) }));
    });
  }

  #settings(value: unknown): PlacedText[] {
    const map = isObject(value) ? value : {};
    if (map !== value) this.reject(['settings'], 'settings: expected a map of settings of a limiter');
    return Object.entries(map).map(([name, one]) => {
      const path = ['settings', name];
      return { text: `${name}=${this.#text(path, one) ?? ''}`, ...this.#placeOf(path) };
    });
  }

  #tests(value: unknown, shared: Pick<RuleTest, 'domain' | 'atMs'>): RuleTest[] {
    const list = this.#list(['tests'], value);
    if (Array.isArray(value) && list.length === 0)
      this.reject(['tests'], 'tests: expected at least one test');
    return list.flatMap((one, index) => {
      const path = ['tests', index];
      const test = this.#map(path, one, testFields, 'a test');
      if (test === undefined) return [];
      const { name, domain, at, steps } = test;
      if (steps === undefined) this.reject(path, 'a test has `steps`');
      const atMs = at === undefined ? shared.atMs : this.#time([...path, 'at'], at);
      return {
        ...this.#placeOf(path),
        name: this.#text([...path, 'name'], name) ?? `test ${index + 1}`,
        domain: this.#text([...path, 'domain'], domain) ?? shared.domain,
        atMs,
        steps: steps === undefined ? [] : this.#steps([...path, 'steps'], steps, atMs),
      };
    });
  }

  #steps(path: DocumentPath, value: unknown, atMs: number): PlacedStep[] {
    const before = this.problems.length;
    let nowMs = atMs;
    const steps = this.#list(path, value).flatMap((one, index) => {
      const at = [...path, index];
      const step = this.#try(at, () => (typeof one === 'string' ? parseStep(one) : this.#step(at, one)));
      if (step === undefined) return [];
      if ('afterMs' in step) {
        const isOver = nowMs >= endOfTimeMs;
        nowMs += step.afterMs;
        if (!isOver && nowMs >= endOfTimeMs) this.reject(at, 'after: leads beyond the year 9998');
      }
      return { ...step, ...this.#placeOf(at) };
    });
    if (this.problems.length === before && !steps.some((step) => 'answers' in step))
      this.reject(path, 'steps: expected at least one request with its answer');
    return steps;
  }

  #step(path: DocumentPath, value: unknown): DecisionStep | undefined {
    const step = this.#map(path, value, stepFields, 'a step');
    if (step === undefined) return undefined;
    const { after, request, ...more } = step;
    if (after !== undefined && Object.keys(step).length === 1)
      return { afterMs: parseDuration(this.#text([...path, 'after'], after) ?? '') };
    if (after !== undefined || request === undefined)
      return this.reject(path, 'a step is `after: 1m` alone, a text or a map with `request`');
    const asked = this.#texts([...path, 'request'], request).join(' + ');
    const isWhole = asked.includes(' -> ');
    const read = isWhole ? parseStep(asked) : { descriptors: parseDescriptors(asked), answers: [] };
    if ('afterMs' in read) return this.reject(path, 'a request is not `after`');
    return this.#expected(path, read, more);
  }

  /** Reads the fields beside a request, which apply to the last of its answers. */
  #expected(
    path: DocumentPath,
    step: AskStep,
    fields: Fields<(typeof stepFields)[number]>,
  ): DecisionStep | undefined {
    const { hits, expect, code, rule, remaining, headers } = fields;
    const given = [step.answers.length > 0, expect !== undefined, code !== undefined].filter(Boolean);
    if (given.length !== 1)
      return this.reject(path, 'a request has its answers once: behind `->`, in `expect` or as `code`');
    const written = this.#texts([...path, expect === undefined ? 'code' : 'expect'], expect ?? code ?? []);
    const answers = step.answers.length > 0 ? step.answers : parseAnswers(written.join(', '));
    const last = answers.at(-1)!;
    const more: Partial<ExpectedAnswer> = {
      ...(rule !== undefined && { rule: this.#text([...path, 'rule'], rule) }),
      ...(remaining !== undefined && { remaining: this.#number([...path, 'remaining'], remaining) }),
      ...(headers !== undefined && { headers: this.#headers([...path, 'headers'], headers) }),
    };
    return {
      ...step,
      hits: hits === undefined ? undefined : this.#number([...path, 'hits'], hits),
      answers: [...answers.slice(0, -1), { ...last, ...more }],
    };
  }

  #headers(path: DocumentPath, value: unknown): Map<string, string | undefined> {
    if (!isObject(value)) {
      this.reject(
        path,
        'headers: expected a map of names, each with its value, or nothing where there is none',
      );
      return new Map();
    }
    return new Map(
      Object.entries(value).map(([name, text]) => {
        const expected = this.#text([...path, name], text);
        return [name.toLowerCase(), expected === '' ? undefined : expected] as const;
      }),
    );
  }

  #time(path: DocumentPath, value: unknown): number {
    return this.#try(path, () => readTime('at', this.#text(path, value) ?? '')) ?? 0;
  }

  #number(path: DocumentPath, value: unknown): number {
    if (typeof value === 'string' && /^\d{1,15}$/.test(value)) return Number(value);
    this.reject(path, `${path.at(-1)}: expected a whole number`);
    return 0;
  }

  #text(path: DocumentPath, value: unknown): string | undefined {
    if (value === undefined || typeof value === 'string') return value;
    return this.reject(path, `${fieldPath(path)}: expected text`);
  }

  #texts(path: DocumentPath, value: unknown): string[] {
    const list = Array.isArray(value) ? value : [value];
    return list.flatMap((one) => this.#text(path, one) ?? []);
  }

  #list(path: DocumentPath, value: unknown): unknown[] {
    if (Array.isArray(value)) return value;
    this.reject(path, `${fieldPath(path)}: expected a list`);
    return [];
  }

  #map<Name extends string>(
    path: DocumentPath,
    value: unknown,
    known: readonly Name[],
    what: string,
  ): Fields<Name> | undefined {
    if (!isObject(value)) return this.reject(path, `${what} is a map with ${known.join(', ')}`);
    for (const key of Object.keys(value)) {
      if (known.some((name) => name === key)) continue;
      const hint = hintOf(key, known) || `: known are ${known.join(', ')}`;
      this.reject([...path, key], `${what} has no field "${key}"${hint}`, true);
    }
    return value as Fields<Name>;
  }

  #try<Value>(path: DocumentPath, read: () => Value): Value | undefined {
    try {
      return read();
    } catch (error) {
      if (error instanceof StepError || error instanceof UsageError) return this.reject(path, error.message);
      throw error;
    }
  }
}
