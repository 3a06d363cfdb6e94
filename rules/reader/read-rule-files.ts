/** Reads rule files: a load of several files, and the dialect in which a file is written. */
import type { FieldRow, FieldRows } from '../language/fields.ts';
import { type FieldTable, fileTable } from '../language/tables.ts';
import {
  isObject,
  type JsonObject,
  type JsonValue,
  maxRequests,
  maxUint32,
  type RuleSource,
} from '../model.ts';
import { FollowUps, type RuleError, type RuleErrorCode, RuleErrorList } from '../rule-error.ts';
import { checkSources, type SourceCheckOptions } from '../validate-sources.ts';
import { readDocument } from '../yaml/document.ts';
import { parseYaml } from '../yaml/parse.ts';
import { LineIndex, type TextPlace, valuePlacer } from '../yaml/places.ts';
import {
  booleanValue,
  integerValue,
  printedScalar,
  scalarValue,
  setOwn,
  shortTag,
  typeTag,
} from '../yaml/scalars.ts';
import { NodeKind, YamlTape } from '../yaml/tape.ts';
import { decodeYaml, type SyntaxProblem } from '../yaml/text.ts';
import { type DocumentProblem, DocumentWalk, Stage, Unreadable } from './document-walk.ts';
import { documentTexts, readManifestDocument } from './read-manifests.ts';
import { RuleReader } from './rule-reader.ts';

interface RuleFile {
  /** The file's name in errors. */
  name: string;
  /** The content. Bytes avoid a second copy of a large file. */
  text: string | Uint8Array;
}

/** A file, as far as it can be understood on its own. */
interface DecodedFile {
  /** Undefined if the file cannot be read at all. If it has errors, the parts that could be read. */
  source: RuleSource | undefined;
  /** The domain, without rules, of a file with a syntax error. Undefined if it is unknown, or if there is a `source`. */
  domainOnly?: RuleSource | undefined;
  errors: RuleError[];
  warnings: RuleError[];
  /** Later problems that result from these errors. */
  followUps: FollowUps;
  /** Returns the line and column of the value at a path, or of the map that lacks it. */
  placeOf(path: readonly (string | number)[]): TextPlace;
}

/** Reads one file: syntax, keys and types. `checkSources` checks the meaning of its rules. */
export function decodeRuleFile({ name, text: content }: RuleFile): DecodedFile {
  const text = decodeYaml(content);
  if (typeof text !== 'string')
    return undecodable(name, text, typeof content === 'string' ? content : new TextDecoder().decode(content));
  const tape = parseYaml(text);
  if (!(tape instanceof YamlTape)) return { ...undecodable(name, tape, text), ...readDomain(name, text) };
  const walk = new DocumentWalk(tape);
  const document = readRuleDocument(walk);
  const { problems, warnings } = walk.log;
  const source = document === undefined ? undefined : { name, ...document };
  const describe = problemDescriber(name, text);
  return {
    source,
    errors: problems.sort((a, b) => a.stage - b.stage).map(describe),
    warnings: [...warnings.map(describe), ...(tape.rest === '' ? [] : unreadDocuments(name, text))],
    followUps: new FollowUps(problems),
    placeOf: pathPlacer(text),
  };
}

function undecodable(source: string, problem: SyntaxProblem, content: string): DecodedFile {
  const { text, offset, hasLine = true, noticedAt = offset } = problem;
  const lines = new LineIndex(content);
  const { line, column } = lines.placeOf(offset);
  const where = hasLine ? `line ${lines.placeOf(noticedAt).line}: ` : '';
  const words = `error loading config file: yaml: ${where}${text}`;
  return {
    source: undefined,
    errors: [{ code: 'syntax', source, text: words, path: [], line, column }],
    warnings: [],
    followUps: new FollowUps([]),
    placeOf: () => ({ line, column }),
  };
}

/**
 * Reads the domain of a text that has a syntax error after it: the text up to the entry after `domain`. Returns nothing if the error is
 * earlier, or if `domain` is repeated, because its value is then unknown.
 */
