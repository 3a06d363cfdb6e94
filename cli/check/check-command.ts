import { existsSync, readdirSync, statSync } from 'node:fs';
import { answerForUnassignable } from '../../limiter/quota-service/quota-settings.ts';
import { ruleSupport } from '../../limiter/settings/rule-support.ts';
import { defaultNames, type NameForm } from '../../rules/match-result.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { documentOf } from '../forms/forms.ts';
import { checkMarkdown } from '../forms/markdown.ts';
import { findingForms, type Report, type ReportedFinding } from '../forms/report.ts';
import { rootsOf } from '../shared/contained-files.ts';
import { type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io, printLine } from '../shared/io.ts';
import { describedLimiter, mergesDomains } from '../shared/limiter-setting.ts';
import { type RuleInput, readInput } from '../shared/read-input.ts';
import { outputForm, reportCommand } from '../shared/report.ts';
import { count, escaped, paintFor } from '../shared/text.ts';
import { type CheckedInput, checkInput } from './check-input.ts';
import {
  allowedKinds,
  checkText,
  checkValue,
  findingsText,
  goFindingText,
  type Strictness,
  severityOf,
  summaryText,
  sumsOf,
  unreviewedText,
  warningKinds,
} from './check-report.ts';

interface Abilities extends NameForm {
  support?: RuleSupport | undefined;
  /** Why the limiter leases nothing, if LEASES is given. */
  unleased?: string | undefined;
  /** With RLQS=true: how quota clients answer requests for rules that cannot be assigned. */
  unassignable?: 'denied' | 'allowed' | undefined;
}

/** Returns what a limiter with these settings can count; without settings, everything. Rejects with a UsageError. */
async function abilitiesOf(flags: ParsedFlags): Promise<Abilities> {
  const limiter = await describedLimiter(flags, ['COUNTER_KEYS']);
  if (limiter === undefined) return defaultNames;
  const { settings, explaining, warnings, given } = limiter;
  const isUnleased = settings.leases === false && given['LEASES'] !== undefined;
  const unleased = isUnleased ? 'LEASES is off' : warnings.find((warning) => warning.startsWith('LEASES '));
  const unassignable = answerForUnassignable(settings);
  return { ...explaining.names, support: ruleSupport(settings), unleased, unassignable };
}

const help = `Usage: weir check <folder, file or -> [...] [flags]

Reads rules and prints every mistake with its file, line and column, the line itself, and what to do. Errors are rules that limiters reject, or accept although they cannot be intended. Warnings are probable mistakes. Accepts rule files, manifests
(RateLimitConfig), rendered charts, JSON of xDS, callers files (CALLERS_FILE) and files of profiles (PROFILES_FILE). In charts it
reads rule files in ConfigMaps, and counts other objects. Accepts folders with subfolders (*.yaml, *.yml, *.json), and - for
standard input. It checks each argument separately: the rules of two folders may have the same domain.

  --strict                   warnings are errors
  --allow <kind>[,...]       ignores findings of these kinds, except errors that limiters reject
  --compat                   only rules that limiters reject are errors, as in the check of the Go service. Everything else is a warning
  --config-dir <folder>      the same as an argument, in any spelling of the Go service's flag. It implies --compat, and prints the lines of the Go service
  --merge-domain-configs     allow several files for one domain, as MERGE_DOMAIN_CONFIG=true does
  --setting <NAME=VALUE>     a setting of the limiter that affects the names of counters and statistics, leases, or which rules it accepts; docs/check.md lists them. Repeat the flag for several (default: COUNTER_KEYS from the variable of this name)
  --envoy <file>             the configuration of an Envoy, its /config_dump, or EnvoyFilters of Istio. Repeat the flag for several. Finds descriptors that match no rule, rules that no descriptor reaches, and other parts without effect (docs/envoy.md)
  --root <folder>            do not read files outside this folder (default: the folder of each file that you name). Repeat the flag for several. Links that point outside a folder of rules are never followed
  -o, --output <form>        how to print the result, on standard output: text (default), json, yaml, sarif, junit, tap, github
                             (annotations of a workflow's run) or markdown (a comment of a pull request)
  -q, --quiet                print only what makes the exit status 1 or 2; for text and github

  weir check examples/rules
  helm template charts/my-limits | weir check --strict -
  weir check --envoy examples/envoy/envoy.yaml examples/rules/shop.yaml

Kinds of errors: ${listed(kindsOf('error'))}.
Kinds of warnings: ${listed(kindsOf('warning'))}.
docs/check.md explains them. Exit status: 0 when there are no errors, 1 when there are errors, 2 for a wrong command line, or an argument that cannot be read.
`;

