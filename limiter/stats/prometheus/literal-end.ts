/**
 * Text that whatever an expression matches ends with, where that is plain to see: comparing it is a hundredth of the
 * work of the expression. Empty where nothing is certain.
 */
export function literalEnd(expression: string): string {
  // Alternatives, flags, quotes and escapes of other characters may mean something else than they look like.
  if (/\||\(\?(?!:|P?<)|\\[^.dwsDWS]/.test(expression)) return '';
  const end = /(?<![\\\w])(?:\\\.|\w)*\$$/.exec(expression)?.[0] ?? '';
  return end.slice(0, -1).replaceAll('\\.', '.');
}
