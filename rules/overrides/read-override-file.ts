import { isObject } from '../model.ts';
import { formatManifestError, type RuleError, RuleErrorList } from '../rule-error.ts';
import { readDocument } from '../yaml/document.ts';
import { valuePlacer } from '../yaml/places.ts';
import { decodeYaml } from '../yaml/text.ts';
import type { Override } from './override.ts';
import { readOverride } from './read-override.ts';

export interface OverrideFileOptions {
  readonly nowMs: number;
  /** OVERRIDES_MAX_SECONDS. */
  readonly maxSeconds: number;
}

/** Whether a text is meant as a file of overrides: `overrides` stands in it where a rule file has `descriptors`. */
export function looksLikeOverrides(text: string | Uint8Array): boolean {
  const decoded = decodeYaml(text);
  return typeof decoded === 'string' && /^["']?overrides["']?[ \t]*:/m.test(decoded);
}

/** A file of `domain` and `overrides`, each with the fields of an object's `spec`. Errors have their places; `name` is the file's. */
export function readOverrideFile(
  name: string,
  text: string | Uint8Array,
  options: OverrideFileOptions,
): { overrides: Override[]; errors: RuleError[] } {
  const list = new RuleErrorList();
  const overrides: Override[] = [];
  const unplaced = { source: name, path: [], line: undefined, column: undefined };
  const decoded = decodeYaml(text);
  if (typeof decoded !== 'string') {
    list.add({ ...unplaced, code: 'syntax', text: 'is no text in UTF-8' });
    return { overrides, errors: list.errors };
  }
  const document = readDocument(decoded, 'typed');
  if (!('tape' in document)) {
    const line = decoded.slice(0, document.offset).split('\n').length;
    list.add({ ...unplaced, code: 'syntax', text: document.text, line, column: 1 });
    return { overrides, errors: list.errors };
  }
  const placeOf = valuePlacer(document.tape);
  const report = (path: readonly (string | number)[], problem: string): void => {
    const { line, column } = placeOf(path);
    list.add({
      code: 'wrong-type',
      source: name,
      text: formatManifestError({ path, text: problem }),
      path,
      line,
      column,
    });
  };
  if (document.hasMore)
    report([], 'only the first document of a file is read: put all overrides into one list');
  const fields = isObject(document.value) ? document.value : {};
  if (fields !== document.value) report([], 'must be a map with domain and overrides');
  for (const field of Object.keys(fields))
    if (field !== 'domain' && field !== 'overrides')
      report([field], 'is no field of a file of overrides: domain and overrides are');
  const { domain, overrides: given } = fields;
  if (!Array.isArray(given)) report(['overrides'], 'must be a list');
  for (const [index, one] of (Array.isArray(given) ? given : []).entries()) {
    const at = ['overrides', index];
    if (isObject(one) && Object.hasOwn(one, 'domain'))
      report([...at, 'domain'], 'stands at the top of the file, once');
    const id = `${name}:${index + 1}`;
    const reading = readOverride(isObject(one) ? { ...one, domain } : one, {
      ...{ source: 'file', id, name: id, createdMs: 0, by: '', fromMs: options.nowMs },
      ...{ maxSeconds: options.maxSeconds, refusesPast: false },
    });
    for (const { path, text: problem } of reading.problems ?? [])
      report(path[0] === 'domain' ? path : [...at, ...path], problem);
    if (reading.override !== undefined) overrides.push(reading.override);
  }
  return { overrides, errors: list.errors };
}
