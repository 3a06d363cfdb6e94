/** Rewrites errors of readers in plain words and finds what to mark. The readers use the words of the Go service, as logs do. */
import type { FieldKind } from '../../rules/language/fields.ts';
import { fields } from '../../rules/language/tables.ts';
import { fieldPath, type RuleError } from '../../rules/rule-error.ts';
import type { LineIndex } from '../../rules/yaml/places.ts';
import { keyPlace, parentKeyPlace, wordAt } from './caret.ts';
import { templateMistake, yamlMistake } from './yaml-mistakes.ts';

/** An error in plain words, at the place to mark. */
export interface PlainError extends RuleError {
  fix?: string;
  /** The number of characters to mark. */
  length?: number;
}

export function plainError(error: RuleError, lines: LineIndex | undefined): PlainError {
  const { code, path, line, column } = error;
  if (lines === undefined || line === undefined || column === undefined)
    return { ...error, text: plainText(error, '') };
  if (code === 'syntax') {
    const { hint, ...mistake } = yamlMistake(error.text, lines, { line, column });
    return { ...error, ...mistake, fix: hint };
  }
  const isTemplate = code === 'wrong-type' || code === 'key-not-a-string';
  const template = isTemplate ? templateMistake(lines, { from: line, to: line }) : undefined;
  if (template !== undefined) {
    const { hint, ...mistake } = template;
    return { ...error, ...mistake, fix: hint };
  }
  const written = wordAt(lines, line, column);
  const text = plainText(error, written);
  const name = path.at(-1);
  const place = { line, column };
  if (isAboutKey(error) && typeof name === 'string')
    return { ...error, text, ...keyPlace(lines, place, name) };
  // A value of several lines is not shown; its key is.
  if (
    /!!(?:map|seq)|found (?:null|a list|an object)$/.test(error.text) &&
    !/^[[{]/.test(written) &&
    typeof name === 'string'
  )
    return { ...error, text, ...keyPlace(lines, place, name) };
  if (isMissing(error)) return { ...error, text, ...parentKeyPlace(lines, place) };
  return { ...error, text };
}

/** Whether the error is about the key. For manifests, the reader knows the place of the value. */
function isAboutKey({ code, path, text }: RuleError): boolean {
  if (code === 'unknown-key') return path[0] === 'spec' || /unknown field/.test(text);
  return code === 'burst-without-bucket' || code === 'unit-when-unlimited' || code === 'invalid-limits';
}

function isMissing({ code, text }: RuleError): boolean {
  return code === 'empty-key' || /is required|unit ''$/.test(text);
}

/** The words for each kind of value; other kinds are text. */
const kindWords: Partial<Record<FieldKind, string>> = {
  boolean: 'true or false',
  uint32: 'a whole number',
  requests: 'a whole number',
  rules: 'a list of rules',
  limits: 'a list of limits',
  percents: 'a list of percentages',
  names: 'a list of mappings',
  limit: 'a mapping',
  metadata: 'a mapping',
  calendar: 'a mapping',
  reserve: 'a mapping',
};

/** Returns the value that a field of a rule file must have, whatever the Go service calls it. */
function wantedOf(field: string | number | undefined): string {
  if (field === undefined) return 'a mapping';
  const kind = fields.get(String(field))?.kind;
  return (kind && kindWords[kind]) ?? 'a text';
}

/** `written` is the text at the place of the error. */
export function plainText(
  { code, path, text }: Pick<RuleError, 'code' | 'path' | 'text'>,
  written: string,
): string {
  if (path[0] === 'spec' || text.startsWith(`${fieldPath(path)}: `))
    return manifestText({ code, path, text }, written);
  const name = path.at(-1);
  const subject = name === undefined ? 'a rule file' : `'${name}'`;
  const mismatch = /cannot unmarshal (!!\w+)/.exec(text)?.[1];
  if (mismatch !== undefined || text === 'error checking config') {
    const above = String(path.at(-2));
    const isMark = typeof name === 'number' && fields.get(above)?.kind === 'percents';
    return `${isMark ? `an element of '${above}'` : subject} must be ${isMark ? 'a percent' : wantedOf(name)}, found ${mismatch === '!!map' ? 'a mapping' : mismatch === '!!seq' ? 'a list' : written}`;
  }
  switch (code) {
    case 'list-element-not-a-map':
      return `an element of '${path.at(-2) ?? ''}' must be a mapping, found ${written}`;
    case 'key-not-a-string':
      return `the name of a field must be a text, found ${written}`;
    case 'empty-domain':
      if (/^["']/.test(written)) return 'the domain is empty';
      return written === '' ? 'the file is empty: it has no domain' : 'the file has no domain';
    case 'empty-key':
      return /^["']/.test(written) ? 'the key is empty' : 'the rule has no key';
    case 'duplicate-descriptor':
      return text.replace('duplicate descriptor composite key', 'an earlier rule exists');
    case 'duplicate-domain':
      return text.replace(/^duplicate (domain .*) in config file$/, '$1 is already in an earlier file');
    case 'invalid-unit':
      return text.endsWith("''")
        ? 'the limit has no unit'
        : text.replace('invalid rate limit unit', 'unknown unit');
    case 'empty-replaces':
      return 'the name is empty';
    case 'replaces-itself':
      return 'the limit replaces itself';
    default:
      return text
        .replace(/^config (?:error|warning), |^error loading config file: yaml: /, '')
        .replace(
          /^should not specify (?:rate limit )?(\w+) when unlimited$/,
          "'$1' has no meaning beside unlimited",
        );
  }
}

/** Rewrites an error of a manifest. Its place stands for the path, so only the name of the field is left. */
function manifestText(
  { code, path, text }: Pick<RuleError, 'code' | 'path' | 'text'>,
  written: string,
): string {
  const words = text.startsWith(`${fieldPath(path)}: `) ? text.slice(fieldPath(path).length + 2) : text;
  const name = path.findLast((step) => typeof step === 'string') ?? '';
  const full = path[0] === 'metadata' ? fieldPath(path) : name;
  const subject = typeof path.at(-1) === 'number' ? `an element of '${name}'` : `'${full}'`;
  if (/^(?:must|is|are) /.test(words)) return `${subject} ${words}`;
  if (words.startsWith('"')) return `${subject}: ${words}`;
  if (words.startsWith('unknown field')) {
    const where = /belongs to (.*)$/.exec(words)?.[1];
    return where === undefined
      ? `unknown field '${name}'`
      : `field '${name}' has no meaning here, it belongs to ${where}`;
  }
  return plainText({ code, path: [], text: words }, written);
}

/** Leaves out errors that only follow from another error. */
export function withoutConsequences(errors: readonly RuleError[]): RuleError[] {
  return errors.filter((error) => !errors.some((other) => other !== error && follows(error, other)));
}

/** Chosen: errors of one object are at most this far apart. */
const sameObjectLines = 30;

function follows(error: RuleError, other: RuleError): boolean {
  if (error.source !== other.source) return false;
  const { path } = error;
  if (other.code === 'wrong-type' && path[0] !== 'spec')
    return other.path.length < path.length && other.path.every((step, index) => step === path[index]);
  if (other.code !== 'unknown-key' || !/ is required/.test(error.text)) return false;
  const far = Math.abs((error.line ?? 0) - (other.line ?? 0));
  const above = other.path.length === 1 ? path.slice(1, -1) : path.slice(0, -1);
  const isBeside = fieldPath(other.path.slice(0, -1)) === fieldPath(above);
  return isBeside && far <= sameObjectLines && isMeant(String(other.path.at(-1)), String(path.at(-1)));
}

function isMeant(written: string, field: string): boolean {
  return written.toLowerCase().replaceAll(/[-_]/g, '') === field.toLowerCase();
}
