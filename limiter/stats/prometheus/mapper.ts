import { NameSearch } from '../registry/name-search.ts';
import { leasedHitsName } from '../registry/rule-stats.ts';
import {
  type Captured,
  defaultBuckets,
  defaultSummary,
  type MappedMetric,
  type Mapping,
  type MappingRule,
  type StatKind,
  Template,
} from './mapping-rules.ts';
import { metricName } from './metric-text.ts';

/**
 * Finds the rule whose pattern matches a name segment by segment: `*` is any one segment. Patterns form a tree of segments, so that a
 * name is compared with its own segments and not with every pattern. A node has at most two matching branches (the same text, and `*`)
 * and is visited once for a name, so the tree's size bounds the time.
 */
interface Node {
  readonly children: Map<string, Node>;
  any: Node | undefined;
  /** The number of the first pattern that ends here. */
  rule: number | undefined;
  /** The lowest number of all patterns that pass through here. */
  first: number;
}

export class GlobMatcher {
  readonly #root = newNode();
  readonly #mostSpecific: boolean;

  /**
   * Rules are numbered by their order. With `mostSpecific`, equal text takes precedence over `*`, from left to right; otherwise, the
   * first rule does.
   */
  constructor(options: { mostSpecific: boolean }) {
    this.#mostSpecific = options.mostSpecific;
  }

  /** Call it in ascending order of `rule`. */
  add(pattern: string, rule: number): void {
    let node = this.#root;
    for (const segment of pattern.split('.')) {
      node.first = Math.min(node.first, rule);
      node = childOf(node, segment);
    }
    node.first = Math.min(node.first, rule);
    node.rule ??= rule;
  }