function kindsOf(severity: 'error' | 'warning'): string[] {
  return warningKinds.filter((kind) => severityOf(kind, 'usual') === severity);
}

/** Lists names in lines that fit the width of the help. */
function listed(names: readonly string[]): string {
  return names.join(', ').replace(/(.{60,100}?,) /g, '$1\n');
}

export const checkCommand = reportCommand(
  help,
  async (flags) => {
    const folder = flags.text('config-dir');
    const paths = [...(folder === undefined ? [] : [folder]), ...flags.positionals];
    if (paths.length === 0) throw new UsageError('check needs a folder or a file');
    const mergeDomains = flags.on('merge-domain-configs') || mergesDomains(flags.list('setting'));
    const { support, ...abilities } = await abilitiesOf(flags);
    const inGoWords = folder !== undefined && outputForm(flags, findingForms) === 'text';
    const roots = rootsOf(flags);
    const options = {
      roots,
      mergeDomains,
      unleased: undefined,
      unassignable: undefined,
      ...abilities,
      allowed: allowedKinds(flags.list('allow')),
      strictness: strictnessOf(flags),
      inGoWords,
    };
    const envoyFiles = flags.list('envoy');
    if (envoyFiles.length > 0 && inGoWords)
      throw new UsageError('--envoy takes the folder as an argument, not by --config-dir');
    const read: RuleInput[] = [];
    const check = (path: string): CheckedInput => {
      const input = readInput(path, { mergeDomains, support, roots, othersToo: true });
      read.push(input);
      return checkInput(input, { ...options, acceptsNoFiles: inGoWords && isEmptyFolder(path) });
    };
    const isQuiet = flags.on('quiet');
    const inputs = inGoWords ? printLikeGo(paths, check, isQuiet) : paths.map(check);
    const hasProfiles = inputs.some(({ profilesFiles }) => profilesFiles.length > 0);
    if (envoyFiles.length > 0 || (hasProfiles && !inGoWords)) {
      const { checkAskers } = await import('./check-askers.ts');
      inputs.push(...checkAskers(envoyFiles, read, options));
    }
    const status = statusOf(inputs);
    return {
      status,
      value: checkValue(inputs),
      text: () => (inGoWords ? '' : checkText(inputs, paintFor(io().stdout), isQuiet)),
      document: (form) => documentOf(checkReport(inputs, { isQuiet, exitStatus: status }), form),
    };
  },
  { forms: findingForms },
);

function statusOf(inputs: readonly CheckedInput[]): number {
  if (inputs.some(({ isUnreadable }) => isUnreadable)) return 2;
  return sumsOf(inputs).errors > 0 ? 1 : 0;
}

/** Builds the report for SARIF, JUnit and other formats. */
function checkReport(
  inputs: readonly CheckedInput[],
  { isQuiet, exitStatus }: Pick<Report, 'isQuiet' | 'exitStatus'>,
): Report {
  const listed = inputs.flatMap(({ path: file, findings, unlisted }): ReportedFinding[] => {
    if (unlisted === 0) return findings;
    const message = `and ${count(unlisted, 'more error')} that are not listed`;
    return [...findings, { severity: 'error', code: 'too-large', file, message }];
  });
  const unreviewed = inputs.flatMap((input) => input.unreviewed);
  const notes = unreviewed.map((file): ReportedFinding => {
    return { severity: 'note', code: 'not-reviewed', file, message: unreviewedText([file]) };
  });
  return {
    command: 'check',
    findings: [...listed, ...notes],
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

function strictnessOf(flags: ParsedFlags): Strictness {
  if (flags.on('strict')) return 'strict';
  return flags.on('compat') || flags.text('config-dir') !== undefined ? 'compat' : 'usual';
}

/** Prints the lines of the Go program as soon as each argument is read, and our additional findings between them. */
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
    if (isMissing(path)) {
      const { file, message } = input.findings[0]!;
      printLine(`${paint('red', 'error opening directory')} ${escaped(file)}: ${message}`);
      // The Go program has one status for all errors.
      return { ...input, isUnreadable: false };
    }
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

function isMissing(path: string): boolean {
  return path !== '-' && !existsSync(path);
}

/** Whether the Go program finds nothing that it would load, and so no error. */
function isEmptyFolder(path: string): boolean {
  const isFolder = path !== '-' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder && readdirSync(path).length === 0;
}

/** Returns the text of the Go program, which only knows folders. */
function loadingText(path: string): string {
  if (path === '-') return 'loading standard input';
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? true;
  return isFolder ? `loading config directory: ${path}` : `loading config file: ${path}`;
}
