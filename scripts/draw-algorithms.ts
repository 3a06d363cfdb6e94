/**
 * Draws docs/algorithms.svg: the requests that each algorithm lets pass around the edge of a window. One client sends ten
 * requests a second for a while to three services of the limiter, whose clock the script moves. With `--check`, writes nothing
 * and fails if the committed file is stale.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { Code } from '../limiter/decide/messages.ts';
import { parseLimiterSettings } from '../limiter/settings/settings.ts';
import { ReplayedRules } from '../replay/replayed-rules.ts';
import { readRuleFiles } from '../rules/reader/read-rule-files.ts';
import { compileRules } from '../rules/table/compile-rules.ts';
import { RuleTable } from '../rules/table/rule-table.ts';

const target = new URL('../docs/algorithms.svg', import.meta.url);
/** The part of the drawing in seconds after the start of a minute, during which the client sends requests. */
const shown = { from: 40, to: 140 };
const asking = { from: 50, to: 130 };
const perSecond = 10;

const panels = [
  { title: 'fixed_window, 100 per minute', fields: '' },
  { title: 'sliding_window, 100 per minute', fields: ', algorithm: sliding_window' },
  { title: 'token_bucket, 100 per minute, burst 20', fields: ', algorithm: token_bucket, burst: 20' },
];

/** Returns how many requests pass in each second, and the maximum in any minute. */
function run(fields: string): { passed: number[]; worstMinute: number } {
  const text = `domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: minute, requests_per_unit: 100${fields} }\n`;
  const read = readRuleFiles([{ name: 'rules.yaml', text }], { mergeDomains: false });
  const parsed = parseLimiterSettings({ BACKEND_TYPE: 'memory' });
  if (read.errors.length > 0 || parsed.settings === undefined)
    throw new Error('rules or settings were refused');
  const rules = new ReplayedRules({
    table: new RuleTable(compileRules(read.sources)),
    settings: parsed.settings,
  });
  const startMs = Date.UTC(2026, 0, 1);
  const passed = new Array<number>(shown.to).fill(0);
  const descriptor = { entries: [{ key: 'k', value: 'v' }], limit: undefined, hitsAddend: undefined };
  for (let tick = asking.from * perSecond; tick < asking.to * perSecond; tick++) {
    const request = { domain: 'd', descriptors: [{ ...descriptor, isNegativeHits: false }], hitsAddend: 1 };
    const decision = rules.decide(startMs + (tick * 1000) / perSecond, request);
    if ('error' in decision) throw decision.error;
    if (decision.response.overallCode === Code.OK) passed[Math.floor(tick / perSecond)]! += 1;
  }
  const minutes = passed.map((_, second) => sum(passed.slice(Math.max(0, second - 59), second + 1)));
  return { passed, worstMinute: Math.max(...minutes) };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}

const size = { width: 900, panel: 130, left: 60, right: 20, top: 34, plot: 70 };
const x = (second: number): number =>
  size.left + ((second - shown.from) / (shown.to - shown.from)) * (size.width - size.left - size.right);

function panelOf({ title, fields }: (typeof panels)[number], index: number): string {
  const { passed, worstMinute } = run(fields);
  const bottom = index * size.panel + size.top + size.plot;
  const y = (count: number): number => bottom - (count / perSecond) * size.plot;
  const bar = (second: number, count: number, kind: string): string =>
    `<rect class="${kind}" x="${x(second).toFixed(1)}" y="${y(count).toFixed(1)}" width="${(x(1) - x(0) - 1).toFixed(1)}" height="${(bottom - y(count)).toFixed(1)}"/>`;
  const bars: string[] = [];
  for (let second = asking.from; second < asking.to; second++) {
    bars.push(bar(second, perSecond, 'asked'));
    const count = passed[second]!;
    if (count > 0) bars.push(bar(second, count, 'passed'));
  }
  const edges = [60, 120].map(
    (second) => `<path class="edge" d="M${x(second).toFixed(1)} ${bottom - size.plot - 6}V${bottom}"/>`,
  );
  return [
    `<text x="${size.left}" y="${bottom - size.plot - 12}"><tspan class="name">${title}</tspan>: at most ${worstMinute} pass in any minute</text>`,
    ...bars,
    ...edges,
    `<path class="axis" d="M${size.left} ${bottom}H${size.width - size.right}"/>`,
    ...[60, 120].map(
      (second) =>
        `<text class="small" x="${x(second).toFixed(1)}" y="${bottom + 15}" text-anchor="middle">${second === 60 ? 'a minute begins' : 'the next'}</text>`,
    ),
    `<text class="small" x="${size.left - 6}" y="${y(perSecond) + 4}" text-anchor="end">${perSecond}/s</text>`,
  ].join('\n  ');
}

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size.width} ${panels.length * size.panel}" role="img" aria-labelledby="title desc"
  font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="14" fill="#1f2328">
  <title id="title">What three algorithms let pass around the edge of a minute</title>
  <desc id="desc">A client asks ten times a second from ten seconds before a minute begins on. The fixed window lets 200 pass in
    little more than ten seconds, the sliding window 100 and then as many as leave the former minute, the bucket 20 and then a
    steady rate.</desc>
  <style>
    .name { font-weight: 600; }
    .small { font-size: 12px; fill: #424a53; }
    .asked { fill: #eaeef2; }
    .passed { fill: #0969da; }
    .edge { stroke: #cf222e; stroke-dasharray: 4 3; }
    .axis { stroke: #57606a; }
  </style>
  <rect width="100%" height="100%" fill="#ffffff"/>
  ${panels.map(panelOf).join('\n  ')}
</svg>
`;

if (!process.argv.includes('--check')) {
  writeFileSync(target, svg);
} else if (readFileSync(target, 'utf8') !== svg) {
  console.error('docs/algorithms.svg is stale, run "npm run generate"');
  process.exitCode = 1;
}
