import { statSync } from 'node:fs';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { reportText } from '../forms/forms.ts';
import { checkMarkdown } from '../forms/markdown.ts';
import { type Report, type ReportedFinding, reportFlag, reportForm } from '../forms/report.ts';
import { commandOf, counterKeysOf, givenSettings, paintFor, UsageError } from '../shared/flags.ts';
import { dataText } from '../shared/output.ts';
import { readInput } from '../shared/read-input.ts';
import { type CheckedInput, checkInput } from './check-input.ts';
import {
  allowedKinds,
  checkJson,
  count,
  findingText,
  shownWarnings,
  summaryText,
  warningKinds,
} from './check-report.ts';

/** The settings of a limiter that decide which rules it can count, given by flags. */
const checkSettingNames = [
  'BACKEND_TYPE',
  'REDIS_SCRIPTS',
  'USE_CALENDAR_MONTH_RATE_LIMIT',
  'CACHE_KEY_PREFIX',
  'LEASES',
  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
] as const;

/**
 * What such a limiter can count, and why it leases nothing, if LEASES is said; where nothing is said it can all, and nothing of a
 * limiter is loaded. Rejects with a UsageError.
 */
async function abilitiesOf(
  given: readonly string[],
): Promise<{ support?: RuleSupport | undefined; unleased?: string | undefined }> {
  if (given.length === 0) return {};
  const { ruleChecks } = await import('../../limiter/assembly/config-source.ts');
  const { parseLimiterSettings } = await import('../../limiter/settings/settings.ts');
  // A store has an address, and rules are checked without it.
  const address = {
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: 'localhost:6379',
    MEMCACHE_HOST_PORT: 'localhost:11211',
  };
  let unleased: string | undefined;
  const settings = givenSettings(given, checkSettingNames, (env) => {
    const parsed = parseLimiterSettings({ ...address, DISABLE_STATS: 'true', ...env });
    if (parsed.settings?.leases === false && env['LEASES'] !== undefined) unleased = 'LEASES is off';
    else unleased = parsed.warnings?.find((warning) => warning.startsWith('LEASES '));
    return parsed;
  });
  return { support: ruleChecks(settings).support, unleased };
}

const help = `Usage: weir check <folder, file or -> [...] [flags]

Reads rules and prints every error with its file, line and column, the line itself and what to do; and warnings about
what is accepted and hardly meant. Takes rule files, manifests (RateLimitConfig), rendered charts (rule files in
ConfigMaps are read; other objects are passed over, and counted), JSON of xDS, and callers files (CALLERS_FILE); folders with their subfolders (*.yaml,
*.yml, *.json); - is standard input. Each argument is checked by itself: the rules of two folders may name the same domain.

  --config-dir <folder>      the same as an argument
  --merge-domain-configs     several files may name one domain, as with MERGE_DOMAIN_CONFIG=true
  --counter-keys <form>      the limiter's COUNTER_KEYS, compatible or unambiguous (default: the variable of this name, else
                             compatible): with compatible, warns of rules whose counters could meet
  --undotted-metrics         the limiter has SANITIZE_DESCRIPTOR_METRIC_DOTS=true: no word of dots
  --setting <NAME=VALUE>     a setting by which the limiter refuses rules that it cannot count, or leases nothing; repeat the flag for several. It takes
                             ${checkSettingNames.join(', ')}
  --strict                   warnings fail the check
  --allow <warning>[,...]    waives warnings of these kinds
  -o, --output <form>        how to print the result, on standard output: text (default), json, yaml, sarif, junit, github
                             (annotations of a workflow's run) or markdown (a comment of a pull request)
  -q, --quiet                say nothing but what makes the status 1 or 2; for text and github

  weir check examples/rules
  helm template charts/my-limits | weir check --strict -

The Go program's spelling works as well: -config_dir, -merge_domain_configs.
Warnings: ${listed(warningKinds)}; docs/gitops.md says what each means.
Exit status: 0 when all is well or there are warnings only, 1 when there are errors (with --strict: or warnings), 2 for a
wrong command line, or an argument that cannot be read.
`;

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
    allow: { type: 'string', multiple: true },
    ...reportFlag,
  },
  async (flags) => {
    const form = reportForm(flags);
    const folder = flags.text('config-dir');
    const paths = [...(folder === undefined ? [] : [folder]), ...flags.positionals];
    if (paths.length === 0) throw new UsageError('check needs a folder or a file');
    const mergeDomains = flags.on('merge-domain-configs');
    const { support, unleased } = await abilitiesOf(flags.list('setting'));
    const options = {
      mergeDomains,
      unleased,
      counterKeys: counterKeysOf(flags),
      sanitizeDescriptorMetricDots: flags.on('undotted-metrics'),
      allowed: allowedKinds(flags.list('allow')),
    };
    const check = (path: string): CheckedInput =>
      checkInput(readInput(path, { mergeDomains, support, callersToo: true }), options);
    const quiet = { isQuiet: flags.on('quiet'), isStrict: flags.on('strict') };
    const inputs = form === 'text' ? printAll(paths, check, quiet) : paths.map(check);
    const sums = sumsOf(inputs);
    const isFailed = sums.errors > 0 || (flags.on('strict') && sums.warnings > 0);
    const exitStatus = inputs.some(({ isUnreadable }) => isUnreadable) ? 2 : isFailed ? 1 : 0;
    if (form === 'text') {
      if (!quiet.isQuiet) printEnd(sums, isFailed, inputs.every(isOfCallers));
    } else if (form === 'json' || form === 'yaml') {
      process.stdout.write(dataText(checkJson(inputs), form));
    } else {
      const report = checkReport(inputs, { ...quiet, exitStatus });
      process.stdout.write(reportText(report, form, process.cwd()));
    }
    return exitStatus;
  },
);

