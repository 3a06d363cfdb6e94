/** Prints what a command found in the form of `-o`, once or again and again for `--watch`. */
import { setTimeout as sleep } from 'node:timers/promises';
import { orWords } from '../../rules/rule-error.ts';
import {
  type Command,
  CommandError,
  type CommandFacts,
  commandOf,
  durationMs,
  type ParsedFlags,
  printProblem,
  rejectIdle,
  UsageError,
} from './flags.ts';
import { outputForms } from './help.ts';
import { io } from './io.ts';
import { valueText } from './text.ts';

/** The flag of commands that print a table. */
export const outputHelp = `  -o, --output <form>         how to print the result: table (default), json or yaml
`;

export const watchHelp = `  -w, --watch                 repeat the report until Ctrl-C, also after errors of limiters or the cluster
  --interval <t>              the time between two reports (default 2s)
`;

/** What a command found, for people and for programs. */
export interface CommandReport {
  /** The exit status. */
  status: number;
  value: object;
  text(): string;
  /** Returns the document for the other forms that the command has. */
  document?(form: string): string;
}

/**
 * Makes a command that prints a report. `look` may return an exit status instead, after it printed why there is no report. `forms` are
 * the values of `-o`.
 */
export function reportCommand(
  help: string,
  look: (flags: ParsedFlags) => Promise<CommandReport | number>,
  { forms = outputForms, ...facts }: CommandFacts & { forms?: readonly string[] } = {},
): Command {
  return commandOf(help, (flags) => printReports(flags, () => look(flags), forms), {
    ...facts,
    values: { ...facts.values, output: forms },
  });
}

/** Reads `-o`; `table` and `text` are the same. @throws UsageError */
export function outputForm(flags: ParsedFlags, forms: readonly string[] = outputForms): string {
  const form = flags.text('output') ?? 'text';
  if (form === 'table' || form === 'text') return 'text';
  if (forms.includes(form)) return form;
  throw new UsageError(`--output is ${orWords(forms)}, not "${form}"`);
}

/** Prints once, or with --watch until a signal arrives. Returns the status of the last report. */
async function printReports(
  flags: ParsedFlags,
  look: () => Promise<CommandReport | number>,
  forms: readonly string[],
): Promise<number> {
  const form = outputForm(flags, forms);
  const intervalMs = durationMs(flags, 'interval', { default: '2s', min: '100ms', max: '1h' });
  if (!flags.on('watch')) {
    rejectIdle(flags, ['interval'], 'without --watch');
    return printReport(await look(), form);
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
      const between = form === 'yaml' ? '---\n' : isFirst ? '' : '\n';
      status = printReport(report, form, io().stdout.isTTY ? '\u001b[H\u001b[2J' : between);
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
  // The class is not imported, because most commands need no code for clusters.
  const isLasting = error instanceof CommandError && (error.cause as Error)?.name === 'KubernetesConfigError';
  if (!(error instanceof CommandError) || isLasting) throw error;
  printProblem(error.message);
  return error.exitStatus;
}

/** Prints a report in a form. Returns its exit status. */
export function printReport(report: CommandReport | number, form: string, before = ''): number {
  if (typeof report === 'number') return report;
  io().stdout.write(before + reportText(report, form));
  return report.status;
}

function reportText({ value, text, document }: CommandReport, form: string): string {
  if (form === 'text') return text();
  return form === 'json' || form === 'yaml' ? valueText(value, form) : document!(form);
}
