/** Reads texts of rules in any of the three spellings, for commands. Returns what could be read, and all mistakes. */
import { looksLikeCallers } from '../../limiter/callers/callers-file.ts';
import { fieldName } from '../../rules/language/tables.ts';
import type { RuleSource } from '../../rules/model.ts';
import { looksLikeProfiles } from '../../rules/proxy/read-profiles.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import {
  type Manifest,
  readManifestDocument,
  readManifests,
  type TextKind,
  textKind,
} from '../../rules/reader/read-manifests.ts';
import { looksLikeOverrides, readOverride, readOverrideFile } from '../../rules/reader/read-override.ts';
import { readRuleFiles } from '../../rules/reader/read-rule-files.ts';
import {
  type FieldProblem,
  formatManifestError,
  type RuleError,
  RuleErrorList,
} from '../../rules/rule-error.ts';
import { checkSources, type SourceCheckOptions } from '../../rules/validate-sources.ts';
import { type TextPlace, valuePlacer } from '../../rules/yaml/places.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { resourcesFromJson } from './json-resources.ts';

/** A file as it was read. */
export interface RuleText {
  /** The text's name in errors. */
  path: string;
  text: string | Uint8Array;
}

/** An object or a resource that carries no rules. */
export interface SkippedObject {
  file: string;
  /** The type: `v1 ConfigMap`, or the type URL of a resource. */
  type: string;
  line: number | undefined;
}

/** A file that is a value of an object. */
export interface EmbeddedText extends RuleText {
  /** The path of the text that has the object. */
  container: string;
}

/** The rules of one domain, and where they stand. */
export interface LoadedSource {
  kind: TextKind;
  /** The path of the file. Several sources may be in one file. */
  file: string;
  /** Rule files with the same value are loaded together. Undefined for the given files and for other kinds. */
  load: string | undefined;
  source: RuleSource;
  /** The fleet of the limiters that load it. Undefined if the spelling does not name one. */
  fleet: string | undefined;
  /** The class of a manifest, which decides which control plane serves it. Undefined for other kinds. */
  className?: string;
  /** The object of a manifest. */
  object: LoadedObject | undefined;
  /**
   * Returns the place of the value at a path in the spelling of rule files (`descriptors`, 0, `rate_limit`). Undefined if it is
   * unknown.
   */
  placeOf(path: readonly (string | number)[]): TextPlace | undefined;
}

export interface LoadedObject {
  namespace: string;
  name: string;
  labels: Record<string, string>;
}

export interface TextsReading {
  /** The sources that could be read, in the order of the texts, even if other texts have errors. */
  sources: LoadedSource[];
  /** The sources, and the rule files without errors whose load is rejected because of other files. */
  reviewable: LoadedSource[];
  /** The paths of the texts whose rules are not all in `reviewable`, because of errors. */
  unreviewed: ReadonlySet<string>;
  skipped: SkippedObject[];
  /** Rule files that were found within the texts, by their names in errors. */
  embedded: EmbeddedText[];
  /** Callers files and files of profiles that were found within the texts, as the chart renders them. */
  embeddedOthers: EmbeddedText[];
  /** The number of good overrides: objects, and those of files for OVERRIDES_DIR. They change rules and are not rules themselves. */
  overrides: number;
  errors: RuleError[];
  /** The number of errors, including those that are not listed. */
  errorCount: number;
  /** Values that are accepted and have no effect. */
  warnings: RuleError[];
}

/**
 * Reads texts of any of the three spellings. Rule files are read as one load of a limiter. Manifests and resources are read one
 * by one, because it is decided elsewhere what is loaded with them.
 */
export function readRuleTexts(texts: readonly RuleText[], options: SourceCheckOptions): TextsReading {
  const reader = new TextsReader(options);
  const ruleFiles: RuleText[] = [];
  for (const file of texts) {
    const text = decodeYaml(file.text);
    const kind = typeof text === 'string' ? textKind(text) : 'rule-file';
    if (typeof text !== 'string' || kind === 'rule-file') ruleFiles.push(file);
    else if (kind === 'manifests') reader.manifests(file.path, text);
    else reader.resources(file.path, text);
  }
  reader.ruleFiles(ruleFiles);
  const { skipped, embedded, embeddedOthers, overrides, errors, warnings, rejectedSources, unreviewed } =
    reader;
  const order = new Map(texts.map(({ path }, index) => [path, index]));
  for (const { path, container } of embedded) order.set(path, order.get(container)!);
  const reviewable = reader.reviewable.sort((a, b) => order.get(a.file)! - order.get(b.file)!);
  const sources = reviewable.filter((loaded) => !rejectedSources.has(loaded));
  return {
    ...{ sources, reviewable, unreviewed, skipped, embedded, embeddedOthers, overrides },
    ...{ errors: errors.errors, errorCount: errors.count, warnings: warnings.errors },
  };
}

