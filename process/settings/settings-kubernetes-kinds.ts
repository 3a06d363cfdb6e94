/** Kinds of values that Kubernetes has a syntax for. Selectors are checked so far that the API server will take them. */
import { z } from 'zod';
import type { SettingKind } from './settings-kinds.ts';

const label = '[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?';
const subdomain = `${label}(\\.${label})*`;
const word = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?';
const labelKey = `((?=[^/]{1,253}/)${subdomain}/)?${word}`;
const labelValue = `(${word})?`;
const requirements = [
  `!?\\s*${labelKey}`,
  `${labelKey}\\s*(=|==|!=)\\s*${labelValue}`,
  `${labelKey}\\s+(in|notin)\\s*\\(\\s*${labelValue}\\s*(,\\s*${labelValue}\\s*)*\\)`,
];
const requirement = new RegExp(`^\\s*(${requirements.join('|')})\\s*$`);

/** RFC 1123 label: what namespaces are called, and fleets. Empty where the program finds one by itself. */
export function dnsLabel({ mayBeEmpty = false }: { mayBeEmpty?: boolean } = {}): SettingKind<string> {
  return {
    expected: `up to 63 of a-z, 0-9 and -, neither first nor last of them -${orEmpty(mayBeEmpty)}`,
    brief: `DNS label${orEmpty(mayBeEmpty)}`,
    schema: z.string().regex(new RegExp(`^(${label})${mayBeEmpty ? '?' : ''}$`)),
    format: (value) => value,
  };
}

/** What objects are called. */
export function objectName(options: { maxLength: number; mayBeEmpty: boolean }): SettingKind<string> {
  const { maxLength, mayBeEmpty } = options;
  return {
    expected: `up to ${maxLength} of a-z, 0-9, - and ., with a letter or digit at both ends of each part${orEmpty(mayBeEmpty)}`,
    brief: `object name${orEmpty(mayBeEmpty)}`,
    schema: z
      .string()
      .max(maxLength)
      .regex(new RegExp(`^(${subdomain})${mayBeEmpty ? '?' : ''}$`)),
    format: (value) => value,
  };
}

function orEmpty(mayBeEmpty: boolean): string {
  return mayBeEmpty ? ', or empty' : '';
}

/** As `kubectl get -l` takes it; empty selects everything. */
export function labelSelector(): SettingKind<string> {
  const expected = 'a label selector such as team=payments,tier in (edge,core),!legacy';
  return {
    expected,
    brief: 'label selector',
    schema: z.string().refine(isLabelSelector, expected),
    format: (value) => value,
  };
}

/** Commas stand between requirements, and inside the brackets of one. */
function isLabelSelector(text: string): boolean {
  return text.trim() === '' || text.split(/,(?![^(]*\))/).every((part) => requirement.test(part));
}
