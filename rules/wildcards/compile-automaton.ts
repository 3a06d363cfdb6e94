import { UnitList, WordList } from '../bytes/compile-lists.ts';
import { State } from '../bytes/rule-table-format.ts';
import { childState } from './wildcard-automaton.ts';

/** A text to find, and the number it is reported by. */
export interface Literal {
  text: string;
  id: number;
}

/** Builds Aho-Corasick automata one after another into shared lists of states and labels. */
export class AutomatonCompiler {
  readonly states = new WordList();
  readonly labels = new UnitList();

  /** The root of a new automaton over distinct, non-empty literals. */
  add(literals: readonly Literal[]): number {
    const sorted = literals.toSorted((a, b) => (a.text < b.text ? -1 : 1));
    const root = this.#count();
    // Which of the sorted literals go through a state, by its distance from the root's number.
    const first = new WordList();
    const end = new WordList();
    this.#push({ label: 0, fail: root, shorterEnd: -1, literal: -1 });
    first.push(0);
    end.push(sorted.length);
    let depth = 0;
    let lastOfDepth = root;
    for (let state = root; state < this.#count(); state++) {
      if (state > lastOfDepth) {
        depth++;
        lastOfDepth = this.#count() - 1;
      }
      const stop = end.words[state - root]!;
      this.states.words[state * State.words + State.firstChild] = this.#count();
      let i = first.words[state - root]!;
      if (sorted[i]!.text.length === depth) i++;
      while (i < stop) {
        const label = sorted[i]!.text.charCodeAt(depth);
        let next = i + 1;
        while (next < stop && sorted[next]!.text.charCodeAt(depth) === label) next++;
        const ends = sorted[i]!.text.length === depth + 1;
        this.#addChild({ root, parent: state, label, literal: ends ? sorted[i]!.id : -1 });
        first.push(i);
        end.push(next);
        i = next;
      }
    }
    // Ends the children of the last state; belongs to no automaton.
    this.#push({ label: 0, fail: root, shorterEnd: -1, literal: -1 });
    return root;
  }

  #count(): number {
    return this.labels.length;
  }

  #addChild(child: { root: number; parent: number; label: number; literal: number }): void {
    const { root, parent, label, literal } = child;
    let fail = root;
    for (let state = parent; state !== root && fail === root; ) {
      state = this.states.words[state * State.words + State.fail]!;
      const known = childState(this.states.words, this.labels.units, state, label);
      if (known >= 0) fail = known;
    }
    const words = this.states.words;
    const failEnds = words[fail * State.words + State.literal]! >= 0;
    const shorterEnd = failEnds ? fail : words[fail * State.words + State.shorterEnd]!;
    this.#push({ label, fail, shorterEnd, literal });
  }

  #push(state: { label: number; fail: number; shorterEnd: number; literal: number }): void {
    // A state without children, until its turn comes.
    this.states.push(this.labels.length);
    this.states.push(state.fail);
    this.states.push(state.shorterEnd);
    this.states.push(state.literal);
    this.labels.push(state.label);
  }
}
