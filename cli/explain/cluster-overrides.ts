/** The RateLimitOverrides of a cluster that apply to a request, as a limiter would report them. */
import { OverrideIndex } from '../../limiter/decide/override-index.ts';
import { type ExplainOptions, inForceWords } from '../../limiter/operate/explain.ts';
import { type Override, overrideJson } from '../../rules/override.ts';
import { readOverride } from '../../rules/reader/read-override.ts';
import { clusterRules } from '../operate/cluster-rules.ts';
import { isAccepted, shownOverride } from '../operate/shown-objects.ts';
import type { ServedBy } from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { explainRequest } from './explain-request.ts';
import { type DescriptorFacts, overrideText } from './limiter-rules.ts';

/** The overrides of a domain that limiters of this class and fleet apply. `notes` names those that some limiters do not apply. */
export function overridesInForce(
  objects: readonly unknown[],
  domain: string,
  served: ServedBy,
): { overrides: Override[]; notes: string[] } {
  const notes: string[] = [];
  const overrides = objects.flatMap((object) => {
    const { spec, createdMs } = clusterRules(object);
    const shown = shownOverride(object);
    const { namespace, className, fleet, why, isOver } = shown;
    const {
      className: _class,
      fleet: _fleet,
      ...own
    } = spec as { domain?: string; [field: string]: unknown };
    const isServed = (served.className ?? className) === className && (served.fleet ?? fleet) === fleet;
    if (own.domain !== domain || !isServed || isOver) return [];
    const name = `${namespace}/${shown.name}`;
    const isUsed = isAccepted(shown);
    const how = isUsed ? 'not in force everywhere' : 'not used';
    if (why !== undefined) notes.push(`override ${name} is ${how}: ${why.reason}, ${why.message}`);
    if (!isUsed) return [];
    const { override } = readOverride(own, {
      ...{ source: 'object', id: name, name, createdMs, by: '', fromMs: createdMs },
      ...{ maxSeconds: Number.POSITIVE_INFINITY, rejectsPast: false },
    });
    return override ?? [];
  });
  return { overrides, notes };
}

/** Explains each descriptor with the overrides. */
export function factsWith(
  overrides: readonly Override[],
  sources: readonly LoadedSource[],
  options: ExplainOptions,
): DescriptorFacts[] {
  const index = new OverrideIndex(overrides);
  const nowMs = options.nowSeconds * 1000;
  return options.descriptors.map((entries) => {
    const found = index.find(options.domain, entries, nowMs);
    const own = [...(found?.overrides ?? []), ...(found?.grants ?? [])];
    // As for a limiter, only the strongest override is shown.
    const shown = [...(found?.overrides.slice(0, 1) ?? []), ...(found?.grants ?? [])];
    const { descriptors } = explainRequest(sources, { ...options, descriptors: [entries], overrides: own });
    const { effect, counters } = descriptors[0]!;
    return {
      overrides: shown.map((one) => overrideText(overrideJson(one, nowMs))),
      counters: counters.map(({ key }) => key),
      inForce: { effect, limits: effect === 'unlimited' ? ['unlimited'] : counters.map(inForceWords) },
    };
  });
}
