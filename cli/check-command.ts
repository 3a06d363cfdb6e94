import { readRuleFolder } from '../limiter/config-source/index.ts';
import { formatRuleError } from '../rules/rule-error.ts';
import { parseFlags, UsageError } from './flags.ts';

const help = `Usage: weir check <folder or file> [...] [flags]

Reads rule files as a limiter would and prints every error with its file, line and column. Each argument is checked by
itself: the rules of two folders may name the same domain.

  --config-dir <folder>      the same as an argument
  --merge-domain-configs     several files may name one domain, as with MERGE_DOMAIN_CONFIG=true

The Go program's spelling works as well: -config_dir, -merge_domain_configs.
Exit status: 0 when all is well, 1 when there are errors, 2 for a wrong command line.
`;

export async function checkCommand(args: string[]): Promise<number> {
  const flags = parseFlags(args, {
    'config-dir': { type: 'string' },
    'merge-domain-configs': { type: 'boolean' },
  });
  if (flags.on('help')) {
    process.stdout.write(help);
    return 0;
  }
  const folder = flags.text('config-dir');
  const paths = [...(folder === undefined ? [] : [folder]), ...flags.positionals];
  if (paths.length === 0) throw new UsageError('check needs a folder or a file');
  console.log('checking rate limit configs...');
  const counts = paths.map((path) => checkPath(path, flags.on('merge-domain-configs')));
  const errors = counts.reduce((sum, count) => sum + count, 0);
  if (errors > 0) {
    console.error(count(errors, 'error'));
    return 1;
  }
  console.log('all rate limit configs ok');
  return 0;
}

/** Prints what is wrong with one folder or file; returns how many errors there are. */
function checkPath(path: string, mergeDomains: boolean): number {
  console.log(`loading config directory: ${path}`);
  const { files, domains, errors, errorCount, warnings } = readRuleFolder(path, { mergeDomains });
  for (const file of files) console.log(`opening config file: ${file}`);
  for (const warning of warnings) console.error(`warning: ${formatRuleError(warning)}`);
  for (const error of errors) console.error(`error loading rate limit configs: ${formatRuleError(error)}`);
  if (errorCount > errors.length) console.error(`... and ${errorCount - errors.length} more`);
  if (errors.length === 0 && files.length === 0) {
    console.error(`error loading rate limit configs: ${path}: holds no *.yaml or *.yml file`);
    return 1;
  }
  if (errors.length === 0) console.log(`${count(files.length, 'file')}, ${count(domains, 'domain')}`);
  return errorCount;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}
