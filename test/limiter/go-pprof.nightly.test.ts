import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { goProgram } from '../support/find-server.ts';

const run = promisify(execFile);
const moduleUrl = (path: string): string => JSON.stringify(new URL(path, import.meta.url).href);

/** A process that is busy in one function and keeps the objects of another. */
const program = `import { DebugListener } from ${moduleUrl('../../limiter/http/debug-listener.ts')};
import { PprofPages } from ${moduleUrl('../../limiter/pprof/pprof-pages.ts')};
import { systemClock } from ${moduleUrl('../../process/time/clock.ts')};
const kept: object[] = [];
function keepObjects(): void {
  for (let i = 0; i < 300_000; i++) kept.push({ i, name: 'object ' + i });
}
function burnTime(): number {
  const until = performance.now() + 5;
  let x = 0;
  while (performance.now() < until) {
    for (let i = 0; i < 10_000; i++) x += Math.sqrt(i);
  }
  return x;
}
const none = () => [];
const debug = new DebugListener({
  rlconfigLines: none,
  ruleFileLines: none,
  statsLines: none,
  pages: [new PprofPages(systemClock, { count: 0, ask: none, askOne: none, reach: none, publish: none })],
  closeGraceMs: 0,
  onFault: (error) => console.error(error),
});
const { port } = await debug.listen({ host: '127.0.0.1', port: 0 });
keepObjects();
setInterval(burnTime, 10);
process.stdout.write('port ' + port + '\\n');
`;

/** The number of the first line of the program that has this text. */
const lineOf = (text: string): number => program.split('\n').findIndex((line) => line.includes(text)) + 1;

describeWithServer('go tool pprof', goProgram, (go) => {
  let folder = '';
  let busy: ChildProgram;
  let pages = '';

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'weir-pprof-'));
    await writeFile(join(folder, 'busy.ts'), program);
    busy = new ChildProgram({ command: process.execPath, args: [join(folder, 'busy.ts')] });
    pages = `http://127.0.0.1:${(await busy.printed(/^port (\d+)$/m))[1]}/debug/pprof`;
    await pprof('-top', `${pages}/heap`);
  }, 300_000);

  afterAll(async () => {
    await busy?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** What it prints on both streams. The first run of all may compile the tool. */
  async function pprof(...args: string[]): Promise<string> {
    const env = { ...process.env, PPROF_TMPDIR: folder };
    const { stdout, stderr } = await run(go, ['tool', 'pprof', ...args], { env }).catch(
      (failed: { stdout: string; stderr: string }) => failed,
    );
    return stdout + stderr;
  }

  it('finds the busy function, with its place, in a CPU profile', async () => {
    const top = await pprof('-top', `${pages}/profile?seconds=2`);
    expect(top).toMatch(/^Type: cpu$/m);
    const busyFunction = String.raw`burnTime \(.*/busy\.ts:${lineOf('function burnTime')}\)`;
    expect(top).toMatch(new RegExp(String.raw`^ +[\d.]+m?s +(?:[5-9]\d\.\d+|100)%.* ${busyFunction}$`, 'm'));
    expect(top).not.toContain('(idle)');
    const share = Number(/Total samples = .* \(([\d.]+)%\)/.exec(top)?.[1]);
    expect(share).toBeGreaterThan(20);
    expect(share).toBeLessThan(90);
  });

  it('shows which line of our source took the time', async () => {
    const lines = await pprof('-top', '-lines', `${pages}/profile?seconds=1`);
    const loop = [lineOf('while (performance'), lineOf('Math.sqrt')].join('|');
    expect(lines).toMatch(new RegExp(String.raw`burnTime .* ${folder}/busy\.ts:(${loop})$`, 'm'));
  });

  it('finds the holder of memory in a heap profile', async () => {
    const top = await pprof('-top', '-inuse_space', `${pages}/heap`);
    expect(top).toMatch(/^Type: inuse_space$/m);
    const keeper = String.raw`keepObjects \(.*/busy\.ts:${lineOf('function keepObjects')}\)`;
    expect(top).toMatch(new RegExp(String.raw`^ *[\d.]+[kM]B +(?:[5-9]\d\.\d+|100)%.* ${keeper}$`, 'm'));
    expect(top).toContain('JavaScript objects alive and allocated since ');
  });

  it('shows why a request is rejected', async () => {
    expect(await pprof('-top', `${pages}/goroutine`)).toContain('404 Not Found - Unknown profile');
    expect(await pprof('-top', `${pages}/profile?seconds=301`)).toContain(
      '400 Bad Request - seconds must be a whole number from 1 to 300, not "301"',
    );
  });
});