function readDomain(name: string, text: string): Pick<DecodedFile, 'domainOnly' | 'placeOf'> | undefined {
  const [key, repeated] = text.matchAll(/^["']?domain["']?[ \t]*:/gm);
  if (key === undefined || repeated !== undefined) return undefined;
  const nextEntry = /[\r\n](?=[^\s#])/g;
  nextEntry.lastIndex = key.index;
  const head = text.slice(0, nextEntry.exec(text)?.index);
  const tape = parseYaml(head);
  if (!(tape instanceof YamlTape)) return undefined;
  const walk = new DocumentWalk(tape);
  const domain = readRuleDocument(walk)?.domain ?? '';
  if (domain === '' || walk.log.problems.length > 0) return undefined;
  return { domainOnly: { name, domain, descriptors: [] }, placeOf: pathPlacer(head) };
}

/** Reports the documents after the first. Limiters, including the Go service, read the first document of a file and skip the others. */
function unreadDocuments(source: string, text: string): RuleError[] {
  const written = documentTexts(text).filter((document) => {
    const reading = readManifestDocument(document.text);
    return reading.ok || !reading.empty;
  });
  return written.slice(1).map(({ firstLine }) => ({
    code: 'unread-document',
    source,
    text: 'only the first document of a rule file is read, this one has no effect',
    path: [],
    line: firstLine,
    column: 1,
  }));
}

function problemDescriber(source: string, text: string): (problem: DocumentProblem) => RuleError {
  let lines: LineIndex | undefined;
  return ({ code, text: words, dress, offset, path }) => {
    lines ??= new LineIndex(text);
    const { line, column } = lines.placeOf(offset);
    const prefix = 'error loading config file: yaml: ';
    const dressed = {
      plain: words,
      yaml: `${prefix}${words}`,
      type: `${prefix}unmarshal errors:\n  line ${line}: ${words}`,
    };
    return { code, source, text: dressed[dress], path, line, column };
  };
}

/** Returns the places of values. It parses the text again at the first call, so that good files never need places. */
function pathPlacer(text: string): DecodedFile['placeOf'] {
  let placeOf: DecodedFile['placeOf'] | undefined;
  return (path) => {
    if (placeOf === undefined) {
      const tape = parseYaml(text);
      if (!(tape instanceof YamlTape)) throw new Error('a document that was read cannot be read again');
      placeOf = valuePlacer(tape);
    }
    return placeOf(path);
  };
}

export interface RuleReading {
  /** One source for each file, in the order of the files. Empty if there is an error. */
  sources: RuleSource[];
  /** The sources with the places of their values. */
  located: { source: RuleSource; file: string; placeOf: DecodedFile['placeOf'] }[];
  /** The names of the files with errors, including errors that are not listed. */
  rejectedFiles: ReadonlySet<string>;
  /** The errors. The first is the one that the Go service would report: syntax first, then meaning. */
  errors: RuleError[];
  /** The number of errors, including those that are not listed. */
  errorCount: number;
  /** Values that are accepted and have no effect. */
  warnings: RuleError[];
}

/**
 * Reads and checks all files of one load in the given order, which should be that of their names. `mergeDomains`: several files
 * may add rules to one domain.
 */
export function readRuleFiles(files: readonly RuleFile[], options: SourceCheckOptions): RuleReading {
  const errors = new RuleErrorList();
  const warnings = new RuleErrorList();
  const rejectedFiles = new Set<string>();
  const bySource = new Map<RuleSource, DecodedFile>();
  for (const file of files) {
    const result = decodeRuleFile(file);
    if (result.errors.length > 0) rejectedFiles.add(file.name);
    for (const error of result.errors) errors.add(error);
    for (const warning of result.warnings) warnings.add(warning);
    const source = result.source ?? result.domainOnly;
    if (source !== undefined) bySource.set(source, result);
  }
  const sources = [...bySource.keys()];
  checkSources(sources, options, (problem) => {
    const file = bySource.get(problem.source);
    if (file === undefined) return;
    if (file.followUps.includes(problem, () => isWritten(file, problem.path))) return;
    rejectedFiles.add(problem.source.name);
    const place = errors.isFull ? undefined : file.placeOf(problem.path);
    errors.add({
      code: problem.code,
      source: problem.source.name,
      text: problem.text,
      path: problem.path,
      line: place?.line,
      column: place?.column,
    });
  });
  return {
    sources: errors.count === 0 ? sources : [],
    located: [...bySource].flatMap(([source, { domainOnly, placeOf }]) =>
      source === domainOnly ? [] : [{ source, file: source.name, placeOf }],
    ),
    rejectedFiles,
    errors: errors.errors,
    errorCount: errors.count,
    warnings: warnings.errors,
  };
}

/** A value that is missing is placed where the map that lacks it begins. */
function isWritten(file: DecodedFile, path: readonly (string | number)[]): boolean {
  const place = file.placeOf(path);
  const map = file.placeOf(path.slice(0, -1));
  return place.line !== map.line || place.column !== map.column;
}

/** Whether a text is a mapping that names a domain, even if the rest is wrong. */
export function looksLikeRules(text: string | Uint8Array): boolean {
  if (!Buffer.from(text).includes('domain')) return false;
  const domain = decodeRuleFile({ name: '', text }).source?.domain;
  return domain !== undefined && domain !== '';
}

/**
 * Returns whether a file contains tests of rules (`weir test`) and no rules. Its name decides, unless it has `descriptors`. So an empty
 * file, for example one that a shell has just created for the output of a command, is not a rule file.
 */
export function isTestFile(name: string, content: string | Uint8Array): boolean {
  if (!/\.test\.ya?ml$/.test(name)) return false;
  const text = decodeYaml(content);
  if (typeof text !== 'string') return false;
  // Most tests do not contain the word, so they need not be parsed here.
  if (!text.includes('descriptors')) return true;
  const document = readDocument(text, 'texts');
  return 'tape' in document && !(isObject(document.value) && Object.hasOwn(document.value, 'descriptors'));
}

// The dialect of rule files: values of YAML as the Go service reads them, with its messages.

/** The content of one YAML document, as far as it can be understood. */
type RuleDocument = Omit<RuleSource, 'name'>;

/**
 * Reads rules from a YAML document: keys, types and values. `checkSources` checks their combination. A list element that is not a map
 * leaves a gap, so that the others keep their position. There is no document if it cannot be read as a whole.
 */
function readRuleDocument(walk: DocumentWalk): RuleDocument | undefined {
  try {
    return new RuleFileReader(walk).file(0);
  } catch (error) {
    if (error instanceof Unreadable) return undefined;
    throw error;
  }
}

/** The Go service's names for the required types of values, by kinds of fields. */
const goTypes: Readonly<Record<string, string>> = {
  rules: '[]config.YamlDescriptor',
  limit: 'config.YamlRateLimit',
  limits: '[]config.YamlRateLimit',
  names: '[]config.yamlReplaces',
  calendar: 'config.YamlCalendar',
  reserve: 'config.YamlReserve',
  percents: '[]uint32',
};

const metadataType = 'map[string]interface {}';

/** Reads null as a type's zero value. Values that do not fit are reported and read as zero. */
class RuleFileReader extends RuleReader<number> {
  readonly #walk: DocumentWalk;

  constructor(walk: DocumentWalk) {
    super();
    this.#walk = walk;
  }

  file(node: number): RuleDocument | undefined {
    if (this.#walk.scalarType(node) === 'null') return { domain: '', descriptors: [] };
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#mismatch(node, 'map[interface {}]interface {}', Stage.DOCUMENT);
      return undefined;
    }
    const { domain = '', descriptors = [] } = this.fields(node, fileTable);
    return { domain, descriptors };
  }

  protected override reject(
    node: number,
    code: RuleErrorCode,
    text: string,
    ...below: (string | number)[]
  ): void {
    this.#walk.log.value(node, code, text, ...below);
  }

  protected override get problemCount(): number {
    return this.#walk.log.problems.length;
  }

  protected override get fieldName(): string {
    return String(this.#walk.log.path.at(-1));
  }

  protected override isMap(node: number, { kind, isOwn }: FieldRow): boolean {
    if (this.#walk.tape.kind(node) === NodeKind.MAP) return true;
    if (isOwn && this.isIgnored(node)) this.reject(node, 'wrong-type', `${kind} must be a map, found null`);
    this.#reject(node, goTypes[kind]!);
    return false;
  }

  protected override eachField<Rows extends FieldRows>(
    map: number,
    table: FieldTable<Rows>,
    take: (name: keyof Rows & string, value: number, key: number) => void,
  ): void {
    this.#walk.eachField(map, table, take);
  }

  protected override maps<Value>(
    node: number,
    { kind }: FieldRow,
    read: (map: number) => Value,
  ): Value[] | undefined {
    if (this.#walk.tape.kind(node) === NodeKind.LIST) return this.#walk.maps(node, read);
    this.#reject(node, goTypes[kind]!);
    return this.isIgnored(node) ? [] : undefined;
  }

  /** Returns a text. Integers and booleans are texts, too, in the form in which they are written. */
  protected override text(node: number): string | undefined {
    const type = this.#walk.scalarType(node);
    if (type === 'null') return '';
    if (type !== undefined && type !== 'float' && type !== 'huge') return this.#walk.text(node);
    this.#reject(node, 'string');
    return undefined;
  }

  protected override numberOrText(node: number): string | undefined {
    const type = this.#walk.scalarType(node);
    if (type === undefined) this.#reject(node, 'string');
    return type === undefined || type === 'null' ? undefined : this.#walk.text(node);
  }

  protected override spelled(word: string): string {
    return word;
  }

  protected override asWord(text: string): string {
    return text.toLowerCase();
  }

  protected override boolean(node: number): boolean {
    if (this.#walk.scalarType(node) === 'bool') return booleanValue(this.#walk.tape.text(node));
    this.#reject(node, 'bool');
    return false;
  }

  protected override uint32(node: number): number {
    return this.#whole(node, maxUint32) ?? 0;
  }

  protected override requests(node: number): number {
    const small = this.#small(node);
    if (small >= 0) return small;
    const type = this.#walk.scalarType(node);
    const isTooMany =
      type === 'huge' || (type === 'int' && integerValue(this.#walk.tape.text(node)) > maxRequests);
    if (!isTooMany) return this.#whole(node, maxRequests) ?? 0;
    const text = `${this.fieldName} can be at most ${maxRequests} (2^53 - 1), found ${this.#walk.tape.text(node)}`;
    this.reject(node, 'wrong-type', text);
    return 0;
  }

  /** Returns the numbers. Elements that are not whole numbers are left out. */
  protected override numbers(list: number): number[] {
    if (this.#walk.tape.kind(list) === NodeKind.LIST)
      return this.#walk
        .elements(list, (node) => this.#whole(node, maxUint32))
        .filter((value) => value !== undefined);
    this.#reject(list, goTypes['percents']!);
    return [];
  }

  /** Returns a plain number with few digits, as most numbers are, without checking for other forms. Returns -1 for other values. */
  #small(node: number): number {
    const { tape } = this.#walk;
    const isPlain = tape.kind(node) === NodeKind.SCALAR && tape.isPlain(node) && tape.tag(node) === undefined;
    return isPlain ? smallDecimal(tape.text(node)) : -1;
  }

  #whole(node: number, max: number): number | undefined {
    const { tape } = this.#walk;
    const small = this.#small(node);
    if (small >= 0) return small;
    if (this.#walk.scalarType(node) === 'int') {
      const value = integerValue(tape.text(node));
      if (value >= 0n && value <= max) return Number(value);
    }
    this.#reject(node, 'uint32');
    return undefined;
  }

  /** Adds entries to the metadata of an earlier map. */
  protected override metadata(
    node: number,
    _row: FieldRow,
    earlier: JsonObject | undefined,
  ): JsonObject | undefined {
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#reject(node, metadataType);
      return undefined;
    }
    const object = earlier ?? {};
    const keyText = (key: number) => (this.isIgnored(key) ? '' : this.#walk.text(key));
    this.#jsonMap(node, object, keyText);
    return Object.keys(object).length === 0 ? undefined : object;
  }

  /** Reports a value that does not have the required type, unless it is null. */
  #reject(node: number, goType: string): void {
    const type = this.#walk.scalarType(node);
    if (type === 'null') return;
    const isMetadata = goType === metadataType;
    if ((type === 'float' || type === 'huge') && !isMetadata) {
      this.#walk.rejectUnsupported(node);
      return;
    }
    if (type === undefined && !isMetadata) this.#walk.keysIn(node);
    this.#mismatch(node, goType, Stage.TYPES);
  }

  #mismatch(node: number, goType: string, stage: Stage): void {
    this.#walk.log.type(node, stage, `cannot unmarshal ${this.#typeAndText(node)} into ${goType}`);
  }

  #typeAndText(node: number): string {
    const { tape } = this.#walk;
    const kind = tape.kind(node);
    if (kind !== NodeKind.SCALAR) return kind === NodeKind.MAP ? '!!map' : '!!seq';
    const text = tape.text(node);
    const tag = tape.tag(node);
    const type = tag === undefined ? typeTag(this.#walk.scalarType(node) ?? 'string') : shortTag(tag);
    return `${type} \`${text.length > 10 ? `${text.slice(0, 7)}...` : text}\``;
  }

  #json(node: number): JsonValue {
    const { tape } = this.#walk;
    const kind = tape.kind(node);
    if (kind === NodeKind.SCALAR) return this.#walk.checked(node, () => scalarValue(tape, node)) ?? null;
    if (kind === NodeKind.MAP) {
      const object: JsonObject = {};
      this.#jsonMap(node, object, (key) => this.#walk.checked(key, () => printedScalar(tape, key)) ?? '');
      return object;
    }
    return this.#walk.elements(node, (element) => this.#json(element));
  }

  #jsonMap(map: number, object: JsonObject, keyText: (key: number) => string): void {
    this.#walk.eachEntry(map, keyText, (key, value) => setOwn(object, key, this.#json(value)));
  }

  protected override isIgnored(node: number): boolean {
    return this.#walk.scalarType(node) === 'null';
  }
}

/** Returns the value of up to nine decimal digits without a leading zero, or -1 for any other text. */
function smallDecimal(text: string): number {
  const { length } = text;
  if (length === 0 || length > 9 || (length > 1 && text.charCodeAt(0) === 48)) return -1;
  let value = 0;
  for (let index = 0; index < length; index++) {
    const digit = text.charCodeAt(index) - 48;
    if (!(digit >= 0 && digit <= 9)) return -1;
    value = value * 10 + digit;
  }
  return value;
}
