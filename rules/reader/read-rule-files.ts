import { isObject, type RuleSource } from '../model.ts';
import { type RuleError, RuleErrorList } from '../rule-error.ts';
import { type CheckOptions, checkSources } from '../validate-sources.ts';
import { readDocument } from '../yaml/document.ts';
import { parseYaml } from '../yaml/parse.ts';
import { LineIndex, type TextPlace, valuePlacer } from '../yaml/places.ts';
import { YamlTape } from '../yaml/tape.ts';
import { decodeYaml, type SyntaxProblem } from '../yaml/text.ts';
import type { DocumentProblem } from './document-walk.ts';
import { FollowUps } from './follow-ups.ts';
import { readRuleDocument } from './rule-file-reader.ts';

interface RuleFile {
  /** How errors name it. */
  name: string;
  /** Bytes spare a large file a second copy. */
  text: string | Uint8Array;
}

/** One file as far as it can be understood on its own. */
interface DecodedFile {
  /** Undefined when the file cannot be read at all. With errors, what is left of it. */
  source: RuleSource | undefined;
  errors: RuleError[];
  warnings: RuleError[];
  /** What goes wrong later because of these errors. */
  followUps: FollowUps;
  /** Line and column of the value at a path, or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** Reads one file: syntax, keys and types. What its rules mean is for `checkSources`. */
export function decodeRuleFile({ name, text: content }: RuleFile): DecodedFile {
  const text = decodeYaml(content);
  if (typeof text !== 'string')
    return undecodable(name, text, typeof content === 'string' ? content : new TextDecoder().decode(content));
  const tape = parseYaml(text);
  if (!(tape instanceof YamlTape)) return undecodable(name, tape, text);
  const { document, problems, warnings } = readRuleDocument(tape);
  const source = document === undefined ? undefined : { name, ...document };
  const describe = problemDescriber(name, text);
  return {
    source,
    errors: problems.sort((a, b) => a.stage - b.stage).map(describe),
    warnings: warnings.map(describe),
    followUps: new FollowUps(problems),
    placeOf: pathPlacer(text),
  };
}

function undecodable(source: string, problem: SyntaxProblem, content: string): DecodedFile {
  const { text, offset, hasLine = true, noticedAt = offset } = problem;
  const lines = new LineIndex(content);
  const { line, column } = lines.placeOf(offset);
  const where = hasLine ? `line ${lines.placeOf(noticedAt).line}: ` : '';
  const words = `error loading config file: yaml: ${where}${text}`;
  return {
    source: undefined,
    errors: [{ code: 'syntax', source, text: words, path: [], line, column }],
    warnings: [],
    followUps: new FollowUps([]),
    placeOf: () => ({ line, column }),
  };
}

function problemDescriber(source: string, text: string): (problem: DocumentProblem) => RuleError {
  let lines: LineIndex | undefined;
  return ({ code, text: words, dress, offset, path }) => {
    lines ??= new LineIndex(text);
    const { line, column } = lines.placeOf(offset);
    const prefix = 'error loading config file: yaml: ';
    const dressed = {
      plain: words,
      yaml: `${prefix}${words}`,
      type: `${prefix}unmarshal errors:\n  line ${line}: ${words}`,
    };
    return { code, source, text: dressed[dress], path, line, column };
  };
}

/** Parses the text again, at the first question: good files never pay for places. */
function pathPlacer(text: string): DecodedFile['placeOf'] {
  let placeOf: DecodedFile['placeOf'] | undefined;
  return (path) => {
    if (placeOf === undefined) {
      const tape = parseYaml(text);
      if (!(tape instanceof YamlTape)) throw new Error('a document that was read cannot be read again');
      placeOf = valuePlacer(tape);
    }
    return placeOf(path);
  };
}

export interface RuleReading {
  /** One for each file, in their order; none when there is an error. */
  sources: RuleSource[];
  /** Where the values of each source stand. */
  places: ReadonlyMap<RuleSource, DecodedFile['placeOf']>;
  /** The first is the one that the Go service would report: what cannot be read, then what makes no sense. */
  errors: RuleError[];
  /** How many errors there are, listed or not. */
  errorCount: number;
  /** What is accepted and has no effect. */
  warnings: RuleError[];
}

/**
 * Reads and checks all files of one load. They go by the order given, which should be that of their names. `mergeDomains`:
 * several may add rules to one domain.
 */
export function readRuleFiles(files: readonly RuleFile[], options: CheckOptions): RuleReading {
  const errors = new RuleErrorList();
  const warnings = new RuleErrorList();
  const bySource = new Map<RuleSource, DecodedFile>();
  for (const file of files) {
    const result = decodeRuleFile(file);
    for (const error of result.errors) errors.add(error);
    for (const warning of result.warnings) warnings.add(warning);
    if (result.source !== undefined) bySource.set(result.source, result);
  }
  const sources = [...bySource.keys()];
  checkSources(sources, options, (problem) => {
    const file = bySource.get(problem.source);
    if (file === undefined) return;
    if (file.followUps.includes(problem, () => isWritten(file, problem.path))) return;
    const place = errors.isFull ? undefined : file.placeOf(problem.path);
    errors.add({
      code: problem.code,
      source: problem.source.name,
      text: problem.text,
      path: problem.path,
      line: place?.line,
      column: place?.column,
    });
  });
  return {
    sources: errors.count === 0 ? sources : [],
    places: new Map([...bySource].map(([source, { placeOf }]) => [source, placeOf])),
    errors: errors.errors,
    errorCount: errors.count,
    warnings: warnings.errors,
  };
}

/** A value that is missing is placed where the map that lacks it begins. */
function isWritten(file: DecodedFile, path: readonly (string | number)[]): boolean {
  const place = file.placeOf(path);
  const map = file.placeOf(path.slice(0, -1));
  return place.line !== map.line || place.column !== map.column;
}

/** Whether a text is a mapping that names a domain, whatever else may be wrong with it. */
export function looksLikeRules(text: string | Uint8Array): boolean {
  if (!Buffer.from(text).includes('domain')) return false;
  const domain = decodeRuleFile({ name: '', text }).source?.domain;
  return domain !== undefined && domain !== '';
}

/**
 * Whether a file has tests of rules (`weir test`) and no rules: by its name, unless it has `descriptors`. So a file that is
 * empty, such as one that a shell has just made for the output of a command, is none of rules.
 */
export function isTestFile(name: string, content: string | Uint8Array): boolean {
  if (!/\.test\.ya?ml$/.test(name)) return false;
  const text = decodeYaml(content);
  if (typeof text !== 'string') return false;
  // Most tests have no such word, so they are not parsed here.
  if (!text.includes('descriptors')) return true;
  const document = readDocument(text, 'texts');
  return 'tape' in document && !(isObject(document.value) && Object.hasOwn(document.value, 'descriptors'));
}
