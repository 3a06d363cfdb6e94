import type { RuleText } from './read-rule-texts.ts';
import { textKind } from './text-kind.ts';

/** The rule files among the entries of a ConfigMap: `*.yaml` and `*.yml`, as a limiter reads its folder. */
export function configMapFiles(file: string, object: Readonly<Record<string, unknown>>): RuleText[] {
  if (object['apiVersion'] !== 'v1' || object['kind'] !== 'ConfigMap') return [];
  const { name, namespace } = fieldsOf(object['metadata']);
  const place = [namespace, name].filter((part) => typeof part === 'string').join('/');
  return Object.entries(fieldsOf(object['data'])).flatMap(([key, text]) => {
    if (!/\.ya?ml$/.test(key) || typeof text !== 'string' || !isRuleFile(text)) return [];
    return [{ path: `${file} ConfigMap ${place}/${key}`, text }];
  });
}

/** ConfigMaps hold the files of other programs, too: told by `descriptors`, or by `domain` in the first place. */
function isRuleFile(text: string): boolean {
  if (textKind(text) !== 'rule-file') return false;
  return (
    /^["']?descriptors["']?[ \t]*:/m.test(text) || /^(?:\s|#.*\n|---)*["']?domain["']?[ \t]*:/.test(text)
  );
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
