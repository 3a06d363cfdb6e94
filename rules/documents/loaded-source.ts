import type { RuleSource } from '../model.ts';
import type { TextPlace } from '../yaml/line-index.ts';
import type { TextKind } from './text-kind.ts';

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
