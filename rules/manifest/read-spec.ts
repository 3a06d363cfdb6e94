import type { z } from 'zod';
import type { RuleSource } from '../model.ts';
import { type RuleError, type RuleErrorCode, RuleErrorList } from '../rule-error.ts';
import { checkSources } from '../validate-sources.ts';
import { defaultFleet } from './bounds.ts';
import { fieldPath } from './manifest-error.ts';
import { specModel } from './spec-model.ts';
import { isObject, SpecRules } from './spec-rules.ts';

export type SpecReading = AcceptedSpec | RefusedSpec;

export interface AcceptedSpec {
  ok: true;
  fleet: string;
  source: RuleSource;
  /** Rules of all levels. */
  rules: number;
  /** Fields in use that only this project's limiters know, as manifests spell them. */
  ownFields: string[];
}

export interface RefusedSpec {
  ok: false;
  /** The first 1,000; paths begin with `spec`. */
  errors: RuleError[];
  /** How many there are in all. */
  errorCount: number;
  /** What could be read all the same. */
  fleet?: string;
  domain?: string;
}

/** Reads `spec` of a RateLimitConfig whose source is to be called `name`. Never throws. */
export function readSpec(spec: unknown, name: string): SpecReading {
  const found = new SpecErrors(name);
  const parsed = specModel.safeParse(spec);
  if (!parsed.success) found.addIssues(parsed.error.issues);
  const given = isObject(spec) ? spec : {};
  const rules = new SpecRules();
  const descriptors = rules.read(given['descriptors']);
  const domain = typeof given['domain'] === 'string' ? given['domain'] : '';
  const fleet = given['fleet'] ?? defaultFleet;
  const source = { name, domain, descriptors };
  for (const { code, text, path } of rules.problems) found.addMeaning(code, text, path);
  checkSources([source], { mergeDomains: false }, ({ code, text, path }) => {
    found.addMeaning(code, text, path.map(fieldName));
  });
  if (found.list.count === 0) {
    return { ok: true, fleet: fleet as string, source, rules: rules.count, ownFields: rules.ownFields };
  }
  return {
    ok: false,
    errors: found.list.errors,
    errorCount: found.list.count,
    ...(found.isRefused('fleet') || spec !== given ? {} : { fleet: fleet as string }),
    ...(found.isRefused('domain') || domain === '' ? {} : { domain }),
  };
}

/** The errors of one spec: what is not of its form, and what means nothing, unless that follows from the former. */
class SpecErrors {
  readonly list = new RuleErrorList();
  readonly #name: string;
  /** Paths of values that are not of their form. */
  readonly #refused = new Set<string>();

  constructor(name: string) {
    this.#name = name;
  }

  /** Whether a field of `spec` is not of its form. */
  isRefused(field: string): boolean {
    return this.#refused.has('spec') || this.#refused.has(`spec.${field}`);
  }

  addIssues(issues: readonly z.core.$ZodIssue[]): void {
    for (const issue of issues) {
      const path = ['spec', ...(issue.path as (string | number)[])];
      if (issue.code === 'unrecognized_keys') {
        for (const key of issue.keys) this.#add('unknown-key', unknownField(key), [...path, key]);
      } else {
        this.#refused.add(fieldPath(path));
        this.#add('wrong-type', issue.message, path);
      }
    }
  }

  addMeaning(code: RuleErrorCode, text: string, below: readonly (string | number)[]): void {
    const path = ['spec', ...below];
    if (this.#refused.size === 0 || !this.#follows(code, path)) this.#add(code, text, path);
  }

  /** Whether the value, what it stands in, or a key's value is not of its form. */
  #follows(code: RuleErrorCode, path: readonly (string | number)[]): boolean {
    const isAbove = path.some((_, index) => this.#refused.has(fieldPath(path.slice(0, index + 1))));
    if (isAbove || code !== 'duplicate-descriptor') return isAbove;
    return this.#refused.has(fieldPath([...path.slice(0, -1), 'value']));
  }

  #add(code: RuleErrorCode, text: string, path: readonly (string | number)[]): void {
    this.list.add({ code, source: this.#name, text, path, line: undefined, column: undefined });
  }
}

/** Names of fields of which rule files have another spelling. */
const fieldNames = new Map(
  [
    'rateLimit',
    'requestsPerUnit',
    'shadowMode',
    'quotaMode',
    'detailedMetric',
    'valueToMetric',
    'shareThreshold',
  ].map((name) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), name]),
);

/** `rateLimit` for `rate_limit`, whose spelling the validator's paths have. */
export function fieldName<Step extends string | number>(step: Step): Step | string {
  return typeof step === 'number' ? step : (fieldNames.get(step) ?? step);
}

function unknownField(key: string): string {
  const meant = fieldNames.get(key);
  return meant === undefined ? 'unknown field' : `unknown field, did you mean '${meant}'?`;
}
