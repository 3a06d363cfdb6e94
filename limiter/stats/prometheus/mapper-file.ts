/** PROMETHEUS_MAPPER_YAML: read once at the start. A file that cannot be used ends the start, with file, line and reason. */
import { readFileSync } from 'node:fs';
import { FAILSAFE_SCHEMA, loadAll, mergeTag, YAMLException } from 'js-yaml';
import type { z } from 'zod';

import { systemErrorReason } from '../../../process/system-error.ts';
import { LineIndex } from '../../../rules/yaml/line-index.ts';
import { parseYaml } from '../../../rules/yaml/parse.ts';
import { PathLocator } from '../../../rules/yaml/path-locator.ts';
import { YamlTape } from '../../../rules/yaml/tape.ts';
import { mapperSchema } from './mapper-schema.ts';
import type { Mapping } from './mapping-rule.ts';
import { type MappingProblem, readMapping } from './mapping-rules.ts';

/** The message names the setting, and file, line and reason of every problem. */
export class MapperFileError extends Error {
  override readonly name = 'MapperFileError';

  constructor(problems: readonly string[]) {
    super(`PROMETHEUS_MAPPER_YAML: ${problems.join('; ')}`);
  }
}

/** A warning begins with file and line. */
export interface MapperFile {
  mapping: Mapping;
  warnings: string[];
}

const schema = FAILSAFE_SCHEMA.withTags(mergeTag);
/** Ours: the first few are enough to begin with. */
const maxProblems = 10;

/** Throws a MapperFileError. */
export function readMapperFile(path: string): MapperFile {
  try {
    return readMapperText(readFileSync(path, 'utf8'), path);
  } catch (error) {
    if (error instanceof MapperFileError) throw error;
    throw new MapperFileError([`${path}: ${systemErrorReason(error)}`]);
  }
}

/** Throws a MapperFileError. */
export function readMapperText(text: string, file: string): MapperFile {
  const value = withoutEmpty(loaded(text, file));
  const places = new Places(text, file);
  const parsed = mapperSchema.safeParse(value ?? {}, { reportInput: true });
  if (!parsed.success)
    throw new MapperFileError(parsed.error.issues.slice(0, maxProblems).map(places.ofIssue));
  const { mapping, problems, warnings } = readMapping(parsed.data);
  if (problems.length > 0) throw new MapperFileError(problems.slice(0, maxProblems).map(places.ofProblem));
  return { mapping, warnings: warnings.map(places.ofProblem) };
}

/** The first document; an empty file has none. */
function loaded(text: string, file: string): unknown {
  try {
    return loadAll(text, { schema })[0];
  } catch (error) {
    if (!(error instanceof YAMLException)) throw error;
    const place = error.mark === undefined ? '' : `:${error.mark.line + 1}:${error.mark.column + 1}`;
    throw new MapperFileError([`${file}${place}: ${error.reason}`]);
  }
}

/** A key without a value counts as not written, except a label. */
function withoutEmpty(value: unknown, key?: string): unknown {
  if (Array.isArray(value)) return value.map((item) => withoutEmpty(item));
  if (typeof value !== 'object' || value === null) return value === '' || value === '~' ? undefined : value;
  if (key === 'labels') return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, inner]) => {
      const kept = withoutEmpty(inner, name);
      return kept === undefined ? [] : [[name, kept]];
    }),
  );
}

class Places {
  readonly #file: string;
  readonly #lines: LineIndex;
  readonly #locator: PathLocator | undefined;

  constructor(text: string, file: string) {
    this.#file = file;
    this.#lines = new LineIndex(text);
    const tape = parseYaml(text);
    this.#locator = tape instanceof YamlTape ? new PathLocator(tape) : undefined;
  }

  readonly ofProblem = ({ path, message }: MappingProblem): string => {
    if (this.#locator === undefined) return `${this.#file}: ${message}`;
    const { line, column } = this.#lines.placeOf(this.#locator.offsetOf(path));
    return `${this.#file}:${line}:${column}: ${message}`;
  };

  readonly ofIssue = (issue: z.core.$ZodIssue): string => {
    const path = issue.path.filter((step) => typeof step !== 'symbol');
    if (issue.code === 'unrecognized_keys') {
      const message = `unknown key ${issue.keys.join(', ')}`;
      return this.ofProblem({ path: [...path, issue.keys[0] as string], message });
    }
    const key = path.at(-1);
    const prefix = typeof key === 'string' ? `${key}: ` : '';
    return this.ofProblem({ path, message: `${prefix}${wording(issue)}` });
  };
}

function wording(issue: z.core.$ZodIssue): string {
  if (issue.code === 'invalid_value') return `expected ${issue.values.join(' or ')}`;
  if (issue.code === 'invalid_type')
    return issue.input === undefined ? 'is missing' : expected(issue.expected);
  return issue.message;
}

function expected(type: string): string {
  const words: Record<string, string> = { array: 'a list', object: 'a map', record: 'a map', string: 'text' };
  return `expected ${words[type] ?? type}`;
}
