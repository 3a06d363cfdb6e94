import { defaultExplaining, type ExplainOptions } from '../../limiter/operate/explain.ts';
import { ruleSupport } from '../../limiter/settings/rule-support.ts';
import { overridePlural, plural } from '../../rules/language/kinds.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { clusterRules, overridesInForce, rulesInForce } from '../operate/cluster-rules.ts';
import { askingOf } from '../operate/limiters.ts';
import { shownList } from '../operate/objects-section.ts';
import { type Cluster, clusterHelp, withCluster } from '../shared/cluster.ts';
import { rootsOf } from '../shared/contained-files.ts';
import { type ParsedFlags, printProblem, readTime, rejectIdle, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { describedLimiter, mergesDomains } from '../shared/limiter-setting.ts';
import {
  isUrl,
  printInputErrors,
  printLoadConflicts,
  readInput,
  readUrl,
  servedByFlags,
  sourcesServedBy,
} from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { type CommandReport, outputHelp, reportCommand } from '../shared/report.ts';
import { entryTexts, readRequest } from '../shared/request.ts';
import { escaped, paintFor } from '../shared/text.ts';
import { askLimiter, type DescriptorFacts, factsWith, isLimiter } from './descriptor-facts.ts';
import { ExplainReport, explanationValue } from './explain-report.ts';
import { describeBucket, explainRequest, readBucket, type ShownDescriptor } from './explain-request.ts';

/** Flags for the time of the request and the settings of the limiter. */
export const requestHelp = `  --at <time>                 show the counter at this time: RFC 3339 or seconds since 1970 (default now)
  --setting <NAME=VALUE>      a setting of the limiter that affects the names of counters and statistics, or leases, such as COUNTER_KEYS=unambiguous. Repeat the flag for several (default: the variables COUNTER_KEYS and REQUEST_MAX_TEXT_BYTES)
`;

/** A request, and what a limiter with the settings of the flags can count; undefined without settings. */
interface LimiterRequest extends ExplainOptions {
  support: RuleSupport | undefined;
}

/** Reads the request of `words` and the limiter's settings from the flags. Rejects with a UsageError. */
export async function requestOf(words: readonly string[], flags: ParsedFlags): Promise<LimiterRequest> {
  const at = flags.text('at');
  const { domain, descriptors } = readRequest(words, 'explain');
  if (descriptors.length === 0) throw new UsageError('explain needs the entries of a descriptor, key=value');
  const limiter = await describedLimiter(flags, ['COUNTER_KEYS', 'REQUEST_MAX_TEXT_BYTES']);
  return {
    ...(limiter?.explaining ?? defaultExplaining),
    support: limiter && ruleSupport(limiter.settings),
    domain,
    descriptors,
    nowSeconds: at === undefined ? Math.floor(Date.now() / 1000) : Math.floor(readTime('--at', at) / 1000),
  };
}

/** Reports how the sources of one load handle the request. Returns status 2 after printing why no limiter would load them. */
export function explanationOf(
  sources: readonly LoadedSource[],
  { support, ...options }: LimiterRequest,
  {
    mergeDomains,
    known = [],
    isBucket = false,
  }: { mergeDomains: boolean; known?: readonly DescriptorFacts[]; isBucket?: boolean },
): CommandReport | number {
  if (printLoadConflicts(sources, { mergeDomains, support })) return 2;
  const bucket = isBucket ? describeBucket(sources, options.domain, options.descriptors[0]!) : undefined;
  const request = explainRequest(
    sources,
    bucket === undefined ? options : { ...options, descriptors: [bucket.entries] },
  );
  request.descriptors = request.descriptors.map((reported, index) => withKnown(reported, known[index]));
  return {
    status: request.descriptors.every(({ effect }) => effect !== 'none') ? 0 : 1,
    value: explanationValue(options.domain, request, sources, bucket?.words),
    text: () => {
      const report = new ExplainReport(sources, paintFor(io().stdout), options.defaultLease);
      const first = bucket === undefined ? '' : `bucket: ${escaped(bucket.words)}\n`;
      return first + report.text(options.domain, request);
    },
  };
}

function withKnown(reported: ShownDescriptor, known: DescriptorFacts | undefined): ShownDescriptor {
  if (known === undefined) return reported;
  const { overrides, counters: keys, inForce } = known;
  const isSame = keys.length === reported.counters.length;
  const counters = reported.counters.map((one, index) => ({ ...one, key: isSame ? keys[index]! : one.key }));
  if (overrides.length === 0) return { ...reported, overrides, counters };
  const limits = inForce.limits.map((words, index) => ({ words, key: keys[index] }));
  return { ...reported, overrides, counters, effect: inForce.effect, inForce: limits };
}

const help = `Usage: weir explain <rules> <domain> <key=value> ... [+ <key=value> ...] [flags]
       weir explain <rules> <domain> --bucket <key=value,...> [flags]

Shows which rule applies to a request and why, level by level, with its counter and similar rules. It counts
nothing. <rules> is a file, a folder, - for standard input, or host:port of the debug listener of a running limiter. A limiter
also shows its overrides, and names counters by its settings. "kubectl weir explain" reads the objects of a cluster. Put a +
between two descriptors of the request.

${requestHelp}  --bucket <entries>          a bucket of quota clients instead of a descriptor, such as name=x,plan=gold, in any order; only for rules in files
  --class <name>              the class of the manifests to read, if there are several
  --fleet <name>              the fleet of the manifests to read, if there are several
  --merge-domain-configs      allow several files for one domain, as MERGE_DOMAIN_CONFIG=true does
  --root <folder>             do not read files outside this folder (default: the folder of a file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed
  --token-file <path>         a file with the token, for a limiter that requires one (default: the file that WEIR_TOKEN_FILE names)
  --timeout <t>               how long to wait for the answers of a limiter (default 5s)
${outputHelp}
  weir explain examples/rules shop path=/search/shoes plan=gold
  weir explain localhost:6070 shop 'path=/a b'
  weir explain examples/rules shop --bucket plan=gold,path=/search/shoes

Exit status: 0 when a rule limits each descriptor, or lets it pass as unlimited or replaced. 1 when one has no limit.
2 for a wrong command line, or rules that cannot be read.
`;

/** Flags that select which rules of files a limiter loads. */
const ofFiles = ['class', 'fleet', 'merge-domain-configs', 'root'];

export const explainCommand = reportCommand(help, async (flags) => {
  const [path, ...words] = flags.positionals;
  const bucket = flags.text('bucket');
  const isBucket = bucket !== undefined;
  // Without rules, the first words are the domain and an entry.
  const isDomainFirst = !isBucket && words.length === 1 && words[0]!.includes('=');
  if (path === undefined || isDomainFirst)
    throw new UsageError('explain needs rules before the domain: a file, a folder or host:port of a limiter');
  if (isBucket && words.length > 1)
    throw new UsageError('--bucket takes the place of the entries of a descriptor');
  const entries = isBucket ? entryTexts(readBucket(bucket)) : [];
  const options = await requestOf([...words, ...entries], flags);
  if (isBucket && isLimiter(path)) throw new UsageError('--bucket needs the files of the rules');
  if (isLimiter(path)) {
    rejectIdle(flags, ofFiles, 'with a limiter, which has loaded its rules');
    const { sources, known } = await askLimiter(path, flags, options);
    return explanationOf(sources, options, { mergeDomains: true, known });
  }
  if (!isUrl(path)) rejectIdle(flags, ['token-file', 'timeout'], 'without a limiter');
  const mergeDomains = flags.on('merge-domain-configs') || mergesDomains(flags.list('setting'));
  const input = isUrl(path)
    ? await readUrl(path, askingOf(flags))
    : readInput(path, { mergeDomains, roots: rootsOf(flags) });
  if (printInputErrors(input)) return 2;
  const sources = sourcesServedBy(input.sources, servedByFlags(flags));
  return explanationOf(sources, options, { mergeDomains, isBucket });
});

const inClusterHelp = `Usage: kubectl weir explain <domain> <key=value> ... [+ <key=value> ...] [flags]

Shows which rule of the cluster's RateLimitConfigs applies to a request and why, level by level, and its object. It uses
only accepted objects, and counts nothing. RateLimitOverrides change the limits as in limiters. It reads all namespaces, because a domain belongs to the whole fleet. If you have no
right to do this, -n reads one namespace, and objects of others may be missing.

${requestHelp}  --class <name>              class of the objects, if the domain is in several
  --fleet <name>              fleet of the objects, if the domain is in several
${clusterHelp.replace('the namespace of the context, else "default"', 'all namespaces')}${outputHelp}
  kubectl weir explain shop path=/search/shoes plan=gold

Exit status: 0 when a rule limits each descriptor, or lets it pass as unlimited or replaced. 1 when one has no limit.
2 for a wrong command line, a cluster that does not answer, or rules in force that the cluster does not have.
`;

export const clusterExplainCommand = reportCommand(inClusterHelp, (flags) =>
  withCluster(flags, (cluster) => explainInCluster(flags, cluster)),
);

async function explainInCluster(flags: ParsedFlags, cluster: Cluster): Promise<CommandReport | number> {
  const options = await requestOf(flags.positionals, flags);
  const namespace = cluster.isNamespaceGiven ? cluster.namespace : undefined;
  const objects = await cluster.list(plural, namespace, clusterRules);
  const chosen = servedByFlags(flags);
  const { sources, notes, problems } = rulesInForce(objects, options.domain, chosen);
  if (namespace !== undefined && !sources.some(({ source }) => source.domain === options.domain))
    notes.push(`only namespace ${namespace} was looked at: the domain may have rules in another one`);
  const holder = sources.find(({ source }) => source.domain === options.domain);
  const served = holder === undefined ? chosen : { className: holder.className, fleet: holder.fleet };
  const stored = await shownList(cluster, overridePlural, namespace, (value) => value);
  const { overrides, notes: more } = overridesInForce(stored, options.domain, served);
  for (const text of [...notes, ...more, ...problems]) printProblem(text);
  if (problems.length > 0) return 2;
  // The control plane accepted these objects together, so several sources of a domain are merged.
  const known = factsWith(overrides, sources, options);
  return explanationOf(sources, options, { mergeDomains: true, known });
}