interface Sums {
  errors: number;
  warnings: number;
  allowed: number;
}

function sumsOf(inputs: readonly CheckedInput[]): Sums {
  const sum = (pick: (input: CheckedInput) => number) => inputs.reduce((total, one) => total + pick(one), 0);
  return {
    errors: sum(({ errorCount }) => errorCount),
    warnings: sum(({ warnings }) => warnings.length),
    allowed: sum(({ allowed }) => allowed),
  };
}

interface Quiet {
  isQuiet: boolean;
  isStrict: boolean;
}

/** For the forms that other programs read. */
function checkReport(
  inputs: readonly CheckedInput[],
  { isQuiet, isStrict, exitStatus }: Quiet & { exitStatus: number },
): Report {
  const findings = inputs.flatMap(({ path, errors, errorCount, warnings }) => {
    const unlisted = errorCount - errors.length;
    const failing = isStrict ? warnings.map((one) => ({ ...one, severity: 'error' as const })) : warnings;
    return [...errors, ...(unlisted > 0 ? [unlistedErrors(path, unlisted)] : []), ...failing];
  });
  return {
    command: 'check',
    findings,
    files: inputs.flatMap(({ files }) => files),
    exitStatus,
    isQuiet,
    markdown: () => checkMarkdown(findings, inputs.map(summaryText)),
  };
}

function unlistedErrors(file: string, number: number): ReportedFinding {
  const message = `and ${count(number, 'more error')}, which the list has no room for`;
  return { severity: 'error', code: 'too-large', file, line: undefined, column: undefined, message };
}

/** Prints each argument's result as soon as it is there. */
function printAll(
  paths: readonly string[],
  check: (path: string) => CheckedInput,
  quiet: Quiet,
): CheckedInput[] {
  if (!quiet.isQuiet) console.log('checking rate limit configs...');
  return paths.map((path) => {
    if (!quiet.isQuiet) console.log(loadingText(path));
    const checked = check(path);
    printInput(checked, quiet);
    return checked;
  });
}

/** The Go program's words, which knows folders alone. */
function loadingText(path: string): string {
  if (path === '-') return 'loading standard input';
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? true;
  return isFolder ? `loading config directory: ${path}` : `loading config file: ${path}`;
}

function isOfCallers({ files, callersFiles }: CheckedInput): boolean {
  return callersFiles.length > 0 && callersFiles.length === files.length;
}

/** The last line says why the status is what it is; the Go program's, but where no file has rules. */
function printEnd({ errors, warnings, allowed }: Sums, isFailed: boolean, isOfCallersAlone: boolean): void {
  if (errors > 0) console.error(count(errors, 'error'));
  if (warnings > 0) console.error(count(warnings, 'warning'));
  if (allowed > 0) console.error(`${count(allowed, 'warning')} waived by --allow`);
  if (errors > 0) return;
  if (isFailed) console.error('failed: there are no errors, but --strict does not let warnings pass');
  else console.log(isOfCallersAlone ? 'all callers files ok' : 'all rate limit configs ok');
}

function printInput(input: CheckedInput, { isQuiet, isStrict }: Quiet): void {
  const paint = paintFor(process.stderr);
  if (!isQuiet) for (const file of input.files) console.log(`opening config file: ${file}`);
  const { shown, unshown } = shownWarnings(isQuiet && !isStrict ? [] : input.warnings);
  for (const warning of shown) process.stderr.write(findingText(warning, paint));
  for (const [code, number] of unshown)
    console.error(`... and ${number} more (${code}); --output json has all`);
  for (const error of input.errors) process.stderr.write(findingText(error, paint));
  const unlisted = input.errorCount - input.errors.length;
  if (unlisted > 0) console.error(`... and ${unlisted} more`);
  if (input.errors.length === 0 && !isQuiet) console.log(summaryText(input));
}
