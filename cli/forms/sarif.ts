/** SARIF 2.1.0 (OASIS, errata 01), the format of code scanning. */
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { packageVersion } from '../../process/files/package-file.ts';
import type { RuleErrorCode } from '../../rules/rule-error.ts';
import { messageLines, type Report, type ReportedFinding } from './report.ts';

type KnownCode = readonly [level: ReportedFinding['severity'], what: string];
type KnownCodes = Readonly<Record<string, KnownCode>>;

/** The description of each kind of finding, and its default severity for a command. */
const knownCodes: Readonly<Record<Report['command'], KnownCodes>> = {
  check: {
    syntax: ['error', 'The text is no YAML or JSON'],
    'wrong-type': ['error', 'A value is of another type than the field takes'],
    'key-not-a-string': ['error', 'A key of a map is no text'],
    'unknown-key': ['error', 'A field that the rule language does not know'],
    'misplaced-key': ['error', 'A field that means nothing where it stands'],
    'duplicate-key': ['error', 'A field that stands twice in one map'],
    'list-element-not-a-map': ['error', 'An element of a list that has to be a map'],
    'empty-domain': ['error', 'Rules without a domain'],
    'duplicate-domain': ['error', 'Two files or objects claim one domain'],
    'duplicate-object': ['warning', 'Two manifests of one object'],
    'empty-key': ['error', 'A descriptor without a key'],
    'duplicate-descriptor': ['error', 'Two descriptors of one level with the same key and value'],
    'invalid-unit': ['error', 'A unit that there is not'],
    'unit-when-unlimited': ['error', 'A unit beside unlimited'],
    'invalid-window': ['error', 'A window that cannot be counted'],
    'invalid-algorithm': ['error', 'An algorithm that there is not'],
    'burst-without-bucket': ['error', 'A burst where there is no token bucket'],
    'invalid-limits': ['error', 'Several limits that cannot stand together'],
    'duplicate-limit': ['error', 'Two limits of one rule with the same name or window'],
    'invalid-calendar': ['error', 'A calendar that is none, or stands beside another window'],
    'invalid-hits-unit': ['error', 'A unit of hits that is none'],
    'invalid-marks': ['error', 'Marks that are no ascending percents'],
    'invalid-reserve': ['error', 'Terms of reservations that cannot be'],
    'invalid-lease': ['error', 'A lease that is no share'],
    'invalid-assign': ['error', 'A form of assignments that there is not'],
    uncountable: ['error', 'A limiter with these settings cannot count the rule'],
    'empty-replaces': ['error', 'An element of replaces without a name'],
    'replaces-itself': ['error', 'A limit that replaces itself'],
    'share-threshold-without-wildcard': ['error', 'share_threshold without a pattern in the value'],
    'invalid-metadata': ['error', 'Metadata that cannot be carried'],
    'too-large': ['error', 'More than a bound allows'],
    'unread-document': ['error', 'Documents behind the first one of a rule file, which limiters do not read'],
    'misplaced-file': ['warning', 'A file of callers or profiles in the folder of the rules'],
    'passed-over': ['warning', 'A file that holds rules and has another name than rule files'],
    unreadable: ['error', 'A file or folder that cannot be read'],
    callers: ['error', 'A mistake in a callers file'],
    profiles: ['error', 'A mistake in a file of profiles'],
    'never-matches': ['error', 'A rule that no request finds'],
    'shadowed-wildcard': ['error', 'A pattern that an earlier one of its level covers'],
    'no-effect': ['error', 'A rule without a limit, and without rules below'],
    'no-rules': ['warning', 'Nothing there carries rules'],
    'replaces-nothing': ['error', 'A name in replaces that no limit of the domain has'],
    'replaces-unlimited': ['warning', 'A name in replaces that only an unlimited rule has'],
    'replaces-each-other': ['warning', 'Limits that replace each other, so that none counts'],
    'limit-of-zero': ['error', 'A limit without requests_per_unit, which refuses every request'],
    'burst-of-zero': ['warning', 'A token bucket that lets nothing pass'],
    'never-tighter': ['warning', 'A limit that never refuses anything, for another one beside it'],
    'never-leased': ['warning', 'A lease of which nothing is taken ahead'],
    'never-assigned': [
      'warning',
      'A rule that cannot be assigned to quota clients, or an assign without effect',
    ],
    'mixed-hits-units': [
      'warning',
      'Limits that count different things, of which one request charges one number',
    ],
    'large-estimate': ['error', 'An estimate that no reservation can hold'],
    'taken-as-written': ['warning', 'A value that looks like a pattern and is compared as it is written'],
    'dotted-metric': ['warning', 'Dots that make more levels in the names of statistics'],
    'shared-metric': ['warning', 'Rules that share the names of their statistics'],
    'inner-shared-wildcard': ['warning', 'share_threshold with a pattern that does not end in *'],
    'meeting-counters': ['warning', 'Rules whose counters could meet in one key'],
    'unmatched-descriptor': ['error', 'A descriptor of the proxy that no limit is for'],
    'unreached-rule': ['error', 'A rule that no descriptor of the proxy reaches'],
    'domain-without-rules': ['error', 'A domain that the proxy asks for, and that has no rules'],
    'unread-rate-limits': ['error', 'rate_limits that no filter reads'],
    'filter-without-rate-limits': ['error', 'A filter without descriptors on any route'],
    'rate-limit-service': ['error', 'A limiter that the proxy cannot ask'],
    'rate-limits-off': ['error', 'A filter or a list that is off'],
    'invalid-rate-limit': ['error', 'An action that Envoy would not load'],
    'no-rate-limit-filter': ['warning', 'Routes without a filter'],
    'shadowed-rate-limits': ['warning', 'rate_limits of a virtual host that a route hides'],
    'unasked-domain': ['warning', 'Rules of a domain that no filter asks for'],
    'charged-later': ['warning', 'A rule that is charged when requests are over, and refuses nothing'],
    'quota-crash': ['error', 'A configuration of the quota filter that crashes Envoy'],
    'quota-fallback': ['warning', 'What the quota filter does without an assignment keeps no limit'],
    'quota-interval': ['warning', 'A reporting interval that Envoy does not obey'],
    'unmatched-bucket': ['warning', 'A bucket that no rule matches'],
    'ambiguous-bucket': ['warning', 'A bucket that matches rules in several orders of its entries'],
    'unassignable-rule': ['warning', 'A bucket whose rule cannot be assigned to quota clients'],
    'never-settled': ['warning', 'A list of rate_limits that reserves, where nothing settles'],
  } satisfies Record<RuleErrorCode, KnownCode> & KnownCodes,
  diff: {
    new: ['note', 'Requests are limited that were not'],
    stricter: ['note', 'Fewer requests pass'],
    mixed: ['note', 'Stricter for some requests or in one respect, looser for others'],
    looser: ['note', 'More requests pass'],
    gone: ['note', 'Requests are no longer limited'],
    same: ['note', 'As many requests pass; counters, metrics or answers are called otherwise'],
    'newly-limited': ['warning', 'Recorded requests would be limited that were not'],
  },
  test: {
    'unexpected-answer': ['error', 'The rules decide otherwise than a test expects'],
    'invalid-test': ['error', 'A mistake in a file of tests'],
    unreadable: ['error', 'Tests or their rules that cannot be read'],
    'unreached-rule': ['note', 'A rule that no test reaches'],
    'low-coverage': ['error', 'Fewer rules are reached by tests than --min-coverage says'],
  },
};

