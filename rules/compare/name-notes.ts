import type { Rule } from '../model.ts';
import type { Sides } from './compare-domain.ts';
import type { FieldChange } from './rule-change.ts';
import { sampleRequest } from './sample-request.ts';

/** Counters, metrics and answers that are called otherwise, or carry something else. */
export function nameNotes(
  { after, fields }: { after: readonly Rule[]; fields: readonly FieldChange[] },
  sides: Sides,
): string[] {
  const names = new Set(fields.map(({ name }) => name));
  const notes = ownNames(after, names, sides);
  if (after.at(-1)!.descriptors.length > 0) {
    if (names.has('share_threshold')) notes.push('other counter keys for the rules below it, too');
    if (names.has('value_to_metric')) notes.push('other metric names for the rules below it, too');
  }
  if (names.has('metadata')) notes.push('answers carry other dynamic metadata');
  return notes;
}

function ownNames(after: readonly Rule[], names: ReadonlySet<string>, sides: Sides): string[] {
  const notes: string[] = [];
  const sample = sampleRequest(after, sides.after);
  const was = sample === undefined ? undefined : sides.before.match(sample);
  const is = sample === undefined ? undefined : sides.after.match(sample);
  if (was === undefined || is === undefined || was.rule.unlimited || is.rule.unlimited) return notes;
  if (was.counterStem !== is.counterStem) {
    notes.push(`other counter key, so counting starts anew: ${was.counterStem} -> ${is.counterStem}`);
  } else if (names.has('unit')) {
    notes.push('another window, so counting starts anew');
  }
  if (was.metricKey !== is.metricKey) {
    notes.push(`other metric name: ${was.metricKey} -> ${is.metricKey}`);
  }
  return notes;
}
