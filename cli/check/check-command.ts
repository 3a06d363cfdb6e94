import { statSync } from 'node:fs';
import { ruleSupport, storeLimitSettings } from '../../limiter/settings/store-limits.ts';
import type { CounterKeys } from '../../rules/counter-keys.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { reportText } from '../forms/forms.ts';
import { checkMarkdown } from '../forms/markdown.ts';
import { isQuietReport, type Report, type ReportedFinding, reportFlag, reportForm } from '../forms/report.ts';
import { rootFlag, rootsOf } from '../shared/contained-files.ts';
import {
  commandOf,
  counterKeysOf,
  escaped,
  givenSettings,
  type ParsedFlags,
  paintFor,
  UsageError,
} from '../shared/flags.ts';
import { io, printLine } from '../shared/io.ts';
import { dataText } from '../shared/output.ts';
import { type RuleInput, readInput } from '../shared/read-input.ts';
import { type CheckedInput, checkInput } from './check-input.ts';
import {
  allowedKinds,
  checkJson,
  checkText,
  count,
  findingsText,
  goFindingText,
  type Strictness,
  severityOf,
  summaryText,
  sumsOf,
  warningKinds,
} from './check-report.ts';

/** The settings of a limiter that decide which rules it can count, given by flags. */
const checkSettingNames = [
  ...storeLimitSettings,
  'USE_CALENDAR_MONTH_RATE_LIMIT',
  'STORE_FAILURE_MODE',
  'LEASES',
  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
] as const;

/** A store has an address, and rules are checked without it. */
function addressesFor(env: Record<string, string>): Record<string, string> {
  const redis = (prefix: string) => ({
    [`${prefix}SOCKET_TYPE`]: 'tcp',
    [`${prefix}URL`]:
      env[`${prefix}TYPE`]?.toUpperCase() === 'SENTINEL' ? 'main,localhost:26379' : 'localhost:6379',
  });
  return { ...redis('REDIS_'), ...redis('REDIS_PERSECOND_'), MEMCACHE_HOST_PORT: 'localhost:11211' };
}

interface Abilities {
  counterKeys: CounterKeys;
  support?: RuleSupport | undefined;
  /** Why it leases nothing, if LEASES is said. */
  unleased?: string | undefined;
}

/** What such a limiter can count; where nothing is said it can all, and nothing of a limiter is loaded. Rejects with a UsageError. */
async function abilitiesOf(flags: ParsedFlags): Promise<Abilities> {
  const given = flags.list('setting');
  const counterKeys = counterKeysOf(flags);
  if (given.length === 0) return { counterKeys };
  const { parseLimiterSettings } = await import('../../limiter/settings/settings.ts');
  let unleased: string | undefined;
  const settings = givenSettings(given, checkSettingNames, (env) => {
    const parsed = parseLimiterSettings({
      ...addressesFor(env),
      DISABLE_STATS: 'true',
      COUNTER_KEYS: counterKeys,
      ...env,
    });
    if (parsed.settings?.leases === false && env['LEASES'] !== undefined) unleased = 'LEASES is off';
    else unleased = parsed.warnings?.find((warning) => warning.startsWith('LEASES '));
    return parsed;
  });
  if (flags.text('counter-keys') !== undefined && settings.counterKeys !== counterKeys)
    throw new UsageError(`--counter-keys is ${counterKeys}, but --setting COUNTER_KEYS is not`);
  return { counterKeys: settings.counterKeys, support: ruleSupport(settings), unleased };
}

