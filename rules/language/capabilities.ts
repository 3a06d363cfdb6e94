/**
 * The parts of the rule language that not every limiter supports: fields, values and ranges. Limiters list their capabilities in
 * their node metadata, and the control plane sends them no rules that need others. `ifUnknown` and `ifWide` of the rows in `fields.ts`
 * say what needs a capability; overrides need one because other limiters take an override for a domain without rules.
 *
 * In the order of their age: if a version lacks one of them, it lacks those behind it, too.
 */
export const capabilities = [
  'windows',
  'algorithms',
  'overrides',
  'calendar',
  'reserve',
  'wide-numbers',
] as const;
export type RuleCapability = (typeof capabilities)[number];

/** Capabilities in the order of `capabilities`, without repetition. */
export type Capabilities = readonly RuleCapability[];

/** The capabilities of limiters that report none, such as envoyproxy/ratelimit, and the needs of rules that every limiter supports. */
export const noCapabilities: Capabilities = [];

/** Returns the capabilities that this version knows. A newer limiter may list others. */
export function knownCapabilities(names: Iterable<unknown>): Capabilities {
  const listed = new Set(names);
  return capabilities.filter((capability) => listed.has(capability));
}

export function supports(has: Capabilities, needs: Capabilities): boolean {
  return needs.every((capability) => has.includes(capability));
}