/** The folder in which the command ran. Readers of SARIF know this name for the root of the sources. */
const rootId = '%SRCROOT%';

/** Returns the log as a value for JSON. `workingFolder` is an absolute path. */
export function sarifLog({ command, findings, exitStatus }: Report, workingFolder: string): object {
  const codes = [...new Set([...Object.keys(knownCodes[command]), ...findings.map(({ code }) => code)])];
  const indexes = new Map(codes.map((code, index) => [code, index]));
  const resultOf = (finding: ReportedFinding): object => ({
    ruleId: finding.code,
    ruleIndex: indexes.get(finding.code),
    level: finding.severity,
    message: { text: unlinked(messageLines(finding)) },
    locations: [{ physicalLocation: locationOf(finding, workingFolder) }],
  });
  const run = {
    tool: {
      driver: {
        name: `weir ${command}`,
        semanticVersion: packageVersion(),
        rules: codes.map((code) => ruleOf(command, code)),
      },
    },
    originalUriBaseIds: {
      [rootId]: { description: { text: 'The folder in which the command ran.' } },
    },
    columnKind: 'utf16CodeUnits',
    invocations: [{ executionSuccessful: exitStatus !== 2, exitCode: exitStatus }],
    results: findings.map(resultOf),
  };
  return {
    $schema: 'https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json',
    version: '2.1.0',
    runs: [run],
  };
}

function ruleOf(command: Report['command'], code: string): object {
  const known = knownCodes[command][code];
  const [level, what] = known ?? ['warning', `${code}, as "weir ${command}" says it`];
  const page = { check: 'docs/check.md', diff: 'docs/pull-requests.md', test: 'docs/test.md' }[command];
  return {
    id: code,
    shortDescription: { text: what },
    help: { text: `${what}. ${page} has more.`, markdown: `${what}. \`${page}\` has more.` },
    defaultConfiguration: { level },
  };
}

function locationOf({ file, line, column, length }: ReportedFinding, workingFolder: string): object {
  const artifactLocation = uriOf(file, workingFolder);
  if (line === undefined) return { artifactLocation };
  const start = { startLine: line, ...(column === undefined ? {} : { startColumn: column }) };
  // SARIF columns count from 1, and the end column is the first one behind the text.
  const end = column === undefined || length === undefined ? {} : { endColumn: column + length };
  return { artifactLocation, region: { ...start, ...end } };
}

/** The URI is relative to the working folder if the file is below it. Standard input and the like get a URI with their name. */
function uriOf(file: string, workingFolder: string): object {
  if (/^https?:\/\/[^\s]+$/.test(file)) return { uri: encodeURI(file).replaceAll('%25', '%') };
  const below = relative(workingFolder, resolve(workingFolder, file));
  if (below === '..' || below.startsWith(`..${sep}`) || isAbsolute(below))
    return { uri: pathToFileURL(resolve(workingFolder, file)).href };
  const uri = below.split(sep).map(encodedSegment).join('/');
  return { uri: uri === '' ? './' : uri, uriBaseId: rootId };
}

function encodedSegment(segment: string): string {
  return encodeURIComponent(segment.toWellFormed()).replace(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** In a message, `[text](target)` is a link (section 3.11.6). A zero-width space keeps rules from making one. */
function unlinked(text: string): string {
  return text.replaceAll('](', ']\u200b(');
}
