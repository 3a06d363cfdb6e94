/** Flags that take one of a few words. */
import { type CounterKeys, counterKeyForms } from '../../rules/counter-keys.ts';
import { type ParsedFlags, UsageError } from './flags.ts';

/** `--output text|json`. @throws UsageError */
export function outputFormat(flags: ParsedFlags): 'text' | 'json' {
  const output = flags.text('output') ?? 'text';
  if (output === 'text' || output === 'json') return output;
  throw new UsageError(`--output is text or json, not "${output}"`);
}

/** `--counter-keys compatible|unambiguous`; where it is missing the variable COUNTER_KEYS, else compatible. @throws UsageError */
export function counterKeysOf(flags: ParsedFlags): CounterKeys {
  const flag = flags.text('counter-keys');
  const given = flag ?? process.env['COUNTER_KEYS'] ?? 'compatible';
  const form = counterKeyForms.find((known) => known === given.toLowerCase());
  if (form !== undefined) return form;
  const name = flag === undefined ? 'the variable COUNTER_KEYS' : '--counter-keys';
  throw new UsageError(`${name} is ${counterKeyForms.join(' or ')}, not "${given}"`);
}
