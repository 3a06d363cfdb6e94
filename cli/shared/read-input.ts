import { dirname } from 'node:path';
import { unplacedError } from '../../limiter/config-source/config-source.ts';
import { type RuleFolderReading, readRuleFolder } from '../../limiter/config-source/file/rule-folder.ts';
import { readBoundedFile } from '../../process/files/bounded-file.ts';
import { systemErrorReason } from '../../process/log/error-text.ts';
import type { JsonObject, RuleSource } from '../../rules/model.ts';
import { textKind } from '../../rules/reader/read-manifests.ts';
import { looksLikeRules } from '../../rules/reader/read-rule-files.ts';
import { formatRuleError, type RuleError } from '../../rules/rule-error.ts';
import { checkSources, type SourceCheckOptions } from '../../rules/validate-sources.ts';
import { LineIndex } from '../../rules/yaml/places.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { type ExplainedError, explained } from '../mistakes/mistakes.ts';
import { Containment } from './contained-files.ts';
import {
  fetchArgument,
  type ParsedFlags,
  printProblem,
  standardInputFile,
  tokenHint,
  UsageError,
} from './flags.ts';
import { io } from './io.ts';
import {
  kindOfFile,
  type LoadedSource,
  type RuleText,
  readRuleTexts,
  type TextsReading,
} from './read-rule-texts.ts';
import { escaped } from './text.ts';
import { yamlText } from './yaml-text.ts';

/** The content of one argument: a folder, a file, a pipe, or `-` for standard input. */
export interface RuleInput extends TextsReading {
  /** The argument as given. */
  path: string;
  texts: RuleText[];
  /** Paths of files in a folder that are JSON without objects or resources. */
  otherFiles: string[];
  /** Callers files (CALLERS_FILE); empty unless the caller asked for them. */
  callersFiles: RuleText[];
  /** Files of profiles (PROFILES_FILE), like `callersFiles`. */
  profilesFiles: RuleText[];
}

/** The name of standard input in messages. */
export const standardInput = '<stdin>';

export interface InputOptions extends SourceCheckOptions {
  /** Whether an empty text means no rules. Otherwise it is a rule file without a domain. */
  mayBeEmpty?: boolean;
  /** Whether to distinguish callers files and files of profiles from rules. */
  othersToo?: boolean;
  /** The folders of `--root`, resolved; undefined without it. */
  roots?: readonly string[];
}

/** Reads an argument. All problems, also those of the file system, are in `errors`. */
export function readInput(path: string, options: InputOptions): RuleInput {
  const {
    files: all,
    errors,
    warnings,
  } = path === '-' ? readStandardInput() : readPath(path, options.roots ?? []);
  const kinds = options.othersToo === true ? Map.groupBy(all, kindOfFile) : undefined;
  const known = kinds === undefined ? all : (kinds.get('rules') ?? []);
  const envoyFiles = kinds === undefined ? [] : envoyFilesBeside(known, path);
  const files = known.filter((file) => !envoyFiles.includes(file));
  const isRules = (file: RuleText): boolean => file.path === path || path === '-' || !isOtherJson(file);
  const { rules = [], others = [] } = Object.groupBy(files, (file) => (isRules(file) ? 'rules' : 'others'));
  const texts = rules.filter(({ text }) => text.length > 0 || options.mayBeEmpty !== true);
  const reading = readRuleTexts(texts, options);
  const embedded = Map.groupBy(options.othersToo === true ? reading.embeddedOthers : [], kindOfFile);
  const filesOf = (kind: 'callers' | 'profiles') => [
    ...(kinds?.get(kind) ?? []),
    ...(embedded.get(kind) ?? []),
  ];
  return {
    ...reading,
    path,
    texts,
    callersFiles: filesOf('callers'),
    profilesFiles: filesOf('profiles'),
    skipped: [
      ...reading.skipped,
      ...envoyFiles.map((file) => ({ file: file.path, type: "Envoy's configuration", line: undefined })),
    ],
    otherFiles: others.map((file) => file.path),
    errors: [...errors, ...reading.errors],
    errorCount: errors.length + reading.errorCount,
    warnings: [...warnings, ...otherJsonWarnings(others), ...reading.warnings],
  };
}

function readPath(path: string, roots: readonly string[]): RuleFolderReading {
  const containment = new Containment(path, roots);
  const problem = containment.problem();
  if (problem !== undefined)
    return { files: [], errors: [unplacedError('unreadable', path, problem)], warnings: [] };
  return readRuleFolder(path, ['.yaml', '.yml', '.json'], (file) => containment.problemOf(file));
}

function readStandardInput(): RuleFolderReading {
  const file = standardInputFile();
  try {
    return {
      files: [{ path: standardInput, text: readBoundedFile(file) }],
      errors: [],
      warnings: [],
    };
  } catch (error) {
    return { files: [], errors: [unplacedError('unreadable', '-', systemErrorReason(error))], warnings: [] };
  }
}