  find(name: string): number | undefined {
    const segments = name.split('.');
    return this.#mostSpecific
      ? mostSpecificOf(this.#root, segments, 0)
      : firstOf(this.#root, segments, 0, Number.POSITIVE_INFINITY);
  }
}

/** Returns the segments that matched `*`. */
export function globCaptures(pattern: string, name: string): string[] {
  const segments = name.split('.');
  return pattern.split('.').flatMap((part, index) => (part === '*' ? [segments[index] as string] : []));
}

function newNode(): Node {
  return { children: new Map(), any: undefined, rule: undefined, first: Number.POSITIVE_INFINITY };
}

function childOf(node: Node, segment: string): Node {
  if (segment === '*') {
    node.any ??= newNode();
    return node.any;
  }
  let child = node.children.get(segment);
  if (child === undefined) {
    child = newNode();
    node.children.set(segment, child);
  }
  return child;
}

function mostSpecificOf(node: Node, segments: readonly string[], depth: number): number | undefined {
  if (depth === segments.length) return node.rule;
  const child = node.children.get(segments[depth] as string);
  const found = child && mostSpecificOf(child, segments, depth + 1);
  return found ?? (node.any && mostSpecificOf(node.any, segments, depth + 1));
}

/** Returns the lowest number below `limit`. */
function firstOf(node: Node, segments: readonly string[], depth: number, limit: number): number | undefined {
  if (node.first >= limit) return undefined;
  if (depth === segments.length) return node.rule !== undefined && node.rule < limit ? node.rule : undefined;
  const child = node.children.get(segments[depth] as string);
  const found = child && firstOf(child, segments, depth + 1, limit);
  const other = node.any && firstOf(node.any, segments, depth + 1, found ?? limit);
  return other ?? found;
}

/**
 * Returns a text with which every match of an expression ends, if this is obvious. Comparing it takes a hundredth of the time of the
 * expression. Returns an empty text if nothing is certain.
 */
export function literalEnd(expression: string): string {
  // Alternatives, flags, quotes and escapes of other characters may change the meaning of the text.
  if (/\||\(\?(?!:|P?<)|\\[^.dwsDWS]/.test(expression)) return '';
  const end = /(?<![\\\w])(?:\\\.|\w)*\$$/.exec(expression)?.[0] ?? '';
  return end.slice(0, -1).replaceAll('\\.', '.');
}

// Maps statistics to metrics. All globs are tried before any regular expression; of the expressions, the first match wins.

interface PreparedRule {
  readonly rule: MappingRule;
  readonly name: Template;
  readonly labels: readonly (readonly [string, Template])[];
}

interface PreparedExpression extends PreparedRule {
  readonly search: NameSearch;
  readonly end: string;
}

const noLabels: ReadonlyMap<string, string> = new Map();
const kinds: readonly StatKind[] = ['counter', 'gauge', 'observer'];

export class Mapper {
  readonly #globs: readonly PreparedRule[];
  readonly #trees: ReadonlyMap<StatKind, GlobMatcher>;
  readonly #expressions: readonly PreparedExpression[];
  readonly #unmapped: Mapping['unmapped'];

  /** @throws ExpressionError */
  constructor({ rules, globDisableOrdering, unmapped }: Mapping) {
    this.#unmapped = unmapped;
    this.#globs = rules.filter(({ matchType }) => matchType === 'glob').map(prepared);
    this.#expressions = rules
      .filter(({ matchType }) => matchType === 'regex')
      .map((rule) => ({
        ...prepared(rule),
        search: new NameSearch(rule.match),
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

  /** Returns undefined if the statistic is dropped, or would have no name. */
  map(stat: string, kind: StatKind): MappedMetric | undefined {
    const glob = this.#trees.get(kind)?.find(stat);
    if (glob !== undefined) {
      const prepared = this.#globs[glob] as PreparedRule;
      const captures = globCaptures(prepared.rule.match, stat);
      return mapped(prepared, (reference) => captures[Number(reference) - 1]);
    }
    for (const prepared of this.#expressions) {
      if (!fits(prepared.rule, kind) || !stat.endsWith(prepared.end)) continue;
      const { search } = prepared;
      const groups = search.find(stat);
      if (groups === undefined) continue;
      return mapped(prepared, (reference) => {
        const group = /^\d+$/.test(reference) ? Number(reference) : search.namedGroups[reference];
        return group === undefined ? undefined : groups(group);
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

// The mapping that applies without PROMETHEUS_MAPPER_YAML. Names and labels are the Go service's.

const ruleStats = [
  'near_limit',
  'over_limit',
  'total_hits',
  'within_limit',
  'shadow_mode',
  'passed',
  'limited',
  leasedHitsName,
] as const;

/** response_time may stay in milliseconds. As in the Go service, its name has seconds nevertheless. */
export function builtInMapping(options: { responseTimeAsMilliseconds: boolean }): Mapping {
  const prefix = 'ratelimit_service';
  return {
    rules: [
      ...ruleStats.flatMap(rulesOf),
      builtInMapped('ratelimit.service.call.should_rate_limit.*', `${prefix}_should_rate_limit_error`, {
        kind: 'counter',
        labels: [['err_type', '$1']],
      }),
      builtInMapped('ratelimit_server.*.total_requests', `${prefix}_total_requests`, {
        kind: 'counter',
        labels: [['grpc_method', '$1']],
      }),
      builtInMapped('ratelimit_server.*.response_time', `${prefix}_response_time_seconds`, {
        labels: [['grpc_method', '$1']],
        scale: options.responseTimeAsMilliseconds ? 1 : 0.001,
      }),
      ...['config_load_success', 'config_load_error'].map((stat) =>
        builtInMapped(`ratelimit.service.${stat}`, `${prefix}_${stat}`, { kind: 'counter' }),
      ),
    ],
    globDisableOrdering: false,
    unmapped: { observer: defaultSummary, ttlMs: 0 },
  };
}

/** Rules for one level of keys by a glob, and for two by an expression. The expression also matches deeper levels, which add up. */
function rulesOf(stat: string): MappingRule[] {
  const name = `ratelimit_service_rate_limit_${stat}`;
  const oneLevel = [
    ['domain', '$1'],
    ['key1', '$2'],
  ] as const;
  return [
    builtInMapped(`ratelimit.service.rate_limit.*.*.${stat}`, name, { labels: oneLevel }),
    // Both ends are anchored, so that over_limit does not match over_limit_with_local_cache.
    builtInMapped(
      `^ratelimit\\.service\\.rate_limit\\.([^.]*)\\.([^.]*)\\.([^.]*)(?:\\..*)?\\.${stat}$`,
      name,
      {
        matchType: 'regex',
        labels: [...oneLevel, ['key2', '$3']],
      },
    ),
  ];
}

function builtInMapped(match: string, name: string, options: Partial<MappingRule>): MappingRule {
  return {
    matchType: 'glob',
    match,
    kind: undefined,
    action: 'map',
    name,
    labels: [],
    honorLabels: false,
    help: undefined,
    scale: 1,
    ttlMs: 0,
    observer: { type: 'histogram', buckets: defaultBuckets },
    ...options,
  };
}
