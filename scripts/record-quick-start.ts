/**
 * Records the quick start of the README as docs/quick-start.cast (asciicast v2): runs its commands, on its ports, and
 * keeps what they print and when. Typing is made up, and so are the pauses to read; nothing else is.
 */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { projectRoot } from './commands.ts';

const keyMs = 25;
const readMs = 1500;
const prompt = '\u001b[32m$\u001b[0m ';

/** Times in seconds since the beginning, as players want them. */
class Recording {
  readonly #events: [number, 'o', string][] = [];
  #ms = 0;

  print(text: string, afterMs = 0): void {
    this.#ms += afterMs;
    const seconds = Math.round(this.#ms) / 1000;
    this.#events.push([seconds, 'o', text.replace(/\r?\n/g, '\r\n')]);
  }

  type(text: string): void {
    this.print(prompt, 0);
    for (const key of text) this.print(key, keyMs);
    this.print('\n', 10 * keyMs);
  }

  pause(): void {
    this.#ms += readMs;
  }

  text(): string {
    const header = { version: 2, width: 120, height: 34, title: 'The quick start of Weir' };
    return [header, ...this.#events].map((line) => `${JSON.stringify(line)}\n`).join('');
  }
}

/** The first command of the README that begins so. */
function command(beginning: string): string {
  const blocks = readFileSync(join(projectRoot, 'docs/start.md'), 'utf8').matchAll(/```sh\n(.*?)\n```/gs);
  for (const [, text = ''] of blocks) if (text.startsWith(beginning)) return text;
  throw new Error(`the README has no command "${beginning}"`);
}

/** Runs a command and records what it prints until it ends, or until it has printed that. */
async function run(recording: Recording, text: string, until?: RegExp): Promise<() => Promise<void>> {
  // Without npm settings of whoever records.
  const env = { ...process.env, npm_config_userconfig: '/dev/null', npm_config_update_notifier: 'false' };
  const child = spawn('sh', ['-c', text], { cwd: projectRoot, env, detached: true });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  let printed = '';
  let lastMs = performance.now();
  let isOver = false;
  await new Promise<void>((resolve, reject) => {
    const keep = (chunk: Buffer): void => {
      if (isOver) return;
      const nowMs = performance.now();
      recording.print(String(chunk), nowMs - lastMs);
      lastMs = nowMs;
      printed += String(chunk);
      if (until?.test(printed) === true) resolve();
    };
    child.stdout.on('data', keep);
    child.stderr.on('data', keep);
    child.once('error', reject);
    void ended.then(resolve);
  });
  isOver = true;
  return () => {
    // The group, as Ctrl-C does.
    if (child.exitCode === null && child.pid !== undefined) process.kill(-child.pid, 'SIGINT');
    return ended;
  };
}

const recording = new Recording();
recording.type('npm start');
const stop = await run(
  recording,
  'npm start',
  /^(?=[\s\S]*curl .*\/json.*\n)(?=[\s\S]*Listening for HTTP.*\n)/,
);
recording.pause();
try {
  recording.type('# in another terminal');
  const curl = command('curl -i').replace('curl -i', 'curl -si');
  recording.type(command('curl -i'));
  for (let i = 0; i < 6; i++) {
    // The arrow key brings the command back.
    if (i > 0) recording.print(`${prompt}${command('curl -i')}\n`);
    await run(recording, `${curl} && echo`);
    recording.pause();
  }
  const ask = command('npx weir ask');
  recording.type(ask);
  await run(recording, ask);
  recording.pause();
  recording.print(prompt);
} finally {
  await stop();
}
writeFileSync(join(projectRoot, 'docs/quick-start.cast'), recording.text());
