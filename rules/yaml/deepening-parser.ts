import { EVENT_ID, type Event, parseEvents, SCALAR_STYLE, YAMLException } from 'js-yaml';
import type { SyntaxProblem } from './cursor.ts';
import { DeepenedText } from './deepened-text.ts';
import { explainSyntax } from './syntax-words.ts';
import { maxYamlDepth } from './tape.ts';

/** Characters parsed again for lines to deepen one by one, before it is given up. */
const patience = 1 << 25;
const leastRounds = 16;

/** The events of a document, with offsets in `layout.text`. */
export interface ParsedEvents {
  events: Event[];
  layout: DeepenedText;
}

/**
 * js-yaml's events for a document. Where it refuses a line inside brackets or quotes for its indentation, the line is
 * indented deeper and the text parsed again. All lines that begin with a closing bracket are taken together, first,
 * so that usual files are parsed twice; should one of them prove to be text, it is done line by line.
 */
export function parseDeepening(document: string): ParsedEvents | SyntaxProblem {
  const plain = new DeepenedText(document);
  const first = tryToParse(plain);
  if (!isTooShallow(first)) return first;
  const closing = deepenByLine(plain.withClosingLines());
  if ('events' in closing && !closing.events.some((event) => isTextWithBrackets(event, closing.layout))) {
    return closing;
  }
  return deepenByLine(plain);
}

interface TooShallow {
  /** In the text of the layout. */
  shallowAt: number;
}

function deepenByLine(start: DeepenedText): ParsedEvents | SyntaxProblem {
  let layout = start;
  const rounds = Math.max(leastRounds, Math.floor(patience / (layout.text.length + 1)));
  for (let round = 0; ; round++) {
    const result = tryToParse(layout);
    if (!isTooShallow(result)) return result;
    if (round === rounds) {
      const text = `more than ${rounds} lines in brackets or quotes are indented less than the block around them`;
      return { text, offset: layout.sourceOffset(result.shallowAt) };
    }
    const deeper = layout.deeperAt(result.shallowAt);
    if (deeper === undefined) {
      const offset = layout.sourceOffset(result.shallowAt);
      return { text: 'found a tab character that violates indentation', offset };
    }
    layout = deeper;
  }
}

function isTooShallow(result: ParsedEvents | SyntaxProblem | TooShallow): result is TooShallow {
  return 'shallowAt' in result;
}

function tryToParse(layout: DeepenedText): ParsedEvents | SyntaxProblem | TooShallow {
  try {
    return { events: parseEvents(layout.text, { maxDepth: maxYamlDepth }), layout };
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const offset = error.mark?.position ?? 0;
    const isAtEnd = layout.text.slice(offset).trim() === '';
    if (error.reason.startsWith('deficient indentation') && !isAtEnd) return { shallowAt: offset };
    const problem = explainSyntax(error.reason, offset, layout.text);
    return { ...problem, offset: layout.sourceOffset(problem.offset) };
  }
}

/** Whether a line that begins with a closing bracket is part of a plain text or of a block's, not of a collection. */
function isTextWithBrackets(event: Event, { text }: DeepenedText): boolean {
  if (event.type !== EVENT_ID.SCALAR || event.valueStart < 0) return false;
  const isQuoted = event.style === SCALAR_STYLE.SINGLE_QUOTED || event.style === SCALAR_STYLE.DOUBLE_QUOTED;
  return !isQuoted && /(?:^|\n)[ \t]*[\]}]/.test(text.slice(event.valueStart, event.valueEnd));
}
