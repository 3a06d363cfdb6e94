/** PROMETHEUS_MAPPER_YAML, read once at the start. A file that cannot be used ends the start, with file, line and reason. */
import { readFileSync } from 'node:fs';
import type { z } from 'zod';
import { systemErrorCode, systemErrorReason } from '../../process/log/error-text.ts';
import { readDocument } from '../../rules/yaml/document.ts';
import { LineIndex, type PathProblem, placedProblems } from '../../rules/yaml/places.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import { mapperSchema } from './mapper-schema.ts';
import { readMapping } from './mapping-reader.ts';

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

/** Chosen: the first few problems are enough to start with. */
const maxProblems = 10;

/** Throws a MapperFileError. */
export function readMapperFile(path: string): MapperFile {
  try {
    return readMapperText(readFileSync(path, 'utf8'), path);
  } catch (error) {
    if (error instanceof MapperFileError) throw error;
    const isFolder = systemErrorCode(error) === 'EISDIR';
    throw new MapperFileError([
      `${path}: ${isFolder ? 'is a folder, not a file' : systemErrorReason(error)}`,
    ]);
  }
}

/** Throws a MapperFileError. */
export function readMapperText(text: string, file: string): MapperFile {
  const document = readDocument(text, 'texts');
  if (!('tape' in document)) {
    const { line, column } = new LineIndex(text).placeOf(document.offset);
    throw new MapperFileError([`${file}:${line}:${column}: ${document.text}`]);
  }
  const value = withoutEmpty(document.value);
  const reported = (problems: readonly PathProblem[]): string[] =>
    placedProblems(document.tape, problems).map(
      ({ line, column, message }) => `${file}:${line}:${column}: ${message}`,
    );
  const rejection = (problems: readonly PathProblem[]) =>
    new MapperFileError(reported(problems).slice(0, maxProblems));
  const parsed = mapperSchema.safeParse(value ?? {}, { reportInput: true });
  if (!parsed.success) {
    const issues = parsed.error.issues.map(problemOf);
    throw rejection([...issues, ...problemsBeside(issues, value)]);
  }
  const { mapping, problems, warnings } = readMapping(parsed.data);
  if (problems.length > 0) throw rejection(problems);
  const empty = value === undefined ? [`${file} is empty, so every statistic keeps its name`] : [];
  return { mapping, warnings: [...empty, ...reported(warnings)] };
}

/** Returns further problems, in the mappings whose form can be read. It reads them one at a time, without the defaults. */
function problemsBeside(issues: readonly PathProblem[], value: unknown): PathProblem[] {
  const mappings = (value as { mappings?: unknown } | undefined)?.mappings;
  if (!Array.isArray(mappings)) return [];
  return mappings.flatMap((one, index) => {
    if (issues.some(({ path }) => path[0] === 'mappings' && path[1] === index)) return [];
    const parsed = mapperSchema.safeParse({ mappings: [one] });
    if (!parsed.success) return [];
    const { problems } = readMapping(parsed.data);
    return problems.map(({ path, message }) => ({ path: ['mappings', index, ...path.slice(2)], message }));
  });
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

function problemOf(issue: z.core.$ZodIssue): PathProblem {
  const path = issue.path.filter((step) => typeof step !== 'symbol');
  if (issue.code === 'unrecognized_keys') {
    return { path: [...path, issue.keys[0] as string], message: `unknown key ${issue.keys.join(', ')}` };
  }
  const key = path.at(-1);
  const prefix = typeof key === 'string' ? `${key}: ` : '';
  return { path, message: `${prefix}${wording(issue)}` };
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