/**
 * The Go service reads every file of its folder as YAML, which includes JSON. If a file ends early or has a comma too many, its kind
 * cannot be determined.
 */
function otherJsonWarnings(files: readonly RuleText[]): RuleError[] {
  const holdsRules = 'has rules but is not read: only *.yaml and *.yml are rule files';
  return files.flatMap(({ path, text }) => {
    if (looksLikeRules(text)) return [unplacedError('ignored-file', path, holdsRules)];
    const decoded = decodeYaml(text);
    const problem = typeof decoded === 'string' ? jsonProblem(decoded) : 'is not UTF-8 text';
    return problem === undefined ? [] : [unplacedError('unreadable', path, `${problem}, and is skipped`)];
  });
}

function jsonProblem(text: string): string | undefined {
  try {
    JSON.parse(text.replace(/^\ufeff/, ''));
    return undefined;
  } catch {
    return 'is not JSON';
  }
}

/** Finds Envoy's own files in a folder without rule files. Among rule files, a limiter reads them as rules and rejects them. */
function envoyFilesBeside(files: readonly RuleText[], given: string): RuleText[] {
  const found = files.filter(({ path, text }) => path !== given && isEnvoyConfig(text));
  if (found.length === 0) return [];
  const folders = new Set(files.filter(({ text }) => looksLikeRules(text)).map(({ path }) => dirname(path)));
  return found.filter(({ path }) => !folders.has(dirname(path)));
}

function isEnvoyConfig(content: RuleText['text']): boolean {
  const text = decodeYaml(content);
  if (typeof text !== 'string' || !/^(?:static_resources|dynamic_resources)[ \t]*:/m.test(text)) return false;
  return !looksLikeRules(text);
}

/** Limiters do not read `*.json` as rule files, so a folder may hold any. */
function isOtherJson({ path, text }: RuleText): boolean {
  if (!path.endsWith('.json')) return false;
  const decoded = decodeYaml(text);
  return typeof decoded !== 'string' || textKind(decoded) === 'rule-file';
}

/** Returns the texts that errors of an input may name: rules, rule files within manifests, and files of callers and profiles. */
export function allTexts({ texts, embedded, callersFiles, profilesFiles }: RuleInput): RuleText[] {
  return [...texts, ...embedded, ...callersFiles, ...profilesFiles];
}

/** Returns the lines of a file of the input by its path; undefined for anything without lines, such as a folder. */
export function linesOfTexts(input: RuleInput): (file: string) => LineIndex | undefined {
  const contents = new Map(allTexts(input).map(({ path, text }) => [path, text]));
  const indexes = new Map<string, LineIndex>();
  return (file) => {
    const content = contents.get(file);
    if (content === undefined) return undefined;
    let lines = indexes.get(file);
    if (lines === undefined) {
      const read = decodeYaml(content);
      lines = new LineIndex(
        typeof read === 'string' ? read : new TextDecoder().decode(content as Uint8Array),
      );
      indexes.set(file, lines);
    }
    return lines;
  };
}

/** Returns the errors of an input in plain words. */
export function plainErrors(input: RuleInput): ExplainedError[] {
  const linesOf = linesOfTexts(input);
  return input.errors.map((error) => explained(error, linesOf(error.source)));
}

/** The number of errors that a command prints if it does not check rules. */
const shown = 10;

/** Prints on standard error why the rules cannot be used. Returns whether there is an error. */
export function printInputErrors(input: RuleInput): boolean {
  const { path, errorCount, sources } = input;
  if (errorCount === 0 && sources.length > 0) return false;
  if (errorCount === 0) {
    printProblem(`${path}: contains no rules`);
    return true;
  }
  for (const error of plainErrors(input).slice(0, shown)) printProblem(formatRuleError(error));
  if (errorCount > shown) io().stderr.write(`... and ${errorCount - shown} more\n`);
  const hasLines = input.errors.some(({ line }) => line !== undefined);
  if (hasLines && !isUrl(path))
    io().stderr.write(`"weir check ${escaped(path)}" shows the lines and how to correct them\n`);
  return true;
}

/** Selects manifests of one class, which one control plane serves, and of one of its fleets; undefined fields select all. */
export interface ServedBy {
  className: string | undefined;
  fleet: string | undefined;
}

/** Returns the selection of `--class` and `--fleet`. */
export function servedByFlags(flags: ParsedFlags): ServedBy {
  return { className: flags.text('class'), fleet: flags.text('fleet') };
}

/**
 * Returns the sources that limiters load together: all except manifests of other classes and fleets. Without a selection there must
 * be only one class, and only one fleet in it. @throws UsageError
 */
