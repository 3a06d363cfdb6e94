import { UsageError } from '../shared/flags.ts';

/** Every kind of warning that a check knows. */
export const warningKinds = [
  'never-matches',
  'shadowed-wildcard',
  'no-effect',
  'no-rules',
  'replaces-nothing',
  'replaces-unlimited',
  'replaces-each-other',
  'limit-of-zero',
  'taken-as-written',
  'dotted-metric',
  'meeting-counters',
  'duplicate-domain',
  'duplicate-object',
  'unread-document',
  'passed-over',
  'misplaced-key',
  'duplicate-key',
  'unreadable',
] as const;

/** The kinds that `--allow` names, separated by commas. @throws UsageError */
export function allowedKinds(values: readonly string[]): ReadonlySet<string> {
  const names = values.flatMap((value) => value.split(',')).map((name) => name.trim());
  for (const name of names) {
    if (warningKinds.some((kind) => kind === name)) continue;
    throw new UsageError(`--allow: there is no warning "${name}"; there are ${warningKinds.join(', ')}`);
  }
  return new Set(names);
}
