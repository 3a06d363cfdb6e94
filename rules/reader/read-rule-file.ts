import type { RuleSource } from '../model.ts';
import type { RuleError } from '../rule-error.ts';
import type { SyntaxProblem } from '../yaml/cursor.ts';
import { LineIndex, type TextPlace } from '../yaml/line-index.ts';
import { parseYaml } from '../yaml/parse.ts';
import { PathLocator } from '../yaml/path-locator.ts';
import { YamlTape } from '../yaml/tape.ts';
import { decodeYaml } from '../yaml/text.ts';
import { FollowUps } from './follow-ups.ts';
import type { DocumentProblem } from './read-fields.ts';
import { readRuleDocument } from './read-rule-document.ts';

export interface RuleFile {
  /** How errors name it. */
  name: string;
  /** Bytes spare a large file a second copy. */
  text: string | Uint8Array;
}

/** One file as far as it can be understood on its own. */
export interface DecodedFile {
  /** Undefined when the file cannot be read at all. With errors, what is left of it. */
  source: RuleSource | undefined;
  errors: RuleError[];
  warnings: RuleError[];
  /** What goes wrong later because of these errors. */
  followUps: FollowUps;
  /** Line and column of the value at a path, or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** Reads one file: syntax, keys and types. What its rules mean is for `validateSources`. */
export function decodeRuleFile({ name, text: content }: RuleFile): DecodedFile {
  const text = decodeYaml(content);
  if (typeof text !== 'string') return undecodable(name, text, lossyText(content));
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
  let lines: LineIndex | undefined;
  let locator: PathLocator | undefined;
  return (path) => {
    lines ??= new LineIndex(text);
    if (locator === undefined) {
      const tape = parseYaml(text);
      if (!(tape instanceof YamlTape)) throw new Error('a document that was read cannot be read again');
      locator = new PathLocator(tape);
    }
    return lines.placeOf(locator.offsetOf(path));
  };
}

function lossyText(content: string | Uint8Array): string {
  return typeof content === 'string' ? content : new TextDecoder().decode(content);
}
