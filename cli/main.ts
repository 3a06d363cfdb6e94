/** The command line: the first word names the command, and flags follow. Commands load their code only when called. */

import { setImmediate } from 'node:timers/promises';
import { packageVersion } from '../process/files/package-file.ts';
import { systemErrorReason } from '../process/log/error-text.ts';
import { reportNotRun } from '../process/log/process-lines.ts';
import { type Command, CommandError, handleWriteErrors, hintOf, UsageError } from './shared/flags.ts';
import { fittedHelp } from './shared/help.ts';
import { type CommandIo, io, processIo, withIo } from './shared/io.ts';
import { escaped } from './shared/text.ts';

interface CommandEntry {
  summary: string;
  load(): Promise<Command>;
}

/** Commands that query running limiters or change their behavior. Both programs have them. */
const ofOperators: Record<string, CommandEntry> = {
  top: {
    summary: 'show who is over limit most often, over all limiters',
    load: async () => (await import('./operate/top-command.ts')).topCommand,
  },
  counters: {
    summary: 'show or reset the counters of a key, or grant more hits',
    load: async () => (await import('./operate/counters-command.ts')).countersCommand,
  },
  budget: {
    summary: 'show how much of a budget is used, reserved and left',
    load: async () => (await import('./operate/budget-command.ts')).budgetCommand,
  },
  assignments: {
    summary: 'show how much of a limit each quota client holds',
    load: async () => (await import('./operate/assignments-command.ts')).assignmentsCommand,
  },
  override: {
    summary: 'set a temporary limit, block or shadow mode',
    load: async () => (await import('./operate/override-command.ts')).overrideCommand,
  },
  why: {
    summary: 'show why a request was over limit: the rule, the counts, the limiter',
    load: async () => (await import('./operate/why-command.ts')).whyCommand,
  },
};

const status: CommandEntry = {
  summary:
    'report limiters (rules, store, rates) and objects that are not Ready; the exit status is meant for scripts',
  load: async () => (await import('./operate/status-command.ts')).statusCommand,
};

const ofWeir: Record<string, CommandEntry> = {
  limiter: {
    summary: 'answer rate limit requests over gRPC and HTTP; settings come from the environment',
    load: async () => (await import('./server-commands.ts')).limiterCommand,
  },
  'control-plane': {
    summary:
      'serve RateLimitConfigs to limiters, and report what is in force; settings come from the environment',
    load: async () => (await import('./server-commands.ts')).controlPlaneCommand,
  },
  init: {
    summary: 'create a first limit: rules, the configuration of your proxy, and commands that show a 429',
    load: async () => (await import('./init/init-command.ts')).initCommand,
  },
  ask: {
    summary: 'ask a limiter for one decision, as a proxy does (it counts)',
    load: async () => (await import('./ask/ask-command.ts')).askCommand,
  },
  check: {
    summary:
      'check rule files, manifests, folders and rendered charts: errors and likely mistakes, with their location',
    load: async () => (await import('./check/check-command.ts')).checkCommand,
  },
  explain: {
    summary: 'show which rule applies to a request, and why; it counts nothing',
    load: async () => (await import('./explain/explain-command.ts')).explainCommand,
  },
  diff: {
    summary: 'compare two sets of rules: what changes, and what that means for traffic',
    load: async () => (await import('./diff/diff-command.ts')).diffCommand,
  },
  test: {
    summary: 'run tests of your rules: which decisions differ, why, and which rules no test reaches',
    load: async () => (await import('./test/test-command.ts')).testCommand,
  },
  convert: {
    summary: 'convert rules to another format: rule file, manifest or xDS JSON',
    load: async () => (await import('./convert/convert-command.ts')).convertCommand,
  },
  envoy: {
    summary:
      'write the Envoy configuration for rules: rate_limits, filter and cluster, or EnvoyFilters of Istio',
    load: async () => (await import('./envoy/envoy-command.ts')).envoyCommand,
  },
  replay: {
    summary:
      'replay recorded requests against rules: which requests would have been limited, by which rule, who and when',
    load: async () => (await import('./replay/replay-command.ts')).replayCommand,
  },
  schema: {
    summary: 'print the JSON Schema of rule files, profiles, callers files or manifests',
    load: async () => (await import('./schema/schema-command.ts')).schemaCommand,
  },
  callers: {
    summary: 'create a token for a caller of a limiter that has CALLERS_FILE',
    load: async () => (await import('./callers/callers-command.ts')).callersCommand,
  },
  webhook: {
    summary: "verify a delivery of the control plane's webhooks",
    load: async () => (await import('./webhook/webhook-command.ts')).webhookCommand,
  },
  status,
  ...ofOperators,
  completion: {
    summary: 'print a script that completes commands and flags in bash, zsh or fish',
    load: async () => (await import('./completion/completion-command.ts')).completionCommand(allOfWeir),
  },
};

