/** Files for people in which every scalar is a text, so that nothing has to be quoted: profiles and callers. */
import { readDocument, type YamlDocument } from './document.ts';
import { LineIndex, type PathProblem, placedProblems, type TextPlace } from './places.ts';
import type { YamlTape } from './tape.ts';

/** The size that the limiter reads of a file that it follows, in bytes. */
const mostBytes = 262_144;

/** Places count from 1. */
export interface TextFileProblem extends TextPlace {
  message: string;
}

/** `read` makes a value of the document, which counts where it adds no problem. Never throws. */
export function readTextFile<Value>(
  text: string,
  read: (document: YamlDocument, problems: PathProblem[]) => Value,
): { value: Value; tape: YamlTape; problems?: undefined } | { problems: TextFileProblem[] } {
  if (Buffer.byteLength(text) > mostBytes)
    return { problems: [{ line: 1, column: 1, message: `is larger than ${mostBytes} bytes` }] };
  const document = readDocument(text, 'texts');
  if (!('tape' in document))
    return { problems: [{ ...new LineIndex(text).placeOf(document.offset), message: document.text }] };
  const problems: PathProblem[] = [];
  const value = read(document, problems);
  const { tape } = document;
  return problems.length > 0 ? { problems: placedProblems(tape, problems) } : { value, tape };
}
