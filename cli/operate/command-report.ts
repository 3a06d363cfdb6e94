/** Prints what a command found, as text or data, once or again and again for `--watch`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { KubernetesConfigError } from '../../control-plane/kubernetes/client-config.ts';
import { CommandError, durationMs, type ParsedFlags, printProblem, rejectIdle } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { type OutputFormat, outputFormat, printedText } from '../shared/output.ts';

export const watchHelp = `  -w, --watch                 repeat the report until Ctrl-C, also after errors of limiters or the cluster
  --interval <t>              the time between two reports (default 2s)
`;

/** What a command found, for people and for programs. */
export interface CommandReport {
  /** The exit status. */
  status: number;
  value: object;
  text(): string;
}

/** Prints once, or with --watch until a signal arrives. Returns the status of the last report. */
export async function printReports(
  flags: ParsedFlags,
  look: () => Promise<CommandReport>,
  format: OutputFormat = outputFormat(flags),
): Promise<number> {
  const intervalMs = durationMs(flags, 'interval', { default: '2s', min: '100ms', max: '1h' });
  if (!flags.on('watch')) {
    rejectIdle(flags, ['interval'], 'without --watch');
    return print(await look(), format);
  }
  const { exit } = io();
  const ended = new AbortController();
  // Nothing is known before the first report.
  let status = 1;
  let isLooking = false;
  const end = () => {
    // A server that does not answer would keep the process alive until --timeout.
    if (isLooking) exit(status);
    ended.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM'] as const) io().once(signal, end);
  // No program reads any more, such as `head`.
  io().stdout.once('error', () => ended.abort());
  let isFirst = true;
  while (!ended.signal.aborted) {
    try {
      isLooking = true;
      const report = await look().finally(() => (isLooking = false));
      const between = format === 'yaml' ? '---\n' : isFirst ? '' : '\n';
      status = print(report, format, io().stdout.isTTY ? '\u001b[H\u001b[2J' : between);
      isFirst = false;
    } catch (error) {
      status = printPassingError(error);
    }
    await sleep(intervalMs, undefined, { signal: ended.signal }).catch(() => undefined);
  }
  return status;
}

/** Prints an error that may have passed at the next look, and returns its status. Rethrows errors of flags and of the kubeconfig. */
function printPassingError(error: unknown): number {
  if (!(error instanceof CommandError) || error.cause instanceof KubernetesConfigError) throw error;
  printProblem(error.message);
  return error.exitStatus;
}

function print({ status, value, text }: CommandReport, format: OutputFormat, before = ''): number {
  io().stdout.write(before + printedText(value, format, text));
  return status;
}
