import type { JsonObject, RateLimit, Rule } from '../model.ts';
import { unitFromText } from '../unit-from-text.ts';
import { bounds } from './bounds.ts';
import { jsonProblem } from './json-problem.ts';

/** Something wrong with the meaning of a spec, with its path from `spec` on. */
export interface SpecProblem {
  code: 'unit-when-unlimited' | 'wrong-type';
  text: string;
  path: (string | number)[];
}

/**
 * Stands for a key or a value that cannot be read: found to be no duplicate of a readable one, and to be no reason why
 * a shared threshold is refused.
 */
const unreadable = '\uFFFD*';

/** Makes rules of `spec.descriptors`. Leaves out what is not of its type: the model reports it. */
export class SpecRules {
  readonly problems: SpecProblem[] = [];
  /** Rules of all levels. */
  count = 0;
  readonly #ownFields = new Set<string>();
  readonly #path: (string | number)[] = [];

  /** Fields in use that only this project's limiters know. */
  get ownFields(): string[] {
    return [...this.#ownFields].sort();
  }

  /** The rules of one level; a rule that is no object leaves a hole, which the validator passes over. */
  read(descriptors: unknown): Rule[] {
    if (!Array.isArray(descriptors) || this.#path.length >= 2 * bounds.descriptorLevels) return [];
    this.#path.push('descriptors', 0);
    const rules = descriptors.map((descriptor, index) => {
      this.#path[this.#path.length - 1] = index;
      return isObject(descriptor) ? this.#rule(descriptor) : undefined;
    });
    this.#path.length -= 2;
    return rules as Rule[];
  }

  #rule(given: Record<string, unknown>): Rule {
    this.count++;
    const valueToMetric = given['valueToMetric'] === true;
    const shareThreshold = given['shareThreshold'] === true;
    if (valueToMetric) this.#ownFields.add('valueToMetric');
    if (shareThreshold) this.#ownFields.add('shareThreshold');
    return {
      key: textOf(given['key'], unreadable),
      value: textOf(given['value'] ?? '', unreadable),
      rateLimit: isObject(given['rateLimit']) ? this.#rateLimit(given['rateLimit']) : undefined,
      shadowMode: given['shadowMode'] === true,
      quotaMode: given['quotaMode'] === true,
      detailedMetric: given['detailedMetric'] === true,
      valueToMetric,
      shareThreshold,
      metadata: metadataOf(given['metadata']),
      descriptors: this.read(given['descriptors']),
    };
  }

  #rateLimit(given: Record<string, unknown>): RateLimit {
    const { unit, requestsPerUnit, unlimited, replaces } = given;
    if (unlimited === true && typeof unit === 'string' && unitFromText(unit) === undefined) {
      this.#report('unit-when-unlimited', 'should not specify rate limit unit when unlimited', 'unit');
    }
    if (unlimited !== true && requestsPerUnit == null) {
      this.#report('wrong-type', 'is required (0 blocks everything)', 'requestsPerUnit');
    }
    return {
      unit: textOf(unit, ''),
      requestsPerUnit: typeof requestsPerUnit === 'number' ? requestsPerUnit : 0,
      unlimited: unlimited === true,
      name: textOf(given['name'], ''),
      replaces: Array.isArray(replaces) ? replaces.map(replacedName) : [],
    };
  }

  #report(code: SpecProblem['code'], text: string, field: string): void {
    this.problems.push({ code, text, path: [...this.#path, 'rateLimit', field] });
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown, otherwise: string): string {
  return typeof value === 'string' ? value : otherwise;
}

function replacedName(element: unknown): string {
  return isObject(element) ? textOf(element['name'], '') : '';
}

/** Undefined when there is nothing in it, or what the model refuses. */
function metadataOf(value: unknown): JsonObject | undefined {
  if (!isObject(value) || Object.keys(value).length === 0 || jsonProblem(value) !== undefined)
    return undefined;
  return value as JsonObject;
}
