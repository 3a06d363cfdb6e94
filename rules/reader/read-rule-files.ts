import { isObject, type RuleSource } from '../model.ts';
import { type RuleError, RuleErrorList } from '../rule-error.ts';
import { checkSources, type SourceCheckOptions } from '../validate-sources.ts';
import { readDocument } from '../yaml/document.ts';
import { parseYaml } from '../yaml/parse.ts';
import { LineIndex, type TextPlace, valuePlacer } from '../yaml/places.ts';
import { YamlTape } from '../yaml/tape.ts';
import { decodeYaml, type SyntaxProblem } from '../yaml/text.ts';
import type { DocumentProblem } from './document-walk.ts';
import { FollowUps } from './follow-ups.ts';
import { readRuleDocument } from './rule-file-reader.ts';

interface RuleFile {
  /** The file's name in errors. */
  name: string;
  /** The content. Bytes avoid a second copy of a large file. */
  text: string | Uint8Array;
}

/** One file as far as it can be understood by itself. */
interface DecodedFile {
  /** Undefined if the file cannot be read at all. If it has errors, the parts that could be read. */
  source: RuleSource | undefined;
  errors: RuleError[];
  warnings: RuleError[];
  /** Later problems that are consequences of these errors. */
  followUps: FollowUps;
  /** Returns the line and column of the value at a path, or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** Reads one file: syntax, keys and types. `checkSources` checks the meaning of its rules. */
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

/** Returns the places of values. It parses the text again at the first call, so that good files never need places. */
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
  /** One source for each file, in the order of the files. Empty if there is an error. */
  sources: RuleSource[];
  /** The sources with the places of their values. */
  located: { source: RuleSource; file: string; placeOf: DecodedFile['placeOf'] }[];
  /** The first is the one that the Go service would report: what cannot be read, then what makes no sense. */
  errors: RuleError[];
  /** The number of errors, listed or not. */
  errorCount: number;
  /** Values that are accepted and have no effect. */
  warnings: RuleError[];
}

/**
 * Reads and checks all files of one load in the given order, which should be that of their names. `mergeDomains`: several files
 * may add rules to one domain.
 */
export function readRuleFiles(files: readonly RuleFile[], options: SourceCheckOptions): RuleReading {
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
    located: [...bySource].map(([source, { placeOf }]) => ({ source, file: source.name, placeOf })),
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
 * Returns whether a file has tests of rules (`weir test`) and no rules. Its name decides, unless it has `descriptors`. So an
 * empty file, such as one that a shell has just created for the output of a command, is not a rule file.
 */
export function isTestFile(name: string, content: string | Uint8Array): boolean {
  if (!/\.test\.ya?ml$/.test(name)) return false;
  const text = decodeYaml(content);
  if (typeof text !== 'string') return false;
  // Most tests do not contain the word, so they are not parsed here.
  if (!text.includes('descriptors')) return true;
  const document = readDocument(text, 'texts');
  return 'tape' in document && !(isObject(document.value) && Object.hasOwn(document.value, 'descriptors'));
}
