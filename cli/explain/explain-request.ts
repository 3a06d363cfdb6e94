/** Explains a request by rules, and converts a bucket of quota clients, whose entries have no order, to its descriptor. */
import {
  type ExplainedDescriptor,
  type ExplainOptions,
  explainDescriptors,
} from '../../limiter/operate/explain.ts';
import { type BucketOrder, bucketOrders, passesAll, whyUnassignable } from '../../rules/bucket-id.ts';
import type { Entry } from '../../rules/model.ts';
import { placedRules } from '../../rules/review/rule-level.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { UsageError } from '../shared/flags.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { entryTexts, readEntry } from '../shared/request.ts';

export interface ExplainedRequest {
  hasDomain: boolean;
  /** All domains with rules. */
  domains: string[];
  descriptors: ShownDescriptor[];
}

/** A descriptor, with the answer of a limiter if one was queried. */
export interface ShownDescriptor extends ExplainedDescriptor {
  /** The overrides, in words. */
  overrides?: readonly string[] | undefined;
  /** The limits that result from rules and overrides, with their counters. Undefined if no override matches. */
  inForce?: readonly { words: string; key: string | undefined }[] | undefined;
}

/** `sources` are those of one load. */
export function explainRequest(sources: readonly LoadedSource[], options: ExplainOptions): ExplainedRequest {
  const rules = sources.map(({ source }) => source);
  const table = new RuleTable(compileRules(rules));
  const { domain } = options;
  const top = rules.flatMap((source, index) =>
    source.domain === domain ? placedRules(source.descriptors, index, []) : [],
  );
  const descriptors = explainDescriptors(table, top, options);
  const domains = [...new Set(rules.map((source) => source.domain))];
  return { hasDomain: table.hasDomain(domain), domains, descriptors };
}

/** The descriptor of a bucket, and how it is counted. */
export interface DescribedBucket {
  /** The entries in the order in which a rule matches them, or sorted by key if none does. */
  readonly entries: readonly Entry[];
  readonly words: string;
}

/** Reads the bucket of `--bucket`, such as `name=x,plan=gold`. @throws UsageError */
export function readBucket(text: string): Entry[] {
  const entries = text.split(',').map(readEntry);
  const keys = new Set(entries.map(({ key }) => key));
  if (keys.size < entries.length) throw new UsageError(`--bucket ${text}: a bucket has each key once`);
  return entries.sort((a, b) => (a.key < b.key ? -1 : 1));
}

export function describeBucket(
  sources: readonly LoadedSource[],
  domain: string,
  entries: readonly Entry[],
): DescribedBucket {
  const table = new RuleTable(compileRules(sources.map(({ source }) => source)));
  const walk = table.walk(domain);
  const orders = walk === undefined ? [] : bucketOrders(walk, entries);
  if (orders === undefined)
    return { entries, words: 'its entries have too many orders: RLQS_UNASSIGNABLE decides' };
  const [first, ...others] = orders;
  if (first === undefined)
    return {
      entries,
      words: 'no order of all its entries has a rule with a limit: RLQS_NO_RULE decides',
    };
  return { entries: first.entries, words: `${orderWords(first, others.length)}; ${assignedWords(first)}` };
}

function orderWords({ entries }: BucketOrder, others: number): string {
  const order = entryTexts(entries).join(', ');
  const more = others === 0 ? '' : `, the first in the file of ${others + 1} orders that rules match`;
  return `its entries are the descriptor ${order}${more}`;
}

function assignedWords({ rule }: BucketOrder): string {
  if (passesAll(rule)) return 'all its requests are allowed, and counted';
  const obstacle = whyUnassignable(rule);
  return obstacle === undefined
    ? 'clients get what its limits allow'
    : `RLQS_UNASSIGNABLE decides: ${obstacle.why}`;
}
