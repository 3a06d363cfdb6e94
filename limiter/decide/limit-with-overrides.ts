/** Applies the overrides of a descriptor to one limit. */
import type { ChangedNumbers } from '../../rules/algorithms/algorithm.ts';
import { algorithmOf, hasWindows } from '../../rules/algorithms/registry.ts';
import { limitLabel } from '../../rules/describe.ts';
import { type Limit, makeLimit, type Unit } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import type { OverridesFound } from './override-index.ts';
import { lengthOf, numbersOf, type WindowOptions, windowAt } from './windows.ts';

export interface LimitWithOverrides {
  /** The limit of the rule. */
  readonly original: Limit;
  /** The limit with the changed numbers. Window and algorithm are unchanged. */
  readonly limit: Limit;
  /** The strongest override that applies and is not a grant; without one, the first grant. */
  readonly override: Override | undefined;
  /** Whether an override makes the limit `unlimited`. */
  readonly isLifted: boolean;
  /** The time at which the first of its grants ends; infinity if it has none. */
  readonly endsMs: number;
}

interface Overridable {
  readonly limit: Limit;
  /** Whether it is the only limit of its rule, so that an override need not name it. */
  readonly isOnly: boolean;
  /** The name of the limit, or its window if it has none. It distinguishes the limit from the others of its rule. */
  readonly label: string;
}

/** Returns a limit of a rule in the form that overrides need. */
export function overridable(limit: Limit, all: readonly Limit[]): Overridable {
  return { limit, isOnly: all.length === 1, label: limitLabel(all, limit) };
}

/** Returns a limit of one unit with the default algorithm. */
export function plainLimit(unit: Unit, requestsPerUnit: number): Limit {
  return { ...makeLimit({ requestsPerUnit }), unit };
}

export function limitWithOverrides(
  one: Overridable,
  { overrides, grants }: OverridesFound,
  nowMs: number,
  windows: WindowOptions,
): LimitWithOverrides {
  const { limit: original } = one;
  const strongest = overrides.find((override) => concerns(override, one));
  const effect = strongest?.effect;
  let limit = effect?.kind === 'limit' ? withRequests(original, effect.requestsPerUnit) : original;
  let override = strongest;
  let endsMs = Number.POSITIVE_INFINITY;
  for (const grant of grants) {
    const end = grantEndMs(grant, original, windows);
    if (grant.effect.kind !== 'grant' || !concerns(grant, one) || end <= nowMs) continue;
    endsMs = Math.min(endsMs, end);
    limit = withMore(limit, grant.effect.hits);
    override ??= grant;
  }
  return { original, limit, override, isLifted: effect?.kind === 'unlimited', endsMs };
}

/** Whether one of these overrides determines the number of one of these limits. */
export function changesLimit(limits: readonly Limit[], overrides: readonly Override[]): boolean {
  return limits.some((limit) => {
    const one = overridable(limit, limits);
    return overrides.find((override) => concerns(override, one))?.effect.kind === 'limit';
  });
}

/**
 * Whether an override applies to a limit. An override that names no limit applies to all limits of the rule. If it changes numbers, it
 * applies only to a rule with a single limit.
 */
function concerns({ limit: name, effect }: Override, { isOnly, label }: Overridable): boolean {
  if (name !== '') return name === label;
  return isOnly || (effect.kind !== 'limit' && effect.kind !== 'grant');
}

/**
 * Returns the end of a grant for this limit: its own date if it has one, otherwise the end of the window in which it was created. For a
 * limit without windows, the grant lasts as long as one window would.
 */
export function grantEndMs({ createdMs, endsMs }: Override, limit: Limit, windows: WindowOptions): number {
  if (endsMs !== undefined) return endsMs;
  if (!hasWindows(limit)) return createdMs + lengthOf(limit) * 1000;
  return windowAt(limit, Math.floor(createdMs / 1000), windows).endSeconds * 1000;
}

function withRequests(limit: Limit, requests: number): Limit {
  return changed(limit, algorithmOf(limit).withRequests(numbersOf(limit), requests));
}

function withMore(limit: Limit, hits: number): Limit {
  return changed(limit, algorithmOf(limit).withMore(numbersOf(limit), hits));
}

function changed(limit: Limit, { requests: requestsPerUnit, burst }: ChangedNumbers): Limit {
  return { ...limit, requestsPerUnit, burst };
}
