import type { Entry } from '../../rules/request.ts';
import { UsageError } from '../shared/flags.ts';

/**
 * Reads one descriptor: `key=value,key2=value2`. A pair ends its key at the first `=`. A value, or a key, may stand in
 * double quotes, with \" and \\ in it, and then hold commas and anything else: `path="/a,b",user=x`.
 */
export function parseQuotedDescriptor(text: string): Entry[] {
  const reader = new DescriptorReader(text);
  return reader.entries();
}

/** Reads `key=value`, nothing in it being special but the first `=`. */
export function parseEntry(text: string): Entry {
  const end = text.indexOf('=');
  if (end < 1) throw new UsageError(`invalid value "${text}" for --entry: it is not of the form key=value`);
  return { key: text.slice(0, end), value: text.slice(end + 1) };
}

class DescriptorReader {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  entries(): Entry[] {
    const entries: Entry[] = [];
    do {
      const from = this.#at;
      const key = this.#word('=');
      if (key === '' || this.#text[this.#at] !== '=') {
        const end = this.#text.indexOf(',', from);
        this.#fail(`"${this.#text.slice(from, end === -1 ? undefined : end)}" is not of the form key=value`);
      }
      this.#at++;
      entries.push({ key, value: this.#word(',') });
      if (this.#at < this.#text.length && this.#text[this.#at] !== ',') {
        this.#fail(`after a closing quote a comma must follow, not "${this.#text[this.#at]}"`);
      }
    } while (this.#at++ < this.#text.length);
    return entries;
  }

  /** Up to the mark or the end, or what stands in quotes. */
  #word(mark: string): string {
    if (this.#text[this.#at] === '"') return this.#quoted();
    const end = this.#text.indexOf(mark, this.#at);
    const stop = end === -1 ? this.#text.length : end;
    const word = this.#text.slice(this.#at, stop);
    this.#at = stop;
    return mark === '=' && word.includes(',') ? '' : word;
  }

  #quoted(): string {
    const match = /"((?:[^"\\]|\\["\\])*)"/y;
    match.lastIndex = this.#at;
    const found = match.exec(this.#text);
    if (found === null) this.#fail('a quote is not closed, or \\ stands before something else than " and \\');
    this.#at = match.lastIndex;
    return found[1]!.replace(/\\(.)/g, '$1');
  }

  #fail(problem: string): never {
    throw new UsageError(`invalid value "${this.#text}" for --descriptors: ${problem}`);
  }
}
