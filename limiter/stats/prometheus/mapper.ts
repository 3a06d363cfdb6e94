/**
 * Which metric a statistic becomes. All globs are tried before any regular expression; of the expressions the first one
 * that matches wins. Expressions are RE2's: no name takes longer than its length times that of the expression.
 */
import { RE2JS } from 're2js';

import { metricName } from './exposition-text.ts';
import { GlobMatcher, globCaptures } from './glob-matcher.ts';
import { literalEnd } from './literal-end.ts';
import type { Mapping, MappingRule, ObserverOptions, StatKind } from './mapping-rule.ts';
import { type Captured, Template } from './template.ts';

/** A metric's name and labels, and how its values are kept. */
export interface MappedMetric {
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  /** False for what no rule matched. */
  readonly isMapped: boolean;
  readonly honorLabels: boolean;
  readonly help: string | undefined;
  readonly scale: number;
  readonly ttlMs: number;
  readonly observer: ObserverOptions;
}

interface PreparedRule {
  readonly rule: MappingRule;
  readonly name: Template;
  readonly labels: readonly (readonly [string, Template])[];
}

interface PreparedExpression extends PreparedRule {
  readonly expression: RE2JS;
  readonly end: string;
}

const noLabels: ReadonlyMap<string, string> = new Map();
const kinds: readonly StatKind[] = ['counter', 'gauge', 'observer'];

export class Mapper {
  readonly #globs: readonly PreparedRule[];
  readonly #trees: ReadonlyMap<StatKind, GlobMatcher>;
  readonly #expressions: readonly PreparedExpression[];
  readonly #unmapped: Mapping['unmapped'];

  /** Throws what RE2 says of an expression that is none. */
  constructor({ rules, globDisableOrdering, unmapped }: Mapping) {
    this.#unmapped = unmapped;
    this.#globs = rules.filter(({ matchType }) => matchType === 'glob').map(prepared);
    this.#expressions = rules
      .filter(({ matchType }) => matchType === 'regex')
      .map((rule) => ({
        ...prepared(rule),
        expression: RE2JS.compile(rule.match),
        end: literalEnd(rule.match),
      }));
    this.#trees = new Map(
      kinds.map((kind) => {
        const tree = new GlobMatcher({ mostSpecific: globDisableOrdering });
        for (const [index, { rule }] of this.#globs.entries()) {
          if (fits(rule, kind)) tree.add(rule.match, index);
        }
        return [kind, tree];
      }),
    );
  }

  /** Undefined for what is dropped, or would have no name. */
  map(stat: string, kind: StatKind): MappedMetric | undefined {
    const glob = this.#trees.get(kind)?.find(stat);
    if (glob !== undefined) {
      const prepared = this.#globs[glob] as PreparedRule;
      const captures = globCaptures(prepared.rule.match, stat);
      return mapped(prepared, (reference) => captures[Number(reference) - 1]);
    }
    for (const prepared of this.#expressions) {
      if (!fits(prepared.rule, kind) || !stat.endsWith(prepared.end)) continue;
      const matcher = prepared.expression.matcher(stat);
      if (!matcher.find()) continue;
      const names = prepared.expression.namedGroups();
      return mapped(prepared, (reference) => {
        const group = /^\d+$/.test(reference) ? Number(reference) : names[reference];
        if (group === undefined || group > matcher.groupCount()) return undefined;
        return matcher.group(group) ?? undefined;
      });
    }
    const { observer, ttlMs } = this.#unmapped;
    const rest = { isMapped: false, honorLabels: false, help: undefined, scale: 1, ttlMs, observer };
    return { name: metricName(stat), labels: noLabels, ...rest };
  }
}

function prepared(rule: MappingRule): PreparedRule {
  const labels = rule.labels.map(([name, value]) => [name, new Template(value)] as const);
  return { rule, name: new Template(rule.name), labels };
}

function fits(rule: MappingRule, kind: StatKind): boolean {
  return rule.kind === undefined || rule.kind === kind;
}

function mapped({ rule, name, labels }: PreparedRule, captured: Captured): MappedMetric | undefined {
  if (rule.action === 'drop') return undefined;
  const expanded = name.expand(captured);
  if (expanded === '') return undefined;
  const { honorLabels, help, scale, ttlMs, observer } = rule;
  return {
    name: metricName(expanded),
    labels: new Map(labels.map(([label, value]) => [label, value.expand(captured)])),
    isMapped: true,
    honorLabels,
    help,
    scale,
    ttlMs,
    observer,
  };
}
