import { type ParsedFlags, UsageError } from '../flags.ts';

/** `--output text|json`. @throws UsageError */
export function outputFormat(flags: ParsedFlags): 'text' | 'json' {
  const output = flags.text('output') ?? 'text';
  if (output === 'text' || output === 'json') return output;
  throw new UsageError(`--output is text or json, not "${output}"`);
}
