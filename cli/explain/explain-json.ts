import type { LoadedSource } from '../../rules/documents/index.ts';
import { type ExplainedStep, ruleName } from '../../rules/explanation/index.ts';
import type { PlacedRule } from '../../rules/review/index.ts';
import { noLimitWords } from './explain-report.ts';
import type { ExplainedDescriptor, ExplainedRequest } from './explain-request.ts';

/** An explanation for programs. */
export function explainJson(
  domain: string,
  request: ExplainedRequest,
  sources: readonly LoadedSource[],
): string {
  const { hasDomain, domains } = request;
  const descriptors = request.descriptors.map((one) => descriptorJson(one, sources));
  return `${JSON.stringify({ domain, hasDomain, domains, descriptors }, undefined, 2)}\n`;
}

function descriptorJson(
  { entries, explanation: { steps, outcome }, effect, replacedName, counter }: ExplainedDescriptor,
  sources: readonly LoadedSource[],
): object {
  return {
    entries,
    effect,
    reason: outcome.kind === 'found' ? undefined : { kind: outcome.kind, text: noLimitWords(outcome) },
    rule: outcome.kind === 'found' ? ruleJson(outcome.placed, sources) : undefined,
    replacedName,
    counterKey: counter?.key,
    windowStart: counter?.windowStartSeconds,
    windowEnd: counter?.windowEndSeconds,
    metric: counter?.metric,
    levels: steps.map((step) => stepJson(step, sources)),
  };
}

function stepJson(
  { entry, found, passedOver, near, levelSize }: ExplainedStep,
  sources: readonly LoadedSource[],
): object {
  return {
    entry,
    found: found && { ...ruleJson(found.placed, sources), how: found.how },
    passedOver: passedOver.map(({ placed, how }) => ({ ...ruleJson(placed, sources), how })),
    near: near.map((placed) => ruleJson(placed, sources)),
    rulesOnLevel: levelSize,
  };
}

function ruleJson(placed: PlacedRule, sources: readonly LoadedSource[]): object {
  const loaded = sources[placed.source];
  const place = loaded?.placeOf([...placed.path, 'key']);
  const { key, value, rateLimit, shadowMode, quotaMode } = placed.rule;
  return {
    name: ruleName(placed),
    key,
    value,
    rateLimit,
    shadowMode,
    quotaMode,
    ...(place === undefined ? {} : { file: loaded?.file, line: place.line, column: place.column }),
  };
}
