import type { Rule } from '../../rules/model.ts';
import {
  type KeySource,
  type NeededRateLimit,
  neededRateLimits,
  sourceProblem,
} from '../../rules/proxy/needed-rate-limits.ts';
import { rootsOf } from '../shared/contained-files.ts';
import { choiceOf, commandOf, hintOf, type ParsedFlags, printProblem, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import {
  printInputErrors,
  printLoadConflicts,
  readInput,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { escaped } from '../shared/text.ts';
import { type EnvoyOutput, envoyOutputs, guessWords, istioLimiter, parseKeySource } from './envoy-texts.ts';

const help = `Usage: weir envoy <rules> [...] [flags]

Writes Envoy's rate limit actions for these rules: one list of actions for each list of keys that has a limit. Envoy provides the values of its own keys, such as remote_address and generic_key, of path, method and host, and of keys named like a header (x-plan, x_plan). For other keys, use --from, or fill in the marked places. <rules> are files and folders of rule files or
manifests; - is standard input.

  --output rate_limits   only the list, for the RateLimitPerRoute of a route (default)
  --output filter        also the rate limit filter and the cluster of the limiter
  --output bootstrap     a complete configuration for a test: Envoy on port 10000, in front of a service that answers hello
  --output istio         EnvoyFilters for the ingress gateways of Istio
  --from <key>=<source>  where the value of the key comes from. Repeat the flag for several. Sources: header:<name>, query:<name>, path, method, host, generic (the value in the rule, set by the route), header_match:<name> (the value in the rule, if the request has this header), query_match:<name>
  --limiter <host:port>  the limiter's gRPC listener (default: 127.0.0.1:8081; for Istio
                         weir-limiter.weir-system.svc.cluster.local:8081)
  --domain <domain>      only this domain, if there are several
  --class <name>         the class of the manifests to read, if there are several (one per control plane)
  --fleet <name>         the fleet of the manifests to read, if there are several
  --merge-domain-configs allow several files for one domain, as MERGE_DOMAIN_CONFIG=true does
  --root <folder>        do not read files outside this folder (default: the folder of each file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed

  weir envoy examples/rules --domain shop
  weir envoy examples/rules --domain shop --from plan=header:x-plan --output filter

weir check --envoy shows whether an Envoy and the rules fit together.
Exit status: 0 when it was written, 2 for a wrong command line, or rules that cannot be read.
`;

const outputs = Object.keys(envoyOutputs) as EnvoyOutput[];

// The help has a row for each value of the flag.
export const envoyCommand = commandOf(help, writeEnvoy, {
  flags: { output: { type: 'string', short: 'o', values: outputs } },
});

function writeEnvoy(flags: ParsedFlags): number {
  const form = choiceOf(flags, 'output', outputs) ?? 'rate_limits';
  const sources = keySources(flags.list('from'));
  const limiter = limiterAddress(flags.text('limiter'), form);
  if (flags.positionals.length === 0) throw new UsageError('envoy needs rules: a file or a folder');
  const mergeDomains = flags.on('merge-domain-configs');
  const roots = rootsOf(flags);
  const inputs = flags.positionals.map((path) => readInput(path, { mergeDomains, roots }));
  if (inputs.map(printInputErrors).includes(true)) return 2;
  const served = sourcesServedBy(
    inputs.flatMap((input) => input.sources),
    servedByFlags(flags),
  );
  if (printLoadConflicts(served, { mergeDomains })) return 2;
  const { domain, rules } = rulesOf(served, flags.text('domain'));
  rejectOtherKeys(sources, keysOf(rules));
  const needed = neededRateLimits(rules, sources);
  if (needed.length === 0)
    throw new UsageError(`no rule of "${escaped(domain)}" has a limit: Envoy has nothing to ask for`);
  noteGuesses(needed);
  io().stdout.write(envoyOutputs[form](needed, { domain, limiter }));
  return 0;
}

/** @throws UsageError */
function keySources(given: readonly string[]): Map<string, KeySource> {
  return new Map(
    given.map((text) => {
      const end = text.lastIndexOf('=');
      const [key, source] = [text.slice(0, Math.max(0, end)), parseKeySource(text.slice(end + 1))];
      if (key === '' || source === undefined) {
        const forms =
          'header:<name>, query:<name>, path, method, host, generic, header_match:<name> or query_match:<name>';
        throw new UsageError(`--from is <key>=<source> with a source of ${forms}, not "${text}"`);
      }
      const problem = sourceProblem(key, source);
      if (problem !== undefined) throw new UsageError(`--from ${text}: ${problem}`);
      return [key, source];
    }),
  );
}

/** Rejects a source for a key that no rule has, because the key must be misspelled. @throws UsageError */
function rejectOtherKeys(sources: ReadonlyMap<string, KeySource>, keys: ReadonlySet<string>): void {
  for (const key of sources.keys())
    if (!keys.has(key)) throw new UsageError(`--from: no rule has the key "${key}"${hintOf(key, [...keys])}`);
}

function keysOf(rules: readonly Rule[]): Set<string> {
  return new Set(rules.flatMap(({ key, descriptors }) => [key, ...keysOf(descriptors)]));
}

/** @throws UsageError */
export function limiterAddress(
  given: string | undefined,
  output: EnvoyOutput,
): { host: string; port: number } {
  const defaultValue = output === 'istio' ? `${istioLimiter.host}:${istioLimiter.port}` : '127.0.0.1:8081';
  const [, v6, name, port] =
    /^(?:\[([\da-fA-F:.]+)\]|([\w.-]+)):(\d{1,5})$/.exec(given ?? defaultValue) ?? [];
  const number = Number(port);
  const host = v6 ?? name;
  if (host !== undefined && number > 0 && number < 65_536) return { host, port: number };
  throw new UsageError(`--limiter is host:port, not "${given}"`);
}

function rulesOf(
  loaded: readonly LoadedSource[],
  chosen: string | undefined,
): { domain: string; rules: LoadedSource['source']['descriptors'] } {
  const domains = [...new Set(loaded.map(({ source }) => source.domain))];
  const domain = chosen ?? domains[0];
  if (chosen === undefined && domains.length > 1)
    throw new UsageError(
      `a filter has one domain, choose one by --domain: ${domains.map(escaped).join(', ')}`,
    );
  if (domain === undefined || !domains.includes(domain))
    throw new UsageError(
      `there are no rules for the domain "${chosen}"; there are ${domains.map(escaped).join(', ')}`,
    );
  const own = loaded.filter(({ source }) => source.domain === domain);
  return { domain, rules: own.flatMap(({ source }) => source.descriptors) };
}

function noteGuesses(needed: readonly NeededRateLimit[]): void {
  const words = new Set(needed.flatMap(({ guessed }) => guessed.map(guessWords)));
  for (const one of words) printProblem(`fill in ${one}`);
}
