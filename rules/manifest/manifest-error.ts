import type { RuleError } from '../rule-error.ts';

/** `spec.descriptors[0].key: descriptor has empty key`; the text alone for an error of the whole. */
export function formatManifestError({ path, text }: Pick<RuleError, 'path' | 'text'>): string {
  return path.length === 0 ? text : `${fieldPath(path)}: ${text}`;
}

/** A path as the API server writes it: `spec.descriptors[0].key`. */
export function fieldPath(path: readonly (string | number)[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}
