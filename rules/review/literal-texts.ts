import type { PlacedRule } from './placed-rule.ts';
import type { RuleWarning } from './rule-warning.ts';

/** Keys and values that look like something else than the texts they are. Only what is hardly meant as it stands. */
export function literalTexts(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap(({ rule, source, path }) =>
    (['key', 'value'] as const).flatMap((field): RuleWarning[] => {
      const found = field === 'value' ? lookOf(rule) : spacesAround(rule.key);
      if (found === undefined) return [];
      const text = `'${rule[field]}' ${found.look} and is taken as it is written`;
      return [{ code: 'taken-as-written', source, path: [...path, field], text, hint: found.hint }];
    }),
  );
}

interface Look {
  look: string;
  hint: string;
}

function lookOf({ key, value }: PlacedRule['rule']): Look | undefined {
  if (isCidr(value) && !/mask|cidr|net|range|prefix|block/i.test(key)) {
    const hint =
      "addresses come one by one; Envoy's masked_remote_address sends their range, for a rule of that key";
    return { look: 'looks like a range of addresses', hint };
  }
  if (regularExpression.test(value)) {
    return { look: 'looks like a regular expression', hint: '* stands for any text, all else for itself' };
  }
  return spacesAround(value);
}

function spacesAround(text: string): Look | undefined {
  if (text === text.trim()) return undefined;
  return { look: 'begins or ends with white space', hint: 'an entry has to carry the same; leave it out' };
}

const ipv4Range = /^\d{1,3}(?:\.\d{1,3}){3}\/(?:[12]?\d|3[0-2])$/;
const ipv6Range = /^(?=[^/]*:[^/]*:)[\da-f:]+\/\d{1,3}$/i;

function isCidr(value: string): boolean {
  return ipv4Range.test(value) || ipv6Range.test(value);
}

/** Its beginning, `.*` behind a slash or before an end, classes, groups: what no path or name has. */
const regularExpression =
  /^\^|\/\.[*+]|\.[*+]\$$|\\[dwsDWS](?:[+*{)]|$)|\\\.|\[\^?(?:[a-zA-Z]-[a-zA-Z]|0-9)[^\]]*\]|\(\?[:=!i]/;
