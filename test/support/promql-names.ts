/** What an expression of Prometheus asks for: its metrics, and the labels it knows them by. Not a parser: promtool is one. */

export interface AskedMetric {
  name: string;
  /** By label: the value of an `=`, or undefined for any other comparison. */
  labels: Map<string, string | undefined>;
}

export interface AskedNames {
  metrics: AskedMetric[];
  /** Of `by`, `without`, `on`, `ignoring`, `group_left` and `group_right`. */
  grouping: Set<string>;
}

const grouping = new Set(['by', 'without', 'on', 'ignoring', 'group_left', 'group_right']);
const words = new Set(['and', 'or', 'unless', 'bool', 'offset', 'atan2', 'inf', 'nan']);
const token =
  /\s*(?:#[^\n]*|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|\[[^\]]*\]|\d[\w.]*|([a-zA-Z_:][\w:]*)|([^\s]))/y;

interface Token {
  kind: 'text' | 'name' | 'sign';
  text: string;
}

function tokensOf(expression: string): Token[] {
  const tokens: Token[] = [];
  token.lastIndex = 0;
  while (expression.slice(token.lastIndex).trim() !== '') {
    const [, text, name, sign] = token.exec(expression)!;
    if (text !== undefined) tokens.push({ kind: 'text', text: text.slice(1, -1) });
    else if (name !== undefined) tokens.push({ kind: 'name', text: name });
    else if (sign !== undefined) tokens.push({ kind: 'sign', text: sign });
  }
  return tokens;
}

export function namesIn(expression: string): AskedNames {
  const asked: AskedNames = { metrics: [], grouping: new Set() };
  const tokens = tokensOf(expression);
  for (let at = 0; at < tokens.length; at++) {
    const { kind, text } = tokens[at]!;
    const next = tokens[at + 1]?.text;
    if (kind === 'sign' && text === '{') {
      const end = endOfSelector(tokens, at);
      asked.metrics.push(...namelessMetrics(tokens.slice(at + 1, end)));
      at = end;
      continue;
    }
    if (kind !== 'name' || words.has(text.toLowerCase())) continue;
    if (grouping.has(text)) {
      if (next !== '(') continue;
      for (at += 2; tokens[at]!.text !== ')'; at++) {
        if (tokens[at]!.kind === 'name') asked.grouping.add(tokens[at]!.text);
      }
    } else if (next === '{') {
      const end = endOfSelector(tokens, at);
      asked.metrics.push({ name: text, labels: labelsIn(tokens.slice(at + 2, end)) });
      at = end;
    } else if (next !== '(' && !grouping.has(next ?? '')) {
      asked.metrics.push({ name: text, labels: new Map() });
    }
  }
  return asked;
}

function endOfSelector(tokens: readonly Token[], from: number): number {
  return tokens.findIndex((one, index) => index > from && one.kind === 'sign' && one.text === '}');
}

/** Of `{__name__=~"a|b"}`. */
function namelessMetrics(tokens: readonly Token[]): AskedMetric[] {
  const labels = labelsIn(tokens);
  labels.delete('__name__');
  const at = tokens.findIndex(({ text }) => text === '__name__');
  const names = tokens.slice(at).find(({ kind }) => kind === 'text')?.text ?? '';
  return names.split('|').map((name) => ({ name, labels }));
}

function labelsIn(tokens: readonly Token[]): AskedMetric['labels'] {
  const labels: AskedMetric['labels'] = new Map();
  for (const [at, { kind, text }] of tokens.entries()) {
    if (kind !== 'name') continue;
    const isEqual = tokens[at + 1]?.text === '=' && tokens[at + 2]?.kind === 'text';
    labels.set(text, isEqual ? tokens[at + 2]!.text : undefined);
  }
  return labels;
}
