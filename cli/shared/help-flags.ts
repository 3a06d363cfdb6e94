/** Flags as the help of a command lists them, so that each flag is written once. */

/** `short` is one letter, as in `-n shop`. `values` lists all possible values, for completion. */
export type FlagTypes = Record<
  string,
  { type: 'string' | 'boolean'; multiple?: boolean; short?: string; values?: readonly string[] }
>;

/** Chosen: the forms of most commands with `--output`. */
export const outputForms = ['table', 'json', 'yaml'] as const;

/** Lines of the usage, which also name flags. */
const usage = /^Usage: .*\n(?: {7,}\S.*\n)*/gm;
const ofUsage = /--(?<name>[a-z][a-z-]+)(?: (?<value><[^>]*>|\S+\|\S+))?/g;
/** The flags at the beginning of a line, such as `-n, --namespace <name>`. The rest of the line describes them. */
const row = /^ {2,6}(?:-[A-Za-z], )?--[a-z][a-z-]*.*$/gm;
const ofRow =
  /^(?:, | {2,6})(?:-(?<short>[A-Za-z]), )?--(?<name>[a-z][a-z-]*)(?: (?<value><[^>]*>[^\s,]*(?:,\S+)?|\S+\|\S+))?/;

/**
 * Reads the flags of a help text. A flag with a value, `<name>` or `a|b`, takes a text. It can be repeated if the text says
 * `Repeat the flag`, or if its value ends in `[,...]`.
 */
export function flagsOfHelp(help: string): FlagTypes {
  const flags: FlagTypes = {};
  for (const [lines] of help.matchAll(usage))
    for (const { groups } of lines.matchAll(ofUsage)) addFlag(flags, groups!, groups!['value'], '');
  for (const [line] of help.matchAll(row)) {
    const listed: Record<string, string>[] = [];
    let rest = line;
    for (let found = ofRow.exec(rest); found !== null; found = ofRow.exec(rest)) {
      listed.push(found.groups!);
      rest = rest.slice(found[0].length);
    }
    // `--class, --fleet <name>`: both take a value.
    const value = listed.find((one) => one['value'] !== undefined)?.['value'];
    for (const one of listed) addFlag(flags, one, one['value'] ?? value, line);
  }
  return flags;
}

function addFlag(
  flags: FlagTypes,
  { name, short }: Partial<Record<string, string>>,
  value: string | undefined,
  line: string,
): void {
  const values = /^\w[\w|-]*$/.test(value ?? '')
    ? value!.split('|')
    : name === 'output'
      ? outputForms
      : undefined;
  flags[name!] = {
    type: value === undefined ? 'boolean' : 'string',
    ...(value !== undefined && /repeat the flag|\[,\.{3}\]/i.test(line) && { multiple: true }),
    ...(short !== undefined && { short }),
    ...(value !== undefined && values !== undefined && { values }),
  };
}
