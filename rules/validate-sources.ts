import { leaseProblem } from './lease.ts';
import { compositeOf, type JsonValue, type Rule, type RuleSource } from './model.ts';
import { reserveProblem } from './reserve.ts';
import { type RuleErrorCode, unknownWord } from './rule-error.ts';
import { sharingField, sharingProblem } from './sharing.ts';
import { checkLimits, type RuleSupport } from './validate-limits.ts';

/** Returns why metadata cannot be a google.protobuf.Struct. Undefined if it can. */
function metadataProblem(value: JsonValue, place = ''): string | undefined {
  if (typeof value === 'number') {
    return Number.isFinite(value) ? undefined : `number ${value} at '${place}' has no JSON form`;
  }
  if (typeof value === 'string') return textProblem(value, place);
  if (value === null || typeof value !== 'object') return undefined;
  for (const [key, member] of Object.entries(value)) {
    const here = place === '' ? key : `${place}.${key}`;
    const problem = textProblem(key, here) ?? metadataProblem(member, here);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function textProblem(text: string, place: string): string | undefined {
  return text.isWellFormed() ? undefined : `text at '${place}' is not valid Unicode`;
}

const assignedForms = ['exact', 'refilling'];

/** A mistake in the meaning of a source. The path leads to the value, or to the place where it is missing. */
export interface SourceProblem {
  source: RuleSource;
  code: RuleErrorCode;
  text: string;
  path: (string | number)[];
}

export interface SourceCheckOptions {
  /** Whether several sources may add rules to one domain. */
  mergeDomains: boolean;
  /** The limits that the limiter can count. All of them by default. */
  support?: RuleSupport | undefined;
}

/** Checks the meaning of rules from any source. The first problem is the one that the Go service would report. */
export function checkSources(
  sources: readonly RuleSource[],
  { mergeDomains, support }: SourceCheckOptions,
  report: (problem: SourceProblem) => void,
): void {
  const levels = new Map<string, Set<string>>();
  for (const source of sources) {
    const check = new SourceCheck(source, support, report);
    const { domain } = source;
    if (domain === '') check.report('empty-domain', 'config file cannot have empty domain', 'domain');
    const earlier = levels.get(domain);
    const isDuplicate = domain !== '' && earlier !== undefined && !mergeDomains;
    if (isDuplicate)
      check.report('duplicate-domain', `duplicate domain '${domain}' in config file`, 'domain');
    const level = domain !== '' && mergeDomains && earlier !== undefined ? earlier : new Set<string>();
    if (earlier === undefined) levels.set(domain, level);
    check.rules(source.descriptors, `${domain}.`, level);
  }
}

class SourceCheck {
  readonly #source: RuleSource;
  readonly #support: RuleSupport | undefined;
  readonly #report: (problem: SourceProblem) => void;
  readonly #reportLimit = this.report.bind(this);
  readonly #path: (string | number)[] = [];

  constructor(
    source: RuleSource,
    support: RuleSupport | undefined,
    report: (problem: SourceProblem) => void,
  ) {
    this.#source = source;
    this.#support = support;
    this.#report = report;
  }

  report(code: RuleErrorCode, text: string, ...below: (string | number)[]): void {
    this.#report({ source: this.#source, code, text, path: [...this.#path, ...below] });
  }

  /** Checks the rules of one level. `level` holds the composite keys that it already has. */
  rules(rules: readonly (Rule | undefined)[], parent: string, level: Set<string>): void {
    this.#path.push('descriptors', 0);
    const { length } = rules;
    for (let index = 0; index < length; index++) {
      const rule = rules[index];
      this.#path[this.#path.length - 1] = index;
      if (rule !== undefined) this.#rule(rule, parent, level);
    }
    this.#path.length -= 2;
  }

  #rule(rule: Rule, parent: string, level: Set<string>): void {
    const composite = compositeOf(rule);
    if (rule.key === '') {
      this.report('empty-key', 'descriptor has empty key', 'key');
    } else {
      const before = level.size;
      if (level.add(composite).size === before) {
        this.report(
          'duplicate-descriptor',
          `duplicate descriptor composite key '${parent}${composite}'`,
          'key',
        );
      }
    }
    if (rule.limits.length > 0) checkLimits(rule, { parent, support: this.#support }, this.#reportLimit);
    const unleasable = leaseProblem(rule);
    if (unleasable !== undefined) this.report('invalid-lease', unleasable, 'lease');
    const { assign = '' } = rule;
    if (assign !== '' && !assignedForms.includes(assign))
      this.report('invalid-assign', unknownWord('assign', assignedForms, assign), 'assign');
    if (rule.reserve !== undefined) this.#reserve(rule, `${parent}${composite}`);
    const unshared = sharingProblem(rule);
    if (unshared !== undefined) this.report('share-threshold-without-wildcard', unshared, sharingField);
    if (rule.metadata !== undefined) {
      const problem = metadataProblem(rule.metadata);
      if (problem !== undefined)
        this.report('invalid-metadata', `error parsing metadata: ${problem}`, 'metadata');
    }
    if (rule.descriptors.length > 0) this.rules(rule.descriptors, `${parent}${composite}.`, new Set());
  }
  #reserve(rule: Rule, composite: string): void {
    const problem = reserveProblem(rule);
    if (problem !== undefined) this.report('invalid-reserve', problem, 'reserve');
    const reason = this.#support?.reservations;
    if (reason !== undefined)
      this.report('uncountable', `reserve of '${composite}' cannot be stored: ${reason}`, 'reserve');
  }
}