export function sourcesServedBy(sources: readonly LoadedSource[], chosen: ServedBy): readonly LoadedSource[] {
  const ofClass = chosenBy(sources, 'className', { given: chosen.className, flag: 'class', all: 'classes' });
  return chosenBy(ofClass, 'fleet', { given: chosen.fleet, flag: 'fleet', all: 'fleets' });
}

function chosenBy(
  sources: readonly LoadedSource[],
  field: keyof ServedBy,
  { given, flag, all }: { given: string | undefined; flag: string; all: string },
): readonly LoadedSource[] {
  if (given !== undefined) return sources.filter((one) => mayServe(one, field, given));
  const names = [...new Set(sources.flatMap((one) => one[field] ?? []))];
  if (names.length <= 1) return sources;
  throw new UsageError(`there are rules of several ${all}, choose one by --${flag}: ${names.join(', ')}`);
}

/** Whether a source is of the selected class or fleet. Rule files are of all of them. Without a selection, every source is. */
export function mayServe(source: LoadedSource, field: keyof ServedBy, chosen: string | undefined): boolean {
  const own = source[field];
  return own === undefined || chosen === undefined || own === chosen;
}

/** Prints why valid sources cannot be loaded together. Returns whether there is a conflict. */
export function printLoadConflicts(sources: readonly LoadedSource[], options: SourceCheckOptions): boolean {
  const clashes = loadConflicts(sources, options);
  for (const error of clashes) printProblem(formatRuleError(error));
  return clashes.length > 0;
}

/** Returns in plain words why sources cannot be loaded together. */
export function loadConflicts(
  sources: readonly LoadedSource[],
  options: SourceCheckOptions,
): ExplainedError[] {
  const bySource = new Map<RuleSource, LoadedSource>(sources.map((loaded) => [loaded.source, loaded]));
  const found: ExplainedError[] = [];
  checkSources([...bySource.keys()], options, ({ source, code, text, path }) => {
    const loaded = bySource.get(source)!;
    const { line, column } = loaded.placeOf(path) ?? { line: undefined, column: undefined };
    const words = code === 'duplicate-domain' ? duplicateText(loaded, text) : text;
    found.push(explained({ code, source: loaded.file, text: words, path, line, column }, undefined));
  });
  return found;
}

/** The Go service's message is about files; an object or a resource has a name of its own. */
function duplicateText({ kind, source }: LoadedSource, text: string): string {
  if (kind === 'rule-file') return text;
  const what = kind === 'manifests' ? 'manifest' : 'resource';
  return `duplicate domain '${source.domain}' in ${what} ${source.name}: limiters get only one of them`;
}

/** Whether an argument is the URL of a running limiter's debug listener. */
export function isUrl(path: string): boolean {
  return /^https?:\/\//.test(path);
}

/** How to ask a limiter at a URL. */
export interface AskingUrl {
  token: string | undefined;
  timeoutMs: number;
}

/** Reads the rules of a running limiter. @throws UsageError */
export async function readUrl(path: string, { token, timeoutMs }: AskingUrl): Promise<RuleInput> {
  const url = URL.parse(path);
  if (url === null) throw new UsageError(`"${path}" is not a URL`);
  if (url.username !== '' || url.password !== '')
    throw new UsageError(`${url.origin}: an address with a name or a password is not accepted`);
  if (url.pathname === '/') url.pathname = '/rlconfig';
  url.searchParams.set('format', 'json');
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const hint = (status: number) => (status === 401 ? `: it ${tokenHint}` : '');
  const text = await fetchArgument(url, { timeoutMs, headers }, (response) => response.text(), hint);
  return inputOfLimiter(path, ruleFiles(text, url));
}

/** Reads a limiter's answer to `/rlconfig?format=json`. */
export function inputOfLimiter(path: string, files: readonly JsonObject[]): RuleInput {
  // Converted to YAML, which unlike JSON cannot have raw control characters.
  const texts = files.map((file) => ({ path, text: yamlText(file) }));
  const reading = readRuleTexts(texts, { mergeDomains: true });
  return {
    ...reading,
    // The rules of a running limiter have no lines in a file, so findings have no place.
    sources: reading.sources.map((loaded) => ({ ...loaded, placeOf: () => undefined })),
    path,
    texts,
    otherFiles: [],
    callersFiles: [],
    profilesFiles: [],
  };
}

function ruleFiles(text: string, url: URL): JsonObject[] {
  try {
    const files: unknown = JSON.parse(text);
    if (Array.isArray(files)) return files as JsonObject[];
  } catch {
    // The error is reported below: a limiter that does not know the format answers with lines of text.
  }
  throw new UsageError(
    `${url.origin}${url.pathname} does not list rules as JSON: only a limiter of Weir does`,
  );
}
