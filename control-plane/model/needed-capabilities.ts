/** Derives the capabilities that rules need from the rows of the rule language. */
import {
  type Capabilities,
  knownCapabilities,
  noCapabilities,
  type RuleCapability,
} from '../../rules/language/capabilities.ts';
import { type FieldRow, type FieldRows, limitFields, ruleFields } from '../../rules/language/fields.ts';
import {
  isDefault,
  type Limit,
  makeLimit,
  maxUint32,
  noTraits,
  type Rule,
  rulesOfAllLevels,
} from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';

export function neededForOverride({ effect }: Override): Capabilities {
  const hits = effect.kind === 'grant' ? effect.hits : effect.kind === 'limit' ? effect.requestsPerUnit : 0;
  return hits > maxUint32 ? ['overrides', 'wide-numbers'] : ['overrides'];
}

type Needs = readonly (readonly [property: string, capability: RuleCapability])[];

/** Properties that need a capability unless they have their default. */
const ruleNeeds = needsOf(ruleFields);
const limitNeeds = needsOf(limitFields);
/** Numbers that need a capability above 32 bits. */
const wideNeeds: Needs = Object.entries<FieldRow>(limitFields).flatMap(([name, { ifWide }]) =>
  ifWide === undefined ? [] : [[name, ifWide.withhold] as const],
);
const severalLimits = ruleFields.rateLimits.ifUnknown.withhold;
const defaultLimit = makeLimit({});

function needsOf(rows: FieldRows): Needs {
  return Object.entries(rows).flatMap(([name, { ifUnknown, isSpelling }]) =>
    typeof ifUnknown !== 'object' || isSpelling === true ? [] : [[name, ifUnknown.withhold] as const],
  );
}

export function neededCapabilities(rules: readonly Rule[]): Capabilities {
  const needed = new Set<RuleCapability>();
  for (const [rule, own] of rulesOfAllLevels(rules)) {
    addWritten(needed, ruleNeeds, rule, noTraits);
    if (own.length > 1) needed.add(severalLimits);
    for (const limit of own) {
      addWritten(needed, limitNeeds, limit, defaultLimit);
      addWide(needed, limit);
    }
  }
  return needed.size === 0 ? noCapabilities : knownCapabilities(needed);
}

function addWritten<Values extends object>(
  needed: Set<RuleCapability>,
  needs: Needs,
  values: Values,
  defaults: Partial<Values>,
): void {
  for (const [name, capability] of needs)
    if (!isDefault(values[name as keyof Values], defaults[name as keyof Values])) needed.add(capability);
}

function addWide(needed: Set<RuleCapability>, limit: Limit): void {
  for (const [name, capability] of wideNeeds)
    if (Number(limit[name as keyof Limit]) > maxUint32) needed.add(capability);
}
