/** Completion for shells: scripts made from the flags of the commands, so that pressing Tab starts no program. */

import { type Command, commandOf, commandOfVerbs, helpFlag } from '../shared/flags.ts';
import type { FlagTypes } from '../shared/help.ts';
import { io } from '../shared/io.ts';

/** A command with its name. */
export interface NamedCommand {
  name: string;
  summary: string;
  command: Command;
}

const help = `Usage: weir completion bash|zsh|fish

Prints a script that completes commands, flags and their values in a shell.

  source <(weir completion bash)                                    # in ~/.bashrc
  weir completion zsh > "\${fpath[1]}/_weir"                         # then start a new shell
  weir completion fish > ~/.config/fish/completions/weir.fish

It matches this version, so print it again after an update.
Exit status: 0, or 2 for a wrong command line.
`;

/** `load` is called when a script is printed. */
export function completionCommand(load: () => Promise<readonly NamedCommand[]>): Command {
  const verb = (script: (commands: readonly NamedCommand[]) => string) =>
    commandOf(help, async () => {
      io().stdout.write(script(await load()));
      return 0;
    });
  return commandOfVerbs(help, { bash: verb(bashScript), zsh: verb(zshScript), fish: verb(fishScript) });
}

/** One command or subcommand, by the words that lead to it: `override set`. */
interface CompletedCommand {
  path: string;
  /** Possible values of its first argument. */
  words: readonly string[];
  flags: FlagTypes;
}

function placesOf(commands: readonly NamedCommand[]): CompletedCommand[] {
  return commands.flatMap(({ name, command }) => {
    const { flags, verbs, words } = command;
    const own = { path: name, words: [...Object.keys(verbs), ...words], flags: { ...flags, ...helpFlag } };
    const more = Object.entries(verbs).map(([verb, { flags: ofVerb, words: ofWords }]) => {
      return { path: `${name} ${verb}`, words: ofWords, flags: { ...ofVerb, ...helpFlag } };
    });
    return [own, ...more];
  });
}

/** Returns the spellings of flags, such as `--output` and `-o`. */
function spellings(flags: FlagTypes): { spelling: string; values: readonly string[]; isText: boolean }[] {
  return Object.entries(flags).flatMap(([name, { type, short, values = [] }]) => {
    const names = short === undefined ? [`--${name}`] : [`--${name}`, `-${short}`];
    return names.map((spelling) => ({ spelling, values, isText: type === 'string' }));
  });
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The branches that bash and zsh share: they compute `$offered` from `$place` and `$before`, and whether files are possible. */
function branches(commands: readonly NamedCommand[]): string[] {
  const places = placesOf(commands);
  const verbs = places.flatMap(({ path }) => (path.includes(' ') ? [quoted(path)] : []));
  const valued = places.flatMap(({ path, flags }) =>
    spellings(flags)
      .filter(({ isText }) => isText)
      .map((flag) => ({ ...flag, path })),
  );
  const closed = valued.filter(({ values }) => values.length > 0);
  const open = valued.filter(({ values }) => values.length === 0);
  return [
    `  case "$first $second" in ${verbs.join('|')}) place="$first $second" ;; *) place=$first ;; esac`,
    '  case "$place $before" in',
    ...closed.map(
      ({ path, spelling, values }) =>
        `    ${quoted(`${path} ${spelling}`)}) offered=(${values.join(' ')}) ;;`,
    ),
    `    ${open.map(({ path, spelling }) => quoted(`${path} ${spelling}`)).join('|')}) files=1 ;;`,
    '    *) case "$place" in',
    `    '') offered=(${[...commands.map(({ name }) => name), 'help'].join(' ')}) ;;`,
    ...places.map(({ path, words, flags }) => {
      const names = spellings(flags).map(({ spelling }) => spelling);
      const rest = words.length === 0 ? 'files=1' : `offered=(${words.join(' ')})`;
      return `    ${quoted(path)}) if [[ $current == -* ]]; then offered=(${names.join(' ')}); else ${rest}; fi ;;`;
    }),
    '    *) files=1 ;;',
    '    esac ;;',
    '  esac',
  ];
}

export function bashScript(commands: readonly NamedCommand[]): string {
  return `# Completion of weir for bash, made by "weir completion bash".
_weir() {
  local current=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} first= second= place= files= offered=()
  # "--output=json" comes in three words.
  if [[ $current == = ]]; then current=; elif [[ $before == = ]]; then before=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  if ((COMP_CWORD > 1)); then first=\${COMP_WORDS[1]}; fi
  if ((COMP_CWORD > 2)); then second=\${COMP_WORDS[2]}; fi
${branches(commands).join('\n')}
  COMPREPLY=()
  if [[ -z $files ]]; then mapfile -t COMPREPLY < <(compgen -W "\${offered[*]}" -- "$current"); fi
}
complete -o default -F _weir weir
`;
}

export function zshScript(commands: readonly NamedCommand[]): string {
  return `#compdef weir
# Completion of weir for zsh, made by "weir completion zsh".
_weir() {
  local current=\${words[CURRENT]} before=\${words[CURRENT - 1]} first= second= place= files=
  local -a offered
  if [[ $current == --*=* ]]; then before=\${current%%=*}; compset -P '*='; current=; fi
  if ((CURRENT > 2)); then first=\${words[2]}; fi
  if ((CURRENT > 3)); then second=\${words[3]}; fi
${branches(commands).join('\n')}
  if [[ -n $files ]]; then _files; else compadd -- $offered; fi
}
if [[ $funcstack[1] == _weir ]]; then _weir "$@"; else compdef _weir weir; fi
`;
}

export function fishScript(commands: readonly NamedCommand[]): string {
  const lines = ['# Completion of weir for fish, made by "weir completion fish".'];
  for (const { name, summary } of commands)
    lines.push(`complete -c weir -f -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`);
  for (const { path, words, flags } of placesOf(commands)) {
    const seen = path.split(' ').map((word) => `__fish_seen_subcommand_from ${word}`);
    const others = words.length === 0 ? [] : [`not __fish_seen_subcommand_from ${words.join(' ')}`];
    const where = `-n ${quoted([...seen, ...others].join('; and '))}`;
    if (words.length > 0) lines.push(`complete -c weir -f ${where} -a ${quoted(words.join(' '))}`);
    for (const [flag, { type, short, values = [] }] of Object.entries(flags)) {
      const letter = short === undefined ? '' : ` -s ${short}`;
      const value =
        type === 'boolean' ? '' : values.length === 0 ? ' -r' : ` -x -a ${quoted(values.join(' '))}`;
      lines.push(`complete -c weir ${where} -l ${flag}${letter}${value}`);
    }
  }
  return `${lines.join('\n')}\n`;
}