const help = `Usage: weir check <folder, file or -> [...] [flags]

Reads rules and prints every mistake with its file, line and column, the line itself and what to do. Errors are what limiters
refuse, and what they accept and nobody means; warnings are what is hardly meant. Takes rule files, manifests
(RateLimitConfig), rendered charts (rule files in ConfigMaps are read; other objects are passed over, and counted), JSON of
xDS, callers files (CALLERS_FILE) and files of profiles (PROFILES_FILE); folders with their subfolders (*.yaml, *.yml, *.json); - is standard input. Each argument
is checked by itself: the rules of two folders may name the same domain.

  --strict                   warnings are errors
  --allow <kind>[,...]       waives findings of these kinds, but for what limiters refuse
  --compat                   only what limiters refuse are errors, as in the Go program's check: all else warns
  --config-dir <folder>      the same as an argument, in any spelling of the Go program's flag; it implies --compat, and prints the Go
                             program's lines
  --merge-domain-configs     several files may name one domain, as with MERGE_DOMAIN_CONFIG=true
  --counter-keys <form>      the limiter's COUNTER_KEYS, compatible or unambiguous (default: the variable of this name, else
                             compatible): with compatible, warns of rules whose counters could meet
  --undotted-metrics         the limiter has SANITIZE_DESCRIPTOR_METRIC_DOTS=true: no word of dots
  --setting <NAME=VALUE>     a setting by which the limiter refuses rules that it cannot count, or leases nothing; repeat the flag for several. It takes
                             ${checkSettingNames.join(', ')}
  --envoy <file>             an Envoy's configuration, a dump of its /config_dump or EnvoyFilters of Istio; repeat the flag for
                             several: finds descriptors that no rule matches, rules that no descriptor reaches, and what else
                             limits nothing; docs/envoy.md has the kinds
  --root <folder>            read no file from outside of this folder (default: the folder of each file that is named);
                             repeat the flag for several. Links that lead out of a folder of rules are never followed
  -o, --output <form>        how to print the result, on standard output: text (default), json, yaml, sarif, junit, tap, github
                             (annotations of a workflow's run) or markdown (a comment of a pull request)
  -q, --quiet                say nothing but what makes the status 1 or 2; for text and github

  weir check examples/rules
  helm template charts/my-limits | weir check --strict -
  weir check --envoy examples/envoy/envoy.yaml examples/rules/shop.yaml

Kinds of errors: ${listed(kindsOf('error'))}.
Kinds of warnings: ${listed(kindsOf('warning'))}.
docs/check.md says what each means.
Exit status: 0 when all is well or there are warnings only, 1 when there are errors, 2 for a wrong command line, or an
argument that cannot be read.
`;

function kindsOf(severity: 'error' | 'warning'): string[] {
  return warningKinds.filter((kind) => severityOf(kind, 'usual') === severity);
}

/** Names in lines of the help's width. */
function listed(names: readonly string[]): string {
  return names.join(', ').replace(/(.{60,100}?,) /g, '$1\n');
}

export const checkCommand = commandOf(
  help,
  {
    'config-dir': { type: 'string' },
    'merge-domain-configs': { type: 'boolean' },
    'counter-keys': { type: 'string' },
    'undotted-metrics': { type: 'boolean' },
    setting: { type: 'string', multiple: true },
    strict: { type: 'boolean' },
    compat: { type: 'boolean' },
    allow: { type: 'string', multiple: true },
    envoy: { type: 'string', multiple: true },
    ...rootFlag,
    ...reportFlag,
  },
  async (flags) => {
    const form = reportForm(flags);
    const folder = flags.text('config-dir');
    const paths = [...(folder === undefined ? [] : [folder]), ...flags.positionals];
    if (paths.length === 0) throw new UsageError('check needs a folder or a file');
    const mergeDomains = flags.on('merge-domain-configs');
    const { counterKeys, support, unleased } = await abilitiesOf(flags);
    const inGoWords = folder !== undefined && form === 'text';
    const roots = rootsOf(flags);
    const options = {
      roots,
      mergeDomains,
      unleased,
      counterKeys,
      sanitizeDescriptorMetricDots: flags.on('undotted-metrics'),
      allowed: allowedKinds(flags.list('allow')),
      strictness: strictnessOf(flags),
      inGoWords,
    };
    const envoyFiles = flags.list('envoy');
    if (envoyFiles.length > 0 && inGoWords)
      throw new UsageError('--envoy needs the folder as an argument, not by --config-dir');
    const read: RuleInput[] = [];
    const check = (path: string): CheckedInput => {
      const input = readInput(path, { mergeDomains, support, roots, othersToo: true });
      read.push(input);
      return checkInput(input, options);
    };
    const isQuiet = isQuietReport(flags);
    const inputs = inGoWords ? printLikeGo(paths, check, isQuiet) : paths.map(check);
    const hasProfiles = inputs.some(({ profilesFiles }) => profilesFiles.length > 0);
    if (envoyFiles.length > 0 || (hasProfiles && !inGoWords)) {
      const { checkAskers } = await import('./check-askers.ts');
      inputs.push(...checkAskers(envoyFiles, read, options));
    }
    const exitStatus = statusOf(inputs);
    if (form === 'json' || form === 'yaml') io().stdout.write(dataText(checkJson(inputs), form));
    else if (form !== 'text')
      io().stdout.write(reportText(checkReport(inputs, { isQuiet, exitStatus }), form, io().cwd()));
    else if (!inGoWords) io().stdout.write(checkText(inputs, paintFor(io().stdout), isQuiet));
    return exitStatus;
  },
);

