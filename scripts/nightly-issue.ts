/**
 * Writes the report of a failed nightly run as an issue on GitHub, or as a comment if such an issue is open. It needs `gh` and these
 * environment variables: REPORT (Markdown, may be empty), RUN_URL, GH_REPO and GH_TOKEN.
 */
import { spawnSync } from 'node:child_process';

const label = 'nightly';

function gh(...args: string[]): string {
  const { status, stdout, error } = spawnSync('gh', args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status === 0) return stdout.trim();
  console.error(`gh ${args.slice(0, 2).join(' ')}: ${error?.message ?? `exit status ${status}`}`);
  process.exit(1);
}

const { REPORT: report = '', RUN_URL: runUrl = '' } = process.env;
const body = [
  `The nightly run failed: ${runUrl}`,
  '',
  report.trim() || 'It ended before it wrote a report. The log of the run has the rest.',
].join('\n');
gh('label', 'create', label, '--force', '--description', 'A long test failed', '--color', 'd93f0b');
const open = gh(
  'issue',
  'list',
  '--label',
  label,
  '--state',
  'open',
  '--limit',
  '1',
  '--json',
  'number',
  '--jq',
  '.[].number',
);
const reported =
  open === ''
    ? gh('issue', 'create', '--title', 'The nightly run failed', '--label', label, '--body', body)
    : gh('issue', 'comment', open, '--body', body);
console.log(reported);
