/**
 * Writes a report as SARIF, JUnit, TAP, GitHub annotations or Markdown. A report may quote foreign texts, so each format escapes
 * every text.
 */
import { io } from '../shared/io.ts';
import { dataText, escaped, placeText, valueText } from '../shared/text.ts';
import { messageLines, type Report, type ReportedCase, type ReportedFinding } from './report.ts';
import { sarifLog } from './sarif.ts';

/** Returns a complete document in one of these forms, even without findings. `workingFolder` is an absolute path. */
export function documentOf(report: Report, form: string, workingFolder = io().cwd()): string {
  if (form === 'markdown') return report.markdown();
  if (form === 'github') return githubCommands(report);
  if (form === 'junit') return junitDocument(report);
  if (form === 'tap') return tapDocument(report);
  return valueText(sarifLog(report, workingFolder), 'json');
}

function githubCommands({ findings, isQuiet }: Report): string {
  const shown = isQuiet ? findings.filter(({ severity }) => severity === 'error') : findings;
  return shown.toSorted(byGravity).map(githubCommand).join('');
}

const gravity = { error: 0, warning: 1, note: 2 };

/** Sorts errors first, because GitHub shows only the first ten annotations of a step. */
function byGravity(a: ReportedFinding, b: ReportedFinding): number {
  return gravity[a.severity] - gravity[b.severity];
}

/** Returns for example `::error file=...,line=3::text`, which a runner shows beside the line. */
function githubCommand(finding: ReportedFinding): string {
  const { severity, code, file, line, column, length } = finding;
  const place = line === undefined ? {} : { line, col: column };
  const end = column === undefined || length === undefined ? {} : { endColumn: column + length };
  const properties = Object.entries({ file, ...place, ...end, title: `weir: ${code}` })
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${commandProperty(`${value}`)}`);
  const name = severity === 'note' ? 'notice' : severity;
  return `::${name} ${properties.join(',')}::${commandData(messageLines(finding))}\n`;
}

function commandData(text: string): string {
  return text.replaceAll('%', '%25').replaceAll('\r', '%0D').replaceAll('\n', '%0A');
}

function commandProperty(text: string): string {
  return commandData(text).replaceAll(':', '%3A').replaceAll(',', '%2C');
}

/** Returns a case for each file without findings, and one for each finding. */
function casesOf({ cases, findings, files }: Report): readonly ReportedCase[] {
  if (cases !== undefined) return cases;
  const named = new Set(findings.map(({ file }) => file));
  const good = files.filter((file) => !named.has(file));
  return [
    ...good.map((file) => ({ name: file, file, findings: [] })),
    ...findings.map((one) => {
      return {
        name: `${placeText(one.file, one)} ${one.code}`,
        file: one.file,
        line: one.line,
        findings: [one],
      };
    }),
  ];
}

function isFailed({ findings }: ReportedCase): boolean {
  return findings.some(({ severity }) => severity === 'error');
}

/** In JUnit, notes and warnings pass. */
function junitDocument(report: Report): string {
  const cases = casesOf(report);
  // A case counts once, even with several findings.
  const failed = cases.filter(isFailed);
  const errors = failed.filter(({ findings }) => findings.some(({ code }) => code === 'unreadable')).length;
  const counts = attributes({
    tests: cases.length,
    failures: failed.length - errors,
    errors,
    skipped: 0,
    time: 0,
  });
  const name = attributes({ name: `weir ${report.command}` });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${name}${counts}>`,
    `  <testsuite${name}${counts}>`,
    `    <properties><property name="exitStatus" value="${report.exitStatus}"/></properties>`,
    ...cases.map(junitCase),
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

function junitCase({ name, file, line, findings }: ReportedCase): string {
  const head = `    <testcase${attributes({ name, classname: file, file, line, time: 0 })}`;
  if (findings.length === 0) return `${head}/>`;
  return [`${head}>`, ...findings.map((one) => `      ${junitFinding(one)}`), '    </testcase>'].join('\n');
}

function junitFinding(finding: ReportedFinding): string {
  const { severity, code } = finding;
  const text = xml(`${placeText(finding.file, finding)}: ${severity}: ${messageLines(finding)}`);
  if (severity !== 'error') return `<system-out>${text}</system-out>`;
  const element = code === 'unreadable' ? 'error' : 'failure';
  return `<${element}${attributes({ type: code, message: finding.message })}>${text}</${element}>`;
}

/** TAP 14: https://testanything.org/tap-version-14-specification.html */
function tapDocument(report: Report): string {
  const lines = casesOf(report).flatMap((one, index) => {
    const name = escaped(`${one.file}: ${one.name}`).replace(/[\\#]/g, '\\$&');
    const findings = one.findings.map((finding) => {
      return {
        at: placeText(finding.file, finding),
        severity: finding.severity,
        message: messageLines(finding),
      };
    });
    const more = findings.length === 0 ? '' : dataText(JSON.stringify({ findings }), 'yaml');
    const block = more === '' ? [] : ['---', ...more.trimEnd().split('\n'), '...'].map((line) => `  ${line}`);
    return [`${isFailed(one) ? 'not ok' : 'ok'} ${index + 1} - ${name}`, ...block];
  });
  return ['TAP version 14', `1..${casesOf(report).length}`, ...lines, ''].join('\n');
}

function attributes(values: Record<string, string | number | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${xml(escaped(`${value}`))}"`)
    .join('');
}

/** Removes characters that no XML document may hold, not even escaped (XML 1.0, section 2.2), and escapes others. */
function xml(text: string): string {
  return (
    text
      .toWellFormed()
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is looked for
      .replace(/[\u0000-\u0008\u000b-\u001f\ufffe\uffff]/g, '\ufffd')
      .replaceAll('&', '&amp;')
      .replaceAll('<', '&lt;')
      .replaceAll('>', '&gt;')
      .replaceAll('"', '&quot;')
  );
}
