import type { LoadedSource } from '../../rules/documents/loaded-source.ts';
import { defaultFleet } from '../../rules/manifest/bounds.ts';
import type { RuleSource } from '../../rules/model.ts';
import { formatRuleError } from '../../rules/rule-error.ts';
import { checkSources } from '../../rules/validate-sources.ts';
import { UsageError } from './flags.ts';

/**
 * The sources that limiters of one fleet load: all but the manifests of other fleets. Without a choice there must be one
 * fleet only. @throws UsageError
 */
export function sourcesOfFleet(sources: readonly LoadedSource[], fleet: string | undefined): LoadedSource[] {
  const fleets = [...new Set(sources.flatMap((one) => one.fleet ?? []))];
  if (fleet === undefined && fleets.length > 1) {
    throw new UsageError(`there are rules of several fleets, choose one by --fleet: ${fleets.join(', ')}`);
  }
  return sources.filter((one) => fleet === undefined || one.fleet === undefined || one.fleet === fleet);
}

/** By fleet; what names none is for the default one. */
export function byFleet(sources: readonly LoadedSource[]): Map<string, LoadedSource[]> {
  return Map.groupBy(sources, ({ fleet }) => fleet ?? defaultFleet);
}

/** Prints why sources cannot be loaded together, each being well by itself; returns whether there is a reason. */
export function printClashes(sources: readonly LoadedSource[], options: { mergeDomains: boolean }): boolean {
  const bySource = new Map<RuleSource, LoadedSource>(sources.map((loaded) => [loaded.source, loaded]));
  let found = false;
  checkSources([...bySource.keys()], options, ({ source, code, text, path }) => {
    found = true;
    const loaded = bySource.get(source)!;
    const { line, column } = loaded.placeOf(path) ?? { line: undefined, column: undefined };
    const words = code === 'duplicate-domain' ? duplicateText(loaded, text) : text;
    const error = { code, source: loaded.file, text: words, path, line, column };
    process.stderr.write(`weir: ${formatRuleError(error)}\n`);
  });
  return found;
}

/** The Go service's words are about files; an object or a resource has a name of its own. */
function duplicateText({ kind, source }: LoadedSource, text: string): string {
  if (kind === 'rule-file') return text;
  const what = kind === 'manifests' ? 'manifest' : 'resource';
  return `duplicate domain '${source.domain}' in ${what} ${source.name}: limiters get only one of them`;
}