function statusOf(inputs: readonly CheckedInput[]): number {
  if (inputs.some(({ isUnreadable }) => isUnreadable)) return 2;
  return inputs.some(({ errorCount }) => errorCount > 0) ? 1 : 0;
}

/** For the forms that other programs read. */
function checkReport(
  inputs: readonly CheckedInput[],
  { isQuiet, exitStatus }: Pick<Report, 'isQuiet' | 'exitStatus'>,
): Report {
  const listed = inputs.flatMap(({ path, findings, errors, errorCount }) => {
    const unlisted = errorCount - errors.length;
    return [...findings, ...(unlisted > 0 ? [unlistedErrors(path, unlisted)] : [])];
  });
  return {
    command: 'check',
    findings: listed,
    files: inputs.flatMap(({ files }) => files),
    exitStatus,
    isQuiet,
    markdown: () =>
      checkMarkdown(
        listed,
        sumsOf(inputs),
        inputs.map((input) => summaryText([input])),
      ),
  };
}

function unlistedErrors(file: string, number: number): ReportedFinding {
  const message = `and ${count(number, 'more error')}, which the list has no room for`;
  return { severity: 'error', code: 'too-large', file, line: undefined, column: undefined, message };
}

function strictnessOf(flags: ParsedFlags): Strictness {
  if (flags.on('strict')) return 'strict';
  return flags.on('compat') || flags.text('config-dir') !== undefined ? 'compat' : 'usual';
}

/** The lines of the Go program, each argument's as soon as it is read; and what it does not find, between them. */
function printLikeGo(
  paths: readonly string[],
  check: (path: string) => CheckedInput,
  isQuiet: boolean,
): CheckedInput[] {
  const paint = paintFor(io().stdout);
  if (!isQuiet) printLine('checking rate limit configs...');
  const inputs = paths.map((path) => {
    if (!isQuiet) printLine(loadingText(path));
    const input = check(path);
    if (!isQuiet) for (const file of input.files) printLine(`opening config file: ${escaped(file)}`);
    io().stdout.write(findingsText(input, (finding) => goFindingText(finding, paint), isQuiet));
    return input;
  });
  if (isQuiet) return inputs;
  const { errors, warnings, allowed } = sumsOf(inputs);
  if (errors > 0) printLine(count(errors, 'error'));
  if (warnings > 0) printLine(count(warnings, 'warning'));
  if (allowed > 0) printLine(`${count(allowed, 'finding')} waived by --allow`);
  const isOfCallersAlone = inputs.every(
    ({ files, callersFiles }) => callersFiles.length > 0 && callersFiles.length === files.length,
  );
  if (errors === 0) printLine(isOfCallersAlone ? 'all callers files ok' : 'all rate limit configs ok');
  return inputs;
}

/** The Go program's words, which knows folders alone. */
function loadingText(path: string): string {
  if (path === '-') return 'loading standard input';
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? true;
  return isFolder ? `loading config directory: ${path}` : `loading config file: ${path}`;
}
