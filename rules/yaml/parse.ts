import { readComplete } from './complete.ts';
import type { SyntaxProblem } from './cursor.ts';
import { readFast } from './fast.ts';
import { YamlTape } from './tape.ts';

/** Not allowed anywhere in YAML 1.1. */
const controlCharacter =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it looks for
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u0084\u0086-\u009f\ufffe\uffff]/;

/**
 * Reads the first document of a YAML text. The fast reader takes what it is certain of; the complete parser takes
 * the rest, and confirms every mistake before it is reported.
 */
export function parseYaml(text: string): YamlTape | SyntaxProblem {
  const control = controlCharacter.exec(text);
  if (control !== null) {
    return { text: 'control characters are not allowed', offset: control.index, hasLine: false };
  }
  const fast = readFast(text);
  if (fast.tape !== undefined) return fast.tape;
  const complete = readComplete(text);
  if (complete instanceof YamlTape || fast.problem === undefined) return complete;
  return fast.problem;
}
