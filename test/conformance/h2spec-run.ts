/** Runs h2spec and reads its report: which case of HTTP/2 came out how. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { temporaryFolder } from '../support/temporary-folder.ts';

export interface H2specCases {
  passed: string[];
  /** Section and number of a case, such as `http2/6.9.1/3`. */
  failed: string[];
  /** Those that the server's answers leave no way to try. */
  skipped: string[];
}

export interface H2specRun {
  h2spec: string;
  port: number;
  path: string;
  tls: boolean;
  /** For each step of a case. What fails as a rule takes so long, whatever the machine. */
  timeoutSeconds: number;
}

export async function runH2spec(run: H2specRun): Promise<H2specCases> {
  const report = join(temporaryFolder(), 'report.xml');
  const target = ['--host', '127.0.0.1', '--port', String(run.port), '--path', run.path];
  const tls = run.tls ? ['--tls', '--insecure'] : [];
  const how = ['--strict', '--timeout', String(run.timeoutSeconds), '--junit-report', report];
  const output = await printed(run.h2spec, [...how, ...target, ...tls]);
  const cases = readReport(readFileSync(report, 'utf8'));
  const reported = `${cases.passed.length} passed, ${cases.skipped.length} skipped, ${cases.failed.length} failed`;
  if (!output.includes(reported)) throw new Error(`the report says ${reported}, and h2spec:\n${output}`);
  return cases;
}

/** It ends with an error when a case failed, which the report reports better. */
function printed(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve) => {
    execFile(program, args, { maxBuffer: 2 ** 24 }, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
}

/** JUnit's form. Cases have no number there: they are counted within their section. */
export function readReport(xml: string): H2specCases {
  const cases: H2specCases = { passed: [], failed: [], skipped: [] };
  for (const [, section, body] of xml.matchAll(
    /<testsuite [^>]*package="([^"]*)"[^>]*>(.*?)<\/testsuite>/gs,
  )) {
    const all = [...(body as string).matchAll(/<testcase [^>]*>(.*?)<\/testcase>/gs)];
    all.forEach(([, outcome], index) => {
      const name = `${section}/${index + 1}`;
      if (outcome?.includes('<skipped')) cases.skipped.push(name);
      else if (outcome?.trim() === '') cases.passed.push(name);
      else cases.failed.push(name);
    });
  }
  return cases;
}
