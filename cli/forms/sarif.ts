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
    syntax: ['error', 'The text is not valid YAML or JSON'],
    'wrong-type': ['error', 'A value has the wrong type for its field'],
    'key-not-a-string': ['error', 'A key of a map is not a string'],
    'unknown-key': ['error', 'A field is not part of the rule language'],
    'misplaced-key': ['error', 'A field is in a place where it has no effect'],
    'duplicate-key': ['error', 'A map has a field twice'],
    'list-element-not-a-map': ['error', 'An element of a list is not a map'],
    'empty-domain': ['error', 'Rules have no domain'],
    'duplicate-domain': ['error', 'Two files or objects have the same domain'],
    'duplicate-object': ['warning', 'Two manifests describe the same object'],
    'empty-key': ['error', 'A rule has no key'],
    'duplicate-descriptor': ['error', 'Two rules of one level have the same key and value'],
    'invalid-unit': ['error', 'A unit is unknown'],
    'unit-when-unlimited': ['error', 'A rule has both a unit and unlimited'],
    'invalid-window': ['error', 'A window is not valid'],
    'invalid-algorithm': ['error', 'An algorithm is unknown'],
    'burst-without-bucket': ['error', 'A limit has a burst but is not a token bucket'],
    'invalid-limits': ['error', 'The limits of a rule cannot be combined'],
    'duplicate-limit': ['error', 'Two limits of a rule have the same name or window'],
    'invalid-calendar': ['error', 'A calendar is not valid, or the limit also has another window'],
    'invalid-hits-unit': ['error', 'A hits_unit is not valid'],
    'invalid-marks': ['error', 'The values of warn_at are not ascending percentages'],
    'invalid-reserve': ['error', 'The terms of reservations are not valid'],
    'invalid-lease': ['error', 'A lease is not a share of the limit'],
    'invalid-assign': ['error', 'A form of assignments is unknown'],
    uncountable: ['error', 'A limiter with these settings cannot count the rule'],
    'empty-replaces': ['error', 'An element of replaces has no name'],
    'replaces-itself': ['error', 'A limit replaces itself'],
    'share-threshold-without-wildcard': ['error', 'share_threshold is set, but the value has no pattern'],
    'invalid-metadata': ['error', 'Metadata cannot be sent in an answer'],
    'too-large': ['error', 'A bound is exceeded'],
    'not-reviewed': ['note', 'A file is not reviewed further until you correct the errors'],
    'unread-document': ['error', 'A rule file has several documents, and limiters read only the first one'],
    'misplaced-file': ['warning', 'A file of callers or profiles is in the folder of the rules'],
    'passed-over': ['warning', 'A file has rules, but not the name of a rule file'],
    unreadable: ['error', 'A file or folder cannot be read'],
    callers: ['error', 'A callers file has a mistake'],
    profiles: ['error', 'A file of profiles has a mistake'],
    'never-matches': ['error', 'No request can match a rule'],
    'shadowed-wildcard': ['error', 'An earlier pattern of the same level covers a pattern'],
    'no-effect': ['error', 'A rule has neither a limit nor rules below it'],
    'no-rules': ['warning', 'The arguments contain no rules'],
    'replaces-nothing': ['error', 'No limit of the domain has a name in replaces'],
    'replaces-unlimited': ['warning', 'Only an unlimited rule has a name in replaces'],
    'replaces-each-other': ['warning', 'Limits replace each other, so that none counts'],
    'limit-of-zero': ['error', 'A limit has no requests_per_unit, so every request is over limit'],
    'burst-of-zero': ['warning', 'A token bucket allows no request'],
    'never-tighter': ['warning', 'Another limit of the rule is always stricter than this one'],
    'never-leased': ['warning', 'A lease has no effect'],
    'never-assigned': ['warning', 'A rule cannot be assigned to quota clients, or assign has no effect'],
    'mixed-hits-units': [
      'warning',
      'A request charges the same number to limits that count different things',
    ],
    'large-estimate': ['error', 'An estimate is larger than the limit'],
    'taken-as-written': ['warning', 'A value looks like a pattern, but is compared literally'],
    'dotted-metric': ['warning', 'Dots add levels to the names of statistics'],
    'shared-metric': ['warning', 'Rules share the names of their statistics'],
    'inner-shared-wildcard': ['warning', 'share_threshold is set, but the pattern does not end in *'],
    'meeting-counters': ['warning', 'Counters of rules could share a key'],
    'unmatched-descriptor': ['error', 'A descriptor of the proxy has no limit'],
    'unreached-rule': ['error', 'No descriptor of the proxy reaches a rule'],
    'domain-without-rules': ['error', 'A domain of the proxy has no rules'],
    'unread-rate-limits': ['error', 'No filter reads a list of rate_limits'],
    'filter-without-rate-limits': ['error', 'No route has descriptors for a filter'],
    'rate-limit-service': ['error', 'The proxy cannot ask the limiter'],
    'rate-limits-off': ['error', 'A filter or a list is off'],
    'invalid-rate-limit': ['error', 'Envoy would not load an action'],
    'no-rate-limit-filter': ['warning', 'Routes have no filter'],
    'shadowed-rate-limits': ['warning', 'A route hides rate_limits of its virtual host'],
    'unasked-domain': ['warning', 'No filter asks for a domain that has rules'],
    'charged-later': ['warning', 'A rule is charged after requests, and so never limits them'],
    'quota-crash': ['error', 'A configuration of the quota filter crashes Envoy'],
    'quota-fallback': ['warning', 'The quota filter does not limit requests without an assignment'],
    'quota-interval': ['warning', 'Envoy ignores a reporting interval'],
    'unmatched-bucket': ['warning', 'No rule matches a bucket'],
    'ambiguous-bucket': ['warning', 'A bucket matches rules in several orders of its entries'],
    'unassignable-rule': ['warning', 'The rule of a bucket cannot be assigned to quota clients'],
    'never-settled': ['warning', 'A list of rate_limits reserves, but never commits'],
  } satisfies Record<RuleErrorCode, KnownCode> & KnownCodes,
  diff: {
    new: ['note', 'Requests are newly limited'],
    stricter: ['note', 'Fewer requests pass'],
    mixed: ['note', 'Stricter in some cases, looser in others'],
    looser: ['note', 'More requests pass'],
    gone: ['note', 'Requests are no longer limited'],
    same: ['note', 'The same requests pass, but names of counters or metrics, or answers, change'],
    'newly-limited': ['warning', 'Recorded requests would be newly limited'],
  },
  test: {
    'unexpected-answer': ['error', 'A decision differs from the one that a test expects'],
    'invalid-test': ['error', 'A file of tests has a mistake'],
    unreadable: ['error', 'Tests or their rules cannot be read'],
    'unreached-rule': ['note', 'No test reaches a rule'],
    'low-coverage': ['error', 'Tests reach fewer rules than --min-coverage requires'],
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
  const [level, what] = known ?? ['warning', `${code}, a finding of "weir ${command}"`];
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