type PlaceOf = Manifest['placeOf'];

class TextsReader {
  readonly reviewable: LoadedSource[] = [];
  /** The sources of loads that have errors in other files. */
  readonly rejectedSources = new Set<LoadedSource>();
  readonly unreviewed = new Set<string>();
  readonly skipped: SkippedObject[] = [];
  readonly embedded: EmbeddedText[] = [];
  readonly embeddedOthers: EmbeddedText[] = [];
  overrides = 0;
  readonly errors = new RuleErrorList();
  readonly warnings = new RuleErrorList();
  readonly #options: SourceCheckOptions;

  constructor(options: SourceCheckOptions) {
    this.#options = options;
  }

  /**
   * Reads rule files as a limiter does: all of them together. It also reads files for OVERRIDES_DIR among them, of which only
   * errors matter. Commands use the sources only if none of the files has an error.
   */
  ruleFiles(files: readonly RuleText[], load?: string): void {
    const rules: RuleText[] = [];
    for (const file of files) {
      if (looksLikeOverrides(file.text)) this.#overrideFile(file);
      else rules.push(file);
    }
    const named = rules.map(({ path, text }) => ({ name: path, text }));
    const { located, errors, errorCount, warnings, rejectedFiles } = readRuleFiles(named, this.#options);
    for (const error of errors) this.errors.add(error);
    this.errors.addUnlisted(errorCount - errors.length);
    for (const warning of warnings) this.warnings.add(warning);
    // The review of a merged domain needs all of its files.
    const leftOut =
      errorCount > 0 && this.#options.mergeDomains ? new Set(rules.map(({ path }) => path)) : rejectedFiles;
    for (const file of leftOut) this.unreviewed.add(file);
    for (const { source, file, placeOf } of located) {
      if (leftOut.has(file)) continue;
      const unknown = { fleet: undefined, object: undefined };
      const loaded: LoadedSource = { kind: 'rule-file', file, load, source, ...unknown, placeOf };
      this.reviewable.push(loaded);
      if (errorCount > 0) this.rejectedSources.add(loaded);
    }
  }

  /** Reads a file of overrides. The limiter decides when they end. */
  #overrideFile({ path, text }: RuleText): void {
    const { overrides, errors } = readOverrideFile(path, text, { nowMs: 0, maxSeconds: Infinity });
    this.overrides += overrides.length;
    for (const error of errors) this.errors.add(error);
  }

  /**
   * Reads RateLimitConfigs among Kubernetes objects, as the control plane does, and the rule files in ConfigMaps, as a limiter
   * does that mounts them. Finds files of callers and profiles in ConfigMaps. Skips all other objects.
   */
  manifests(file: string, text: string): void {
    const { manifests, overrides, rejected, errors, skipped } = readManifests(text, file);
    for (const error of errors) this.errors.add({ ...error, text: formatManifestError(error) });
    if (errors.length > 0) this.unreviewed.add(file);
    for (const { type, line, value } of skipped) {
      const { rules = [], others = [] } = configMapFiles(file, value);
      if (rules.length + others.length === 0) this.skipped.push({ file, type, line });
      // Each ConfigMap is a separate load, because it is unknown which of them a limiter mounts.
      if (rules.length > 0) this.ruleFiles(rules, rules[0]!.path);
      this.embedded.push(...rules);
      this.embeddedOthers.push(...others);
    }
    for (const manifest of manifests) this.#manifest(file, manifest, false);
    for (const override of overrides) this.#override(file, override);
    for (const manifest of rejected) this.#manifest(file, manifest, true);
  }

  #manifest(file: string, { metadata, spec, placeOf }: Manifest, isRejected: boolean): void {
    const name = isRejected ? metadata.name : `${metadata.namespace}/${metadata.name}`;
    const reading = readSpec(spec, name, this.#options.support);
    if (!reading.ok) {
      for (const error of reading.errors) this.#reject(file, error, placeOf);
      this.errors.addUnlisted(reading.errorCount - reading.errors.length);
      this.unreviewed.add(file);
    } else if (!isRejected) {
      const { source, fleet, className } = reading;
      this.reviewable.push({
        ...{ kind: 'manifests', file, load: undefined, source, fleet, className, object: metadata },
        placeOf: (path) => placeOf(['spec', ...path.map(fieldName)]),
      });
    }
  }

