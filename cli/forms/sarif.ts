/** SARIF 2.1.0 (OASIS, errata 01), the format of code scanning. */
import { isAbsolute, relative, resolve, sep } from 'node:path';
import { pathToFileURL } from 'node:url';
import { packageVersion } from '../../process/files/package-file.ts';
import { findingKinds } from '../../rules/finding-kinds.ts';
import { messageLines, type Report, type ReportedFinding } from './report.ts';

type KnownCode = readonly [level: ReportedFinding['severity'], what: string, ...reporters: string[]];
type KnownCodes = Readonly<Record<string, KnownCode>>;

/** The description of each kind of finding, and its default severity for a command. */
const knownCodes: Readonly<Record<Report['command'], KnownCodes>> = {
  check: findingKinds,
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
