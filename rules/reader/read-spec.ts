/** Reads `spec` of a RateLimitConfig: rules, and errors with their places. */

import { defaultClass, defaultFleet, specFields } from '../language/kinds.ts';
import { FieldPlace, fieldName, fieldTable, manifestWords } from '../language/tables.ts';
import { isObject, type RuleSource } from '../model.ts';
import { type RuleError, RuleErrorList } from '../rule-error.ts';
import type { RuleSupport } from '../validate-limits.ts';
import { checkSources } from '../validate-sources.ts';
import type { DocumentPath } from '../yaml/places.ts';
import { FollowUps } from './follow-ups.ts';
import { type FieldProblem, ManifestReader } from './manifest-reader.ts';

const specTable = fieldTable(FieldPlace.FILE, specFields);

export type SpecReading = AcceptedSpec | RejectedSpec;

export interface AcceptedSpec {
  ok: true;
  className: string;
  fleet: string;
  source: RuleSource;
  /** The number of rules on all levels. */
  rules: number;
  /** Fields in use that only this project's limiters support, as manifests spell them. */
  ownFields: string[];
}

export interface RejectedSpec {
  ok: false;
  /** The first 1,000; paths begin with `spec`. */
  errors: RuleError[];
  /** The number of all errors. */
  errorCount: number;
  /** Paths, from the spec on, of fields that this version does not know. */
  unknown: DocumentPath[];
  /** The fleet and class that could be read despite the errors. */
  fleet?: string;
  domain?: string;
}

/** Returns `className` of an unchecked spec. Undefined if it is not a text; then no control plane reports on the object. */
export function classNameOf(spec: unknown): string | undefined {
  const className = isObject(spec) ? (spec['className'] ?? defaultClass) : defaultClass;
  return typeof className === 'string' ? className : undefined;
}

/**
 * Reads `spec` of a RateLimitConfig. Its source gets the name `name`. `support`: the support of the limiters that load it; full
 * support if it is left out. Never throws.
 */
export function readSpec(spec: unknown, name: string, support?: RuleSupport): SpecReading {
  const reader = new ManifestReader(['spec']);
  const {
    className = defaultClass,
    fleet = defaultFleet,
    domain = '',
    descriptors = [],
  } = reader.read(specTable, spec);
  const source = { name, domain, descriptors };
  const list = new RuleErrorList();
  const add = (problem: FieldProblem): void => {
    list.add({ ...problem, source: name, line: undefined, column: undefined });
  };
  reader.problems.forEach(add);
  const followUps = new FollowUps(reader.problems);
  checkSources([source], { mergeDomains: false, support }, ({ code, text, path: below }) => {
    const path = ['spec', ...below.map(fieldName)];
    if (!followUps.includes({ code, path }, () => isWritten({ spec }, path)))
      add({ code, text: manifestWords(text), path });
  });
  if (list.count === 0) {
    const ownFields = [...reader.ownFields].sort();
    return { ok: true, className, fleet, source, rules: reader.count, ownFields };
  }
  const has = (field: string): boolean => !followUps.isUnread(['spec', field]);
  return {
    ok: false,
    errors: list.errors,
    errorCount: list.count,
    unknown: reader.unknown.map((path) => path.slice(1)),
    ...(has('fleet') && { fleet }),
    ...(has('domain') && domain !== '' && { domain }),
  };
}

/** Whether there is a value at a path. */
function isWritten(value: unknown, path: DocumentPath): boolean {
  const [step, ...below] = path;
  if (step === undefined) return value !== undefined;
  return typeof value === 'object' && value !== null && isWritten(Reflect.get(value, step), below);
}
