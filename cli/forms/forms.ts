/**
 * A report in the forms that other programs read: SARIF, JUnit, annotations of GitHub, Markdown. All of it may quote what
 * others wrote, so each form escapes every text.
 */
import { escaped } from '../shared/flags.ts';
import { dataText } from '../shared/output.ts';
import { messageLines, type Report, type ReportedFinding, type ReportForm } from './report.ts';
import { sarifLog } from './sarif.ts';

/** A whole document, whatever was found. `workingFolder` is an absolute path. */
export function reportText(report: Report, form: ReportForm, workingFolder: string): string {
  if (form === 'markdown') return report.markdown();
  if (form === 'github') return githubCommands(report);
  if (form === 'junit') return junitDocument(report);
  return dataText(`${JSON.stringify(sarifLog(report, workingFolder), undefined, 2)}\n`, 'json');
}

function githubCommands({ findings, isQuiet }: Report): string {
  const said = isQuiet ? findings.filter(({ severity }) => severity === 'error') : findings;
  return said.toSorted(byGravity).map(githubCommand).join('');
}

const gravity = { error: 0, warning: 1, note: 2 };

/** GitHub shows the first ten of a step. */
function byGravity(a: ReportedFinding, b: ReportedFinding): number {
  return gravity[a.severity] - gravity[b.severity];
}

/** `::error file=...,line=3::text`, which a runner shows beside the line. */
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

/** A test for each file that is well, and one for each finding; notes and warnings pass. */
function junitDocument({ command, findings, files, exitStatus }: Report): string {
  const named = new Set(findings.map(({ file }) => file));
  const good = files.filter((file) => !named.has(file)).map((file) => testCase(file, { file }, ''));
  const failed = findings.filter(({ severity }) => severity === 'error');
  const errors = failed.filter(({ code }) => code === 'unreadable').length;
  const cases = [...good, ...findings.map(findingCase)];
  const counts = attributes({
    tests: cases.length,
    failures: failed.length - errors,
    errors,
    skipped: 0,
    time: 0,
  });
  const name = attributes({ name: `weir ${command}` });
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    `<testsuites${name}${counts}>`,
    `  <testsuite${name}${counts}>`,
    `    <properties><property name="exitStatus" value="${exitStatus}"/></properties>`,
    ...cases,
    '  </testsuite>',
    '</testsuites>',
    '',
  ].join('\n');
}

function findingCase(finding: ReportedFinding): string {
  const { severity, code, file, line, column } = finding;
  const place = line === undefined ? file : `${file}:${line}:${column ?? 1}`;
  const text = xml(`${place}: ${severity}: ${messageLines(finding)}`);
  const failure = attributes({ type: code, message: finding.message });
  const element = code === 'unreadable' ? 'error' : 'failure';
  const inner =
    severity === 'error' ? `<${element}${failure}>${text}</${element}>` : `<system-out>${text}</system-out>`;
  return testCase(`${place} ${code}`, { file, line }, inner);
}

function testCase(
  name: string,
  { file, line }: { file: string; line?: number | undefined },
  inner: string,
): string {
  const head = `    <testcase${attributes({ name, classname: file, file, line, time: 0 })}`;
  return inner === '' ? `${head}/>` : `${head}>\n      ${inner}\n    </testcase>`;
}

function attributes(values: Record<string, string | number | undefined>): string {
  return Object.entries(values)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => ` ${name}="${xml(escaped(`${value}`))}"`)
    .join('');
}

/** XML 1.0, section 2.2: some characters stand in no document, not even escaped. */
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
