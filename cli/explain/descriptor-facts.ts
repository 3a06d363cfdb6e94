/** What is known about a request besides its rules: what a running limiter reports, or what the overrides of a cluster change. */

import { existsSync } from 'node:fs';
import { OverrideIndex } from '../../limiter/decide/override-index.ts';
import { type ExplainOptions, inForceWords } from '../../limiter/operate/explain.ts';
import { type Override, overrideJson } from '../../rules/override.ts';
import { askingOf, type Json, LimitersClient, limitersAt, type Question } from '../operate/limiters.ts';
import { CommandError, type ParsedFlags } from '../shared/flags.ts';
import { inputOfLimiter } from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { escaped } from '../shared/text.ts';
import { explainRequest } from './explain-request.ts';

/** Whether an argument is `host:port`, also with `http://` as for `--limiter`, and not the name of a file. */
export function isLimiter(path: string): boolean {
  return /^(?:http:\/\/)?(?:\[[0-9a-f:.]+\]|[^/\\:]+):\d{1,5}\/?$/i.test(path) && !existsSync(path);
}

/** The facts that a limiter has about a descriptor, in addition to its rules. */
export interface DescriptorFacts {
  /** The overrides that match. */
  overrides: string[];
  /** The keys of its counters. */
  counters: string[];
  /** The effect of the rule and its overrides. */
  inForce: { effect: 'limited' | 'unlimited' | 'replaced' | 'none'; limits: string[] };
}

export interface LimiterExplanation {
  sources: readonly LoadedSource[];
  /** One element for each descriptor. */
  known: DescriptorFacts[];
}

/** Rejects if the limiter cannot be reached. */
export async function askLimiter(
  address: string,
  flags: ParsedFlags,
  { domain, descriptors, nowSeconds }: ExplainOptions,
): Promise<LimiterExplanation> {
  const asking = askingOf(flags);
  const limiters = new LimitersClient(await limitersAt([address], asking.timeoutMs), asking);
  const { members, silent } = await limiters.found();
  const [first] = members;
  if (first === undefined) throw new CommandError(`${silent[0]!.address}: ${silent[0]!.problem}`, 2);
  const ask = async (question: Question): Promise<Json> => {
    const answer = await limiters.ask(first.limiter, question);
    if (answer.ok) return answer.body;
    throw new CommandError(answer.problem, 2);
  };
  const files = await ask({ path: '/rlconfig', query: { format: 'json' } });
  const at = new Date(nowSeconds * 1000).toISOString();
  const explained = descriptors.map((entries) =>
    ask({ method: 'POST', path: '/v1/explain', body: { domain, entries, at } }),
  );
  const known = (await Promise.all(explained)).map(factsOf);
  return { sources: inputOfLimiter(address, files).sources, known };
}

function factsOf({ override, grants, counters, inForce, effect }: Json): DescriptorFacts {
  const overrides: Json[] = [...(override === null ? [] : [override]), ...grants];
  return {
    overrides: overrides.map(overrideText),
    counters,
    inForce: { effect, limits: inForce },
  };
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

/** Returns for example `override: blocked, by ada, until 2026-01-31T12:00:00Z (api "stop")`. */
export function overrideText(override: Json): string {
  const { source, name, endsAt, createdBy, reason, requestsPerUnit, unit, grant, block, unlimited } =
    override;
  const what =
    grant !== undefined
      ? `${grant} more`
      : block === true
        ? 'blocked'
        : unlimited === true
          ? 'unlimited'
          : requestsPerUnit === undefined
            ? 'shadow mode'
            : `${requestsPerUnit} ${unit === undefined ? 'per window' : `per ${unit}`}`;
  const words = [
    `override: ${what}`,
    ...(endsAt ? [`until ${endsAt}`] : []),
    ...(createdBy ? [`by ${createdBy}`] : []),
    ...(reason ? [`for "${reason}"`] : []),
  ];
  return escaped(`${words.join(', ')} (${source} ${name})`);
}
