/**
 * Label selectors in the syntax of the API server (`labels.Parse` of k8s.io/apimachinery): `team=a`, `team!=a`, `tier in (edge,core)`,
 * `tier notin (edge)`, `team`, `!team`, `size>3`. Objects are selected in this process, so that it sees objects that stop matching. Pure.
 */

export type Labels = Readonly<Record<string, string>>;

/** Returns whether an object has the labels. */
export type LabelSelector = (labels: Labels) => boolean;

type Parsed = { selects: LabelSelector } | { problem: string };

/** An empty text selects everything. */
export function parseLabelSelector(text: string): Parsed {
  try {
    const requirements = new SelectorParser(text).requirements();
    return { selects: (labels) => requirements.every((holds) => holds(labels)) };
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return { problem: error.message };
  }
}

/** An error in a selector, with its place. */
class SelectorError extends Error {}

const word = '[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const part = '[a-z0-9](?:[-a-z0-9]*[a-z0-9])?';
const labelKey = new RegExp(`^(?:(?=[^/]{1,253}/)${part}(?:\\.${part})*/)?${word}$`);
const labelValue = new RegExp(`^(?:${word})?$`);
/** Operators are tokens wherever they occur. The text between them and blanks is a word. */
const token = /[ \t\r\n]*(==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)?/y;
const wholeNumber = /^\d+$/;

class SelectorParser {
  readonly #tokens: string[] = [];
  #at = 0;

  constructor(text: string) {
    token.lastIndex = 0;
    for (let found = token.exec(text)?.[1]; found !== undefined; found = token.exec(text)?.[1])
      this.#tokens.push(found);
  }

  requirements(): LabelSelector[] {
    const found: LabelSelector[] = [];
    if (this.#next === undefined) return found;
    do found.push(this.#requirement());
    while (this.#takes(','));
    if (this.#next !== undefined) throw this.#unexpected("',' or the end");
    return found;
  }

  get #next(): string | undefined {
    return this.#tokens[this.#at];
  }

  #takes(sign: string): boolean {
    if (this.#next !== sign) return false;
    this.#at++;
    return true;
  }

  #requirement(): LabelSelector {
    if (this.#takes('!')) {
      const absent = this.#key();
      return (labels) => !Object.hasOwn(labels, absent);
    }
    const key = this.#key();
    const operator = this.#next;
    if (operator === undefined || operator === ',') return (labels) => Object.hasOwn(labels, key);
    this.#at++;
    switch (operator) {
      case '=':
      case '==':
        return chooses(key, [this.#value()]);
      case '!=':
        return not(chooses(key, [this.#value()]));
      case 'in':
        return chooses(key, this.#values());
      case 'notin':
        return not(chooses(key, this.#values()));
      case '<':
      case '>':
        return compares(key, operator, this.#number());
      default:
        this.#at--;
        throw this.#unexpected('one of =, ==, !=, in, notin, < and >');
    }
  }

  #key(): string {
    const key = this.#word('a key');
    if (!labelKey.test(key)) throw new SelectorError(`'${key}' is not a key of a label`);
    return key;
  }

  /** Reads one value. A missing value counts as the empty one. */
  #value(): string {
    const isEmpty = this.#next === undefined || this.#next === ',' || this.#next === ')';
    return isEmpty ? '' : this.#checked(this.#word('a value'));
  }

  #values(): string[] {
    if (!this.#takes('(')) throw this.#unexpected("'('");
    const values: string[] = [];
    do values.push(this.#value());
    while (this.#takes(','));
    if (!this.#takes(')')) throw this.#unexpected("',' or ')'");
    return values;
  }

  #number(): bigint {
    const text = this.#checked(this.#word('a whole number'));
    const number = wholeNumberOf(text);
    if (number === undefined) throw new SelectorError(`'${text}' is not a whole number`);
    return number;
  }

  #checked(value: string): string {
    if (!labelValue.test(value)) throw new SelectorError(`'${value}' is not a value of a label`);
    return value;
  }

  #word(wanted: string): string {
    const next = this.#next;
    if (next === undefined || /[=!(),<>]/.test(next)) throw this.#unexpected(wanted);
    this.#at++;
    return next;
  }

  #unexpected(wanted: string): SelectorError {
    const before = this.#at === 0 ? '' : ` after '${this.#tokens[this.#at - 1]}'`;
    const found = this.#next === undefined ? 'the end' : `'${this.#next}'`;
    return new SelectorError(`found ${found}${before} instead of ${wanted}`);
  }
}

function chooses(key: string, values: readonly string[]): LabelSelector {
  return (labels) => Object.hasOwn(labels, key) && values.includes(labels[key]!);
}

function not(selects: LabelSelector): LabelSelector {
  return (labels) => !selects(labels);
}

function compares(key: string, operator: '<' | '>', bound: bigint): LabelSelector {
  return (labels) => {
    const number = Object.hasOwn(labels, key) ? wholeNumberOf(labels[key]!) : undefined;
    return number !== undefined && (operator === '<' ? number < bound : number > bound);
  };
}

/** Reads a whole number that fits into 64 bits. */
function wholeNumberOf(text: string): bigint | undefined {
  if (!wholeNumber.test(text)) return undefined;
  const number = BigInt(text);
  return BigInt.asIntN(64, number) === number ? number : undefined;
}
