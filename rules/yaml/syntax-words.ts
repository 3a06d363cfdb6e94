import type { SyntaxProblem } from './cursor.ts';

/** What the complete parser says, and what the Go service's YAML library says of the same mistake. */
const sameMistake: [RegExp, string][] = [
  [/^deficient indentation/, 'found unexpected end of stream'],
  [/^duplication of an? (?:tag|anchor) property/, 'did not find expected node content'],
  [/^tab characters must not/, 'found a tab character that violates indentation'],
  [/^unexpected end of the stream within a (?:single|double) quoted/, 'found unexpected end of stream'],
  [/^unexpected end of the document within/, 'found unexpected document indicator'],
  [/^unexpected end of the stream within a flow collection/, "did not find expected ',' or ']'"],
  [/^missed comma between flow/, "did not find expected ',' or ']'"],
  [/^expected the node content/, 'did not find expected node content'],
  [/^expected ':' after a mapping key/, "could not find expected ':'"],
  [/^can not read a block mapping entry/, "could not find expected ':'"],
  [/^bad indentation of a sequence entry/, "did not find expected '-' indicator"],
  [/^bad indentation of a mapping entry/, 'did not find expected key'],
  [/^end of the stream or a document separator/, 'did not find expected <document start>'],
  [/^directives end mark is expected/, 'did not find expected <document start>'],
  [/^unknown escape sequence/, 'found unknown escape character'],
  [/^expected hexadecimal character/, 'did not find expected hexdecimal number'],
  [/^a line break is expected/, 'did not find expected comment or line break'],
  [/^unacceptable YAML version/, 'found incompatible YAML document'],
  [/^undeclared tag handle/, 'found undefined tag handle'],
  [/^name of an (?:alias|anchor) node/, 'did not find expected alphabetic or numeric character'],
  [/^nesting exceeded maxDepth \((\d+)\)/, 'exceeded max depth of $1'],
];

const keyIndicator = /:(?=[ \t\r\n]|$)/;

/** A syntax error found by the complete parser, in the Go service's words where it has any. */
export function explainSyntax(reason: string, offset: number, text: string): SyntaxProblem {
  const char = text.charAt(offset);
  if (reason.startsWith('bad indentation of a mapping entry')) {
    if (char === '@' || char === '`' || char === '%') {
      return { text: 'found character that cannot start any token', offset };
    }
    if (char === ':' && keyIndicator.test(text.slice(offset, offset + 2))) {
      return { text: 'mapping values are not allowed in this context', offset };
    }
  }
  if (reason.startsWith('end of the stream or a document') && char === ':') {
    return { text: 'mapping values are not allowed in this context', offset };
  }
  for (const [pattern, words] of sameMistake) {
    const match = pattern.exec(reason);
    if (match !== null) return { text: words.replace('$1', match[1] ?? ''), offset };
  }
  return { text: reason, offset };
}
