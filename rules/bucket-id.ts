/**
 * Bucket ids of quota clients. They are maps without an order, but descriptors have an order. A bucket id belongs to a rule if
 * all of its entries, in the order of the rule's levels, are a descriptor that the rule matches.
 */
import { type FieldRow, limitFields, ruleFields } from './language/fields.ts';
import type { MatchedRule, RuleWalk } from './match-result.ts';
import type { Entry, Rule } from './model.ts';

/** One order of a bucket's entries that finds a rule with a limit. */
export interface BucketOrder {
  readonly rule: MatchedRule;
  readonly entries: readonly Entry[];
}

/** Chosen: the number of rules to look at for one bucket id. Only rules for many orders of the same keys need more. */
const maxLooks = 2_000;

/** Returns all orders; the order of the first rule is first. Undefined if there are too many to look at. */
export function bucketOrders(walk: RuleWalk, entries: readonly Entry[]): BucketOrder[] | undefined {
  const found: BucketOrder[] = [];
  const order: Entry[] = [];
  const isUsed = entries.map(() => false);
  let looks = 0;
  const descend = (place: number): void => {
    for (const [index, entry] of entries.entries()) {
      if (isUsed[index] || looks >= maxLooks) continue;
      looks += 1;
      const step = walk.step(place, entry.key, entry.value);
      if (step === undefined) continue;
      order.push(entry);
      isUsed[index] = true;
      if (order.length < entries.length) descend(step.place);
      else if (step.rule !== undefined) found.push({ rule: step.rule, entries: [...order] });
      isUsed[index] = false;
      order.pop();
    }
  };
  descend(walk.start);
  if (looks >= maxLooks) return undefined;
  return found.sort((a, b) => a.rule.order - b.rule.order);
}

type Traits = Pick<MatchedRule, 'limits'> | Pick<Rule, 'limits'>;

const ofRules: [string, FieldRow][] = Object.entries(ruleFields);
const ofLimits: [string, FieldRow][] = Object.entries(limitFields);

const passingFields = ofRules.filter(([, { forQuotaClients }]) => forQuotaClients === 'pass');
const formFields = ofRules.filter(([, { forQuotaClients }]) => forQuotaClients === 'form');

/** Returns the value of the first of these fields that is written. Undefined if none is. */
function writtenValue(rows: readonly [string, FieldRow][], owner: object): unknown {
  const found = rows.find(([name, row]) => isWritten(owner, name, row));
  return found && Reflect.get(owner, found[0]);
}

/** Returns whether the owner has a value that an empty rule or limit does not have. */
function isWritten(owner: object, name: string, { words }: FieldRow): boolean {
  const value = Reflect.get(owner, name);
  return value !== undefined && value !== '' && value !== false && value !== words?.[0];
}

/**
 * Returns why no part of a rule's limits can be assigned to quota clients, with the field that prevents it. Undefined if they can
 * be assigned.
 */
export function whyUnassignable(rule: Traits): { field: string; why: string } | undefined {
  const owners = [{ owner: rule, rows: ofRules }, ...rule.limits.map((owner) => ({ owner, rows: ofLimits }))];
  for (const { owner, rows } of owners) {
    for (const [name, row] of rows) {
      const { forQuotaClients: meaning } = row;
      if (typeof meaning === 'object' && isWritten(owner, name, row))
        return { field: name, why: meaning.unassignable };
    }
  }
  return undefined;
}

/** Returns whether all requests pass, whatever the limits of the rule are. */
export function passesAll(rule: Traits): boolean {
  return writtenValue(passingFields, rule) === true;
}

/** Returns the form of assignments that a rule sets. Undefined if its limits determine the form. */
export function wantedForm(rule: Traits): 'exact' | 'refilling' | undefined {
  const form = writtenValue(formFields, rule);
  return form === 'exact' || form === 'refilling' ? form : undefined;
}
