/** The rules that a replay plays requests through: those of one fleet, which a limiter could load together. */
import type { RuleSource } from '../../rules/model.ts';
import { UsageError } from '../shared/flags.ts';
import { printInputErrors } from '../shared/input-problems.ts';
import { printClashes, sourcesOfFleet } from '../shared/one-load.ts';
import { readInput } from '../shared/read-input.ts';

/** Undefined when they cannot be loaded; the reasons are then on standard error. @throws UsageError */
export function readReplayRules(
  path: string,
  options: { mergeDomains: boolean; fleet: string | undefined },
): RuleSource[] | undefined {
  const input = readInput(path, options);
  if (printInputErrors(input)) return undefined;
  const sources = sourcesOfFleet(input.sources, options.fleet);
  if (sources.length === 0 && input.sources.length > 0) {
    throw new UsageError(`${path} has no rules of the fleet "${options.fleet}"`);
  }
  return printClashes(sources, options) ? undefined : sources.map(({ source }) => source);
}
