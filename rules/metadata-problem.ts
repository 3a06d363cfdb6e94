import type { JsonValue } from './model.ts';

/** Why metadata cannot be a google.protobuf.Struct, or undefined when it can. */
export function metadataProblem(value: JsonValue, place = ''): string | undefined {
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : `number ${value} at '${place}' has no JSON form`;
  }
  if (typeof value === 'string') return textProblem(value, place);
  if (value === null || typeof value !== 'object') return undefined;
  for (const [key, member] of Object.entries(value)) {
    const here = place === '' ? key : `${place}.${key}`;
    const problem = textProblem(key, here) ?? metadataProblem(member, here);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function textProblem(text: string, place: string): string | undefined {
  return text.isWellFormed() ? undefined : `text at '${place}' is not valid Unicode`;
}
