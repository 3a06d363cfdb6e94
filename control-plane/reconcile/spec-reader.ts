import { isDeepStrictEqual } from 'node:util';
import { readSpec } from '../../rules/manifest/index.ts';
import type { RuleSource } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { encodeResource } from '../../rules/xds/index.ts';
import { type ConfigObject, objectKey } from '../model/config-object.ts';
import { hashOf, type Resource } from '../model/fleet-snapshot.ts';

/** A spec that validates, as limiters get it. */
export interface ReadRules {
  ok: true;
  fleet: string;
  domain: string;
  /** Rules of all levels. */
  rules: number;
  /** As `ServedConfig.ownFields`. */
  ownFields: readonly string[];
  /** The object's rules alone, whatever they are merged with. */
  resource: Resource;
  /** `key` or `key_value` of each rule on the top level: objects of one domain may not share any. */
  topKeys: readonly string[];
}

export interface UnreadableSpec {
  ok: false;
  errors: readonly RuleError[];
  /** More than are listed, when there are very many. */
  errorCount: number;
}

export type SpecReading = ReadRules | UnreadableSpec;

/** Reads and encodes each spec once: specs never change, so what was read of one stays true. */
export class SpecReader {
  readonly #readings = new WeakMap<object, { name: string; reading: SpecReading }>();

  /**
   * `spec` is the object's own or the one kept for it. `before` is what the object was the last time: a source may read
   * a spec anew although only the status has changed.
   */
  read(object: ConfigObject, spec: unknown, before: ConfigObject | undefined): SpecReading {
    const name = objectKey(object);
    if (typeof spec !== 'object' || spec === null) return readingOf(spec, name);
    let known = this.#readings.get(spec);
    if (
      known === undefined &&
      before?.generation === object.generation &&
      isDeepStrictEqual(before.spec, spec)
    ) {
      known = this.#readings.get(before.spec as object);
    }
    if (known?.name !== name) known = { name, reading: readingOf(spec, name) };
    this.#readings.set(spec, known);
    return known.reading;
  }
}

function readingOf(spec: unknown, name: string): SpecReading {
  const result = readSpec(spec, name);
  if (!result.ok) return { ok: false, errors: result.errors, errorCount: result.errorCount };
  const { fleet, source, rules, ownFields } = result;
  const bytes = encodeResource(source);
  const resource = { name, domain: source.domain, bytes, hash: hashOf(bytes) };
  return { ok: true, fleet, domain: source.domain, rules, ownFields, resource, topKeys: topKeysOf(source) };
}

function topKeysOf({ descriptors }: RuleSource): string[] {
  return descriptors.map(({ key, value }) => (value === '' ? key : `${key}_${value}`));
}
