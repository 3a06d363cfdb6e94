/** Repeats a report for `--watch`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { durationMs, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import type { OutputFormat } from '../shared/output.ts';

export const watchFlags = { watch: { type: 'boolean', short: 'w' }, interval: { type: 'string' } } as const;

export const watchHelp = `  -w, --watch                 repeat the report until Ctrl-C
  --interval <t>              the time between two reports (default 2s)
`;

/** Prints once, or with --watch until a signal arrives. Returns the status of the last report. */
export async function printReports(
  flags: ParsedFlags,
  look: () => Promise<{ status: number; text: string }>,
  format: OutputFormat,
): Promise<number> {
  const intervalMs = durationMs(flags, 'interval', { default: '2s', min: '100ms', max: '1h' });
  if (!flags.on('watch') && flags.text('interval') !== undefined)
    throw new UsageError('--interval has no effect without --watch');
  const ended = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) io().once(signal, () => ended.abort());
  for (let round = 0; ; round++) {
    const { status, text } = await look();
    const between = io().stdout.isTTY
      ? '\u001b[H\u001b[2J'
      : format === 'yaml'
        ? '---\n'
        : round === 0
          ? ''
          : '\n';
    io().stdout.write(flags.on('watch') ? between + text : text);
    if (!flags.on('watch') || ended.signal.aborted) return status;
    await sleep(intervalMs, undefined, { signal: ended.signal }).catch(() => undefined);
    if (ended.signal.aborted) return status;
  }
}
