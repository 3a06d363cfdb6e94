import type { RuleErrorCode } from '../rule-error.ts';
import type { YamlTape } from '../yaml/tape.ts';
import type { DocumentProblem } from './read-fields.ts';
import { Stage } from './read-fields.ts';

/** Collects what is wrong with a document, each with its offset and with the path on the way to it. */
export class ProblemLog {
  readonly problems: DocumentProblem[] = [];
  readonly warnings: DocumentProblem[] = [];
  /** Keys and positions that lead to the value being read. */
  readonly path: (string | number)[] = [];
  readonly #tape: YamlTape;

  constructor(tape: YamlTape) {
    this.#tape = tape;
  }

  /** Something wrong with a key of the map being read. */
  key(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.problems, node, { stage: Stage.KEYS, code, text, dress: 'plain' }, this.#tape.text(node));
  }

  /** Something accepted that has no effect. */
  warnKey(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.warnings, node, { stage: Stage.KEYS, code, text, dress: 'plain' }, this.#tape.text(node));
  }

  /** A value that the Go service refuses while it looks at the keys. */
  value(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.problems, node, { stage: Stage.KEYS, code, text, dress: 'plain' });
  }

  /** A value of the wrong type. */
  type(node: number, stage: Stage, text: string): void {
    this.#add(this.problems, node, { stage, code: 'wrong-type', text, dress: 'type' });
  }

  /** What the Go service's YAML library refuses of itself. */
  yaml(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.problems, node, { stage: Stage.DOCUMENT, code, text, dress: 'yaml' });
  }

  #add(
    list: DocumentProblem[],
    node: number,
    problem: Omit<DocumentProblem, 'offset' | 'path'>,
    key?: string,
  ): void {
    const path = key === undefined ? [...this.path] : [...this.path, key];
    list.push({ ...problem, offset: this.#tape.place(node), path });
  }
}
