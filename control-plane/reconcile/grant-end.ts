/** When a grant ends by the rules under it, as limiters have it: nothing in the object says it. */
import { hasWindows } from '../../rules/algorithms/registry.ts';
import { calendarWindow } from '../../rules/calendar.ts';
import { limitLabel } from '../../rules/describe.ts';
import { type Limit, Unit } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { secondsOfLimit } from '../../rules/window.ts';
import { decodeResource } from '../../rules/xds/resource.ts';
import type { Resource } from '../model/fleet-snapshot.ts';

/** Domains with grants alone; as long as their rules stay. */
const tables = new WeakMap<Resource, RuleTable>();

/** In milliseconds since 1970; or why it does nothing. `rules` are those of its domain; undefined: there are none. */
export function grantEnd(
  { domain, match, limit: name, createdMs }: Override,
  rules: Resource | undefined,
): number | { problem: string } {
  if (rules === undefined) return { problem: 'there are no rules of the domain to grant more of' };
  const table = tables.get(rules) ?? new RuleTable(compileRules([decodeResource(rules.bytes)]));
  tables.set(rules, table);
  const limits = table.match(domain, match)?.rule.limits ?? [];
  const limit =
    name === ''
      ? limits.length === 1
        ? limits[0]
        : undefined
      : limits.find((one) => limitLabel(limits, one) === name);
  if (limit === undefined) {
    const which = name === '' ? 'exactly one limit' : `a limit ${name}`;
    return { problem: `its entries match no rule with ${which}` };
  }
  return endOfWindow(limit, createdMs);
}

/** The window that it was given in; of other algorithms a window's length after. */
function endOfWindow(limit: Limit, createdMs: number): number {
  const { unit, unitMultiplier, calendar } = limit;
  if (calendar !== undefined) return calendarWindow(calendar, Math.floor(createdMs / 1000)).endSeconds * 1000;
  const lengthMs = secondsOfLimit(limit) * 1_000;
  if (!hasWindows(limit)) return createdMs + lengthMs;
  const endMs = (Math.floor(createdMs / lengthMs) + 1) * lengthMs;
  if (unit !== Unit.MONTH) return endMs;
  // Limiters may be set to months of the calendar, and nobody reports here: the later end is certain.
  const created = new Date(createdMs);
  return Math.max(endMs, Date.UTC(created.getUTCFullYear(), created.getUTCMonth() + unitMultiplier, 1));
}
