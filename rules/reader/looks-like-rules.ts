import { decodeRuleFile } from './read-rule-file.ts';

/** Whether a text is a mapping that names a domain, whatever else may be wrong with it. */
export function looksLikeRules(text: string | Uint8Array): boolean {
  if (!Buffer.from(text).includes('domain')) return false;
  const domain = decodeRuleFile({ name: '', text }).source?.domain;
  return domain !== undefined && domain !== '';
}
