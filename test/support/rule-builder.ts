import {
  type Limit,
  makeLimit,
  noTraits,
  type Rule,
  type RuleSource,
  type Unit,
  unitName,
} from '../../rules/model.ts';
import { type RuleError, RuleErrorList } from '../../rules/rule-error.ts';
import { checkSources, type SourceCheckOptions } from '../../rules/validate-sources.ts';

/** A rule with the given traits, all others at their defaults. `rateLimit`: its only limit. */
export function rule({ rateLimit, ...traits }: RuleTraits): Rule {
  return {
    value: '',
    limits: rateLimit === undefined ? [] : [rateLimit],
    ...noTraits,
    descriptors: [],
    ...traits,
  };
}

export type RuleTraits = Partial<Rule> & { key: string; rateLimit?: Limit | undefined };

/** A limit's fields, its unit by number or as it is written. */
export type LimitParts = Partial<Omit<Limit, 'unit'>> & { unit?: Unit | string };

/** 10 per minute unless configured otherwise. */
export function limit({ unit = 'minute', ...parts }: LimitParts = {}): Limit {
  return makeLimit({ unit: typeof unit === 'string' ? unit : unitName(unit), requestsPerUnit: 10, ...parts });
}

export function source(domain: string, descriptors: Rule[], name = `${domain}.yaml`): RuleSource {
  return { name, domain, descriptors };
}

/** What is wrong with the meaning of sources, without places. */
export function validateSources(sources: readonly RuleSource[], options: SourceCheckOptions): RuleError[] {
  const list = new RuleErrorList();
  checkSources(sources, options, ({ source: { name }, code, text, path }) => {
    list.add({ code, source: name, text, path, line: undefined, column: undefined });
  });
  return list.errors;
}
