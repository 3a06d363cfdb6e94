/**
 * Whether the pattern, in which each `*` stands for any text, matches the whole text. Asked of another pattern: whether it
 * matches all that this one matches.
 */
export function patternMatches(pattern: string, text: string): boolean {
  const [first = '', ...others] = pattern.split('*');
  const last = others.pop();
  if (last === undefined) return text === pattern;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last))
    return false;
  let from = first.length;
  for (const piece of others) {
    const at = text.indexOf(piece, from);
    if (at === -1) return false;
    from = at + piece.length;
  }
  return from + last.length <= text.length;
}