  /** Reads a RateLimitOverride. The control plane decides where it goes and when it ends. */
  #override(file: string, { metadata, spec, placeOf }: Manifest): void {
    const { problems = [] } = readOverrideObject(spec, metadata);
    this.overrides += problems.length === 0 ? 1 : 0;
    for (const { path, text } of problems)
      this.#reject(file, { code: 'wrong-type', path: ['spec', ...path], text }, placeOf);
  }

  /** Reports an error of an object, with its path at the start. */
  #reject(file: string, error: FieldProblem, placeOf: PlaceOf): void {
    const { code, path } = error;
    this.errors.add({ code, source: file, text: formatManifestError(error), path, ...placeOf(path) });
  }

  /** Reads xDS resources in JSON. Resources of other types are skipped. */
  resources(file: string, text: string): void {
    // JSON is YAML, and the reader of YAML knows lines.
    const document = readManifestDocument(text);
    if (!document.ok) {
      if (document.empty) return;
      const { text: problem, line, column } = document;
      this.errors.add({ code: 'syntax', source: file, text: problem, path: [], line, column });
      this.unreviewed.add(file);
      return;
    }
    const placeOf = valuePlacer(document.tape);
    for (const resource of resourcesFromJson(document.value)) {
      const { path } = resource;
      if ('otherType' in resource) {
        this.skipped.push({ file, type: resource.otherType, line: placeOf(path).line });
        continue;
      }
      if ('unreadable' in resource) {
        // These paths lead to fields as the text spells them.
        for (const problem of resource.unreadable)
          this.#reject(file, { ...problem, path: [...path, ...problem.path] }, placeOf);
        this.unreviewed.add(file);
        continue;
      }
      const placeIn: PlaceOf = (below) => placeOf([...path, ...below.map(fieldName)]);
      const before = this.errors.count;
      const reject = ({ code, text: words, path: below }: FieldProblem): void => {
        this.errors.add({ code, source: file, text: words, path: [...path, ...below], ...placeIn(below) });
        this.unreviewed.add(file);
      };
      const { source, problems } = resource;
      problems.forEach(reject);
      checkSources([source], { mergeDomains: false, support: this.#options.support }, reject);
      if (this.errors.count > before) continue;
      this.reviewable.push({
        ...{ kind: 'resources', file, load: undefined, source, fleet: undefined, object: undefined },
        placeOf: placeIn,
      });
    }
  }
}

/** Reads a RateLimitOverride of this name, whose time counts from its creation. The control plane decides where it goes. */
export function readOverrideObject(
  spec: unknown,
  { namespace, name }: { namespace: string; name: string },
  createdMs = 0,
): ReturnType<typeof readOverride> {
  const { className: _, fleet: __, ...own } = fieldsOf(spec);
  const id = `${namespace}/${name}`;
  return readOverride(own, {
    ...{ source: 'object', id, name: id, createdMs, by: '', fromMs: createdMs },
    ...{ maxSeconds: Number.POSITIVE_INFINITY, rejectsPast: false },
  });
}

/**
 * The rule files among the entries of a ConfigMap, which are `*.yaml` and `*.yml`, as a limiter reads its folder, and others that a
 * limiter reads.
 */
function configMapFiles(
  container: string,
  object: Readonly<Record<string, unknown>>,
): { rules?: EmbeddedText[]; others?: EmbeddedText[] } {
  if (object['apiVersion'] !== 'v1' || object['kind'] !== 'ConfigMap') return {};
  const { name, namespace } = fieldsOf(object['metadata']);
  const place = [namespace, name].filter((part) => typeof part === 'string').join('/');
  const files = Object.entries(fieldsOf(object['data'])).flatMap(([key, text]) => {
    if (!/\.ya?ml$/.test(key) || typeof text !== 'string') return [];
    const one = { path: `${container} ConfigMap ${place}/${key}`, text, container };
    // ConfigMaps of other programs may have the same fields, so the names of the chart's files count, too.
    const isOther = /^(callers|profiles)\.ya?ml$/.test(key) && kindOfFile(one) !== 'rules';
    return isOther || isRuleFile(text) ? [{ ...one, isOther }] : [];
  });
  return Object.groupBy(files, ({ isOther }) => (isOther ? 'others' : 'rules'));
}

/** Returns the kind of a file by its first key. */
export function kindOfFile({ text }: RuleText): 'callers' | 'profiles' | 'rules' {
  const decoded = decodeYaml(text);
  if (typeof decoded !== 'string') return 'rules';
  if (looksLikeCallers(decoded)) return 'callers';
  return looksLikeProfiles(decoded) ? 'profiles' : 'rules';
}

/**
 * Returns whether a text is a rule file: it has `descriptors`, or begins with `domain`. ConfigMaps also hold the files of other
 * programs.
 */
function isRuleFile(text: string): boolean {
  if (textKind(text) !== 'rule-file') return false;
  return (
    /^["']?descriptors["']?[ \t]*:/m.test(text) || /^(?:\s|#.*\n|---)*["']?domain["']?[ \t]*:/.test(text)
  );
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