async function allOfWeir(): Promise<{ name: string; summary: string; command: Command }[]> {
  const all = Object.entries(ofWeir).map(async ([name, { summary, load }]) => {
    return { name, summary, command: await load() };
  });
  return Promise.all(all);
}

/** Commands of a cluster, under the name by which kubectl finds the program: `kubectl-weir`. */
const ofKubectl: Record<string, CommandEntry> = {
  status,
  explain: {
    summary: "show which rule of the cluster's objects applies to a request, and why; it counts nothing",
    load: async () => (await import('./explain/explain-command.ts')).clusterExplainCommand,
  },
  ...ofOperators,
};

/** The names of this program, and the commands of each. */
export const programs = { weir: ofWeir, 'kubectl weir': ofKubectl };

function helpText(program: keyof typeof programs): string {
  const commands = programs[program];
  const width = Math.max(...Object.keys(commands).map((name) => name.length));
  const lines = Object.entries(commands).map(([name, { summary }]) => `  ${name.padEnd(width)}  ${summary}`);
  return fittedHelp(
    [
      `Usage: ${program} <command> [flags]`,
      '',
      ...lines,
      '',
      `  ${program} <command> --help   the arguments of a command`,
      `  ${program} --version`,
      '',
    ].join('\n'),
  );
}

async function dispatch(args: string[], program: keyof typeof programs): Promise<number> {
  const [given = '', ...rest] = args;
  // A deployment of envoyproxy/ratelimit has `command: /bin/ratelimit`. Its image has no entry point, so this arrives as an argument.
  const name = given === '/bin/ratelimit' ? 'limiter' : given;
  const commands = programs[program];
  if (/^(--?version|version)$/.test(name)) {
    io().stdout.write(`weir ${packageVersion()} (node ${process.versions.node})\n`);
    return 0;
  }
  if (name === 'help' && Object.hasOwn(commands, rest[0] ?? ''))
    return dispatch([...rest, '--help'], program);
  if (/^(--?help|-h|help)$/.test(name)) {
    io().stdout.write(helpText(program));
    return 0;
  }
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) {
    const [other] = Object.entries(programs).filter(([, more]) => Object.hasOwn(more, name));
    const elsewhere =
      other === undefined ? hintOf(name, Object.keys(commands)) : `; "${other[0]} ${name}" is one`;
    throw new UsageError(
      name === '' ? 'no command given' : `there is no command "${escaped(name)}"${elsewhere}`,
    );
  }
  return (await command.load())(rest);
}

/** Runs the command of the arguments and resolves to the exit status; 2 for a wrong command line or output that cannot be written. */
export async function main(
  args: string[],
  given: CommandIo = processIo,
  program: keyof typeof programs = 'weir',
): Promise<number> {
  let isOutputLost = false;
  handleWriteErrors([given.stdout, given.stderr], (error) => {
    isOutputLost = true;
    given.stderr.write(`${program}: the output cannot be written: ${systemErrorReason(error)}\n`);
  });
  // Only the other program needs its own io: see `withIo`.
  const own: CommandIo = program === 'weir' ? given : Object.create(given, { program: { value: program } });
  const status = await withIo(own, () => statusOf(args, program));
  // The error of the last write arrives a moment later.
  await setImmediate();
  return isOutputLost ? 2 : status;
}

async function statusOf(args: string[], program: keyof typeof programs): Promise<number> {
  try {
    return await dispatch(args, program);
  } catch (error) {
    if (error instanceof CommandError) {
      io().stderr.write(`${program}: ${escaped(error.message)}\n`);
      return error.exitStatus;
    }
    if (!(error instanceof UsageError)) throw error;
    io().stderr.write(`${program}: ${escaped(error.message)}\n${moreHelp(args, error, program)}`);
    return 2;
  }
}

function moreHelp(
  [name = '']: string[],
  { message, verb }: UsageError,
  program: keyof typeof programs,
): string {
  if (Object.hasOwn(programs[program], name)) {
    const command = verb === undefined ? name : `${name} ${verb}`;
    return `"${program} ${command} --help" describes its arguments.\n`;
  }
  if (message.includes('did you mean')) return `"${program} --help" lists the commands.\n`;
  return `\n${helpText(program)}`;
}

if (import.meta.main) reportNotRun('cli/main.ts', '<command>');
