import { bounds } from './bounds.ts';

/** Why a value cannot be the metadata of a rule: it is no JSON, or nested too deeply. Undefined when it can. */
export function jsonProblem(value: unknown, levelsLeft: number = bounds.metadataLevels): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return undefined;
    case 'object':
      break;
    default:
      return `must hold JSON values only, found a ${typeof value}`;
  }
  if (value === null) return undefined;
  if (levelsLeft === 0) return `must nest objects and lists at most ${bounds.metadataLevels} levels deep`;
  for (const member of Object.values(value)) {
    const problem = jsonProblem(member, levelsLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
