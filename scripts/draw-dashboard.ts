/**
 * `npm run dashboard`: draws some panels of charts/weir/dashboards/weir.json as docs/pictures/dashboard.svg. Two limiters, a
 * Redis and a Prometheus run for three minutes under load, and Redis is down for a while. Lines show the answers of Prometheus to
 * the dashboard's own queries. The result is a drawing, not a screenshot of Grafana.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { ChildProgram } from '../test/support/child-program.ts';
import { findServer, prometheusProgram, redisProgram } from '../test/support/find-server.ts';
import { freePort } from '../test/support/free-port.ts';
import { LimiterClient } from '../test/support/limiter-client.ts';
import { startLimiter } from '../test/support/limiter-process.ts';
import { startRedis } from '../test/support/redis-server.ts';
import { projectRoot } from './commands.ts';

interface Panel {
  type: string;
  title: string;
  targets?: { expr: string; legendFormat?: string }[];
  fieldConfig?: { defaults?: { unit?: string } };
}

interface Line {
  name: string;
  points: [seconds: number, value: number][];
}

const shown = ['Calls by method', 'Decision time', 'Calls with errors or without the store'];
const alsoShown = ['Hits by domain', 'Hits over, near and within limits', 'Circuit breaker'];
const runSeconds = 180;
const awaySeconds: [number, number] = [110, 125];
const colors = ['#0969da', '#1a7f37', '#cf222e', '#9a6700', '#8250df'];

function programPath(program: typeof redisProgram): string {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  return found.path;
}

/** Runs everything. Resolves with the function that queries Prometheus. */
async function measure(folder: string): Promise<{ draw: string }> {
  const redis = await startRedis({ path: programPath(redisProgram) });
  const limiters = await Promise.all(
    [1, 2].map((n) =>
      startLimiter({
        env: {
          REDIS_SOCKET_TYPE: 'tcp',
          REDIS_URL: `127.0.0.1:${redis.port}`,
          USE_STATSD: 'false',
          USE_PROMETHEUS: 'true',
          PROMETHEUS_ADDR: '127.0.0.1:0',
          RUNTIME_ROOT: join(projectRoot, 'examples'),
          RUNTIME_SUBDIRECTORY: '',
          RUNTIME_APPDIRECTORY: 'rules',
          POD_NAME: `limiter-${n}`,
        },
      }),
    ),
  );
  const addresses = await Promise.all(
    limiters.map(async ({ program }) => (await program.printed(/Listening for Prometheus on '([^']*)'/))[1]),
  );
  const port = await freePort();
  const targets = addresses.map(
    (address, n) => `{ targets: ['${address}'], labels: { namespace: weir, instance: limiter-${n + 1} } }`,
  );
  writeFileSync(
    join(folder, 'prometheus.yml'),
    `global: { scrape_interval: 1s }\nscrape_configs: [{ job_name: weir, static_configs: [${targets.join(', ')}] }]\n`,
  );
  const prometheus = new ChildProgram({
    command: programPath(prometheusProgram),
    args: [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
  });
  const clients = limiters.map(({ ports }) => new LimiterClient(ports.grpc));
  const beganMs = Date.now();
  const load = ask(clients, beganMs);
  try {
    await sleep(awaySeconds[0] * 1_000);
    await redis.kill('SIGKILL');
    await sleep((awaySeconds[1] - awaySeconds[0]) * 1_000);
    await redis.start();
    await load;
    return { draw: await drawPanels(`http://127.0.0.1:${port}/api/v1`, beganMs / 1_000) };
  } finally {
    for (const client of clients) client.close();
    await prometheus.stop();
    await Promise.all(limiters.map((limiter) => limiter.stop()));
    await redis.stop();
  }
}

/** Sends requests from many addresses, a few of which send most of them, at a rate that rises and falls. */
async function ask(clients: readonly LimiterClient[], beganMs: number): Promise<void> {
  for (let n = 0; Date.now() - beganMs < runSeconds * 1_000; n++) {
    const seconds = (Date.now() - beganMs) / 1_000;
    const calls = Math.round(6 + 4 * Math.sin(seconds / 15));
    for (let i = 0; i < calls; i++) {
      const address = Math.random() < 0.2 ? '203.0.113.7' : `198.51.100.${Math.floor(Math.random() * 2_000)}`;
      const mail = Math.random() < 0.25;
      const entry = mail ? { key: 'tenant', value: address } : { key: 'remote_address', value: address };
      const request = { domain: mail ? 'mail' : 'shop', descriptors: [{ entries: [entry] }] };
      clients[(n + i) % clients.length]?.ask(request).catch(() => undefined);
    }
    await sleep(20);
  }
}

async function drawPanels(api: string, fromSeconds: number): Promise<string> {
  const { panels } = JSON.parse(
    readFileSync(join(projectRoot, 'charts/weir/dashboards/weir.json'), 'utf8'),
  ) as { panels: Panel[] };
  const find = (title: string): Panel => panels.find((panel) => panel.title === title) as Panel;
  const range = { from: fromSeconds + 10, to: fromSeconds + runSeconds };
  const stats = panels.filter(({ type }) => type === 'stat').slice(0, 6);
  const drawn = await Promise.all([
    ...stats.map(async (panel, n) => drawStat(panel, await linesOf(api, panel, range), 10 + n * 197)),
    ...[...shown, ...alsoShown].map(async (title, n) => {
      const panel = find(title);
      const place = { x: 10 + (n % 3) * 394, y: 90 + Math.floor(n / 3) * 210 };
      return drawChart(panel, await linesOf(api, panel, range), { ...place, ...range });
    }),
  ]);
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1192 540" role="img" aria-labelledby="title desc"
  font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif" font-size="12">
<title id="title">Panels of the dashboard</title>
<desc id="desc">Two limiters for three minutes. Calls swell and ebb; for 15 seconds Redis is away: calls fail at once, the breaker is
open, and afterward everything is as before.</desc>
<style>
.page{fill:#f6f8fa;stroke:#d0d7de}.panel{fill:#fff;stroke:#d0d7de}text{fill:#1f2328}.small{fill:#57606a;font-size:11px}.grid{stroke:#d0d7de}
.value{font-size:22px;font-weight:600}.line{fill:none;stroke-width:1.5}
@media (prefers-color-scheme:dark){.page{fill:#010409;stroke:#30363d}.panel{fill:#0d1117;stroke:#30363d}text{fill:#e6edf3}.small{fill:#9198a1}.grid{stroke:#30363d}}
</style>
<rect class="page" x="0.5" y="0.5" width="1191" height="539" rx="8"/>
${drawn.join('\n')}
<text class="small" x="12" y="530">Drawn from Prometheus' answers to the dashboard's queries. Grafana looks different. Redis was down for 15 s, and the machine had other work.</text>
</svg>
`;
}

async function linesOf(
  api: string,
  panel: Panel,
  { from, to }: { from: number; to: number },
): Promise<Line[]> {
  const answers = (panel.targets ?? []).map(async ({ expr, legendFormat = '' }) => {
    const query = expr
      .replaceAll(/\$(namespace|job|domain)/g, '.*')
      .replaceAll('$__rate_interval', '5s')
      .replaceAll('$__range', `${runSeconds}s`);
    const parameters = new URLSearchParams({ query, start: String(from), end: String(to), step: '1' });
    const answer = (await (await fetch(`${api}/query_range?${parameters}`)).json()) as {
      data: { result: { metric: Record<string, string>; values: [number, string][] }[] };
    };
    return answer.data.result.map(({ metric, values }) => ({
      name: legendFormat.replaceAll(/\{\{(\w+)\}\}/g, (_, label: string) => metric[label] ?? ''),
      points: values.map(([at, value]): [number, number] => [at, Number(value)]),
    }));
  });
  return (await Promise.all(answers)).flat().filter(({ points }) => points.some(([, value]) => value > 0));
}

function text(value: number, unit: string | undefined): string {
  if (unit === 's') return `${(value * 1_000).toFixed(1)} ms`;
  const digits = value < 10 && !Number.isInteger(value) ? 1 : 0;
  return `${value.toFixed(digits)}${unit === 'reqps' || unit === 'cps' ? '/s' : ''}`;
}

function drawStat(panel: Panel, lines: readonly Line[], x: number): string {
  const unit = panel.fieldConfig?.defaults?.unit;
  const values = lines.map(({ points }) => points.at(-1)?.[1]).filter((value) => value !== undefined);
  const value = values.length === 0 ? text(0, unit) : values.map((one) => text(one, unit)).join(' / ');
  return `<rect class="panel" x="${x}" y="10" width="187" height="70" rx="4"/><text x="${x + 10}" y="30">${panel.title}</text><text class="value" x="${x + 10}" y="64">${value}</text>`;
}

function drawChart(
  panel: Panel,
  lines: readonly Line[],
  { x, y, from, to }: { x: number; y: number; from: number; to: number },
): string {
  const unit = panel.fieldConfig?.defaults?.unit;
  const max = Math.max(1e-9, ...lines.flatMap(({ points }) => points.map(([, value]) => value || 0))) * 1.1;
  const left = x + 62;
  const [width, height] = [310, 118];
  const across = (at: number): string => (left + (width * (at - from)) / (to - from)).toFixed(1);
  const down = (value: number): string => (y + 34 + height * (1 - value / max)).toFixed(1);
  const grid = [0, 0.5, 1].map((share) => {
    const value = share * max;
    return `<path class="grid" d="M${left} ${down(value)}h${width}"/><text class="small" x="${left - 6}" y="${Number(down(value)) + 4}" text-anchor="end">${text(value, unit)}</text>`;
  });
  const paths = lines.slice(0, colors.length).map(({ name, points }, n) => {
    const known = points.filter(([, value]) => Number.isFinite(value));
    const d = known.map(([at, value], i) => `${i === 0 ? 'M' : 'L'}${across(at)} ${down(value)}`).join('');
    const at = left + n * 78;
    return `<path class="line" stroke="${colors[n]}" d="${d}"/><path d="M${at} ${y + 180}h10" stroke="${colors[n]}" stroke-width="3"/><text class="small" x="${at + 14}" y="${y + 184}">${shortened(name)}</text>`;
  });
  return `<rect class="panel" x="${x}" y="${y}" width="384" height="200" rx="4"/><text x="${x + 10}" y="${y + 20}">${panel.title}</text>${grid.join('')}${paths.join('')}`;
}

function shortened(name: string): string {
  return name.length > 11 ? `${name.slice(0, 10)}…` : name;
}

const folder = mkdtempSync(join(tmpdir(), 'weir-dashboard-'));
try {
  const { draw } = await measure(folder);
  writeFileSync(join(projectRoot, 'docs/pictures/dashboard.svg'), draw);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
