/** What reading the texts of rules gives, whatever their spelling. */
import type { RuleSource } from './model.ts';
import type { RuleErrorList } from './rule-error.ts';
import type { TextPlace } from './yaml/places.ts';

/** The three spellings of rules. A text is told apart before it is read, so that its mistakes are those of its kind. */
export type TextKind = 'rule-file' | 'manifests' | 'resources';

/** A file as it was read. */
export interface RuleText {
  /** How errors name it. */
  path: string;
  text: string | Uint8Array;
}

/** An object or a resource that carries no rules. */
export interface SkippedObject {
  file: string;
  /** `v1 ConfigMap`, or the type URL of a resource. */
  type: string;
  line: number | undefined;
}

/** A rule file that is a value of an object. */
export interface EmbeddedText extends RuleText {
  /** Path of the text that has the object. */
  container: string;
}

/** The rules of one domain, and where they stand. */
export interface LoadedSource {
  kind: TextKind;
  /** Path of the file; several sources may be in one. */
  file: string;
  /** Rule files of one name are loaded together; undefined for those of the files given, and for other kinds. */
  load: string | undefined;
  source: RuleSource;
  /** Limiters that load it; undefined where the spelling does not say. */
  fleet: string | undefined;
  /** The class of a manifest: which control plane serves it. Undefined for other kinds. */
  className?: string;
  /** Of a manifest. */
  object: LoadedObject | undefined;
  /** Of the value at a path in the spelling of rule files (`descriptors`, 0, `rate_limit`); undefined where unknown. */
  placeOf(path: readonly (string | number)[]): TextPlace | undefined;
}

export interface LoadedObject {
  namespace: string;
  name: string;
  labels: Record<string, string>;
}

/** What the readers of the single spellings add to. */
export interface ReadingLists {
  sources: LoadedSource[];
  skipped: SkippedObject[];
  embedded: EmbeddedText[];
  /** Good ones, which lie over rules and are none. */
  overrides: number;
  errors: RuleErrorList;
  warnings: RuleErrorList;
}
