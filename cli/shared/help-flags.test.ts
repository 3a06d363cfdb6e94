import { describe, expect, it } from 'vitest';
import { flagsOfHelp } from './help.ts';

describe('the flags of a help text', () => {
  it.each([
    ['  --strict   warnings are errors', { strict: { type: 'boolean' } }],
    ['  --merge allow several', { merge: { type: 'boolean' } }],
    ['  --from <key>=<source>  where', { from: { type: 'string' } }],
    ['  --header <"name: value">   one; repeat the flag', { header: { type: 'string', multiple: true } }],
    ['  --fail-on <effect>[,...] only these', { 'fail-on': { type: 'string', multiple: true } }],
    ['  --sort used|left  the order', { sort: { type: 'string', values: ['used', 'left'] } }],
    ['  -n, --namespace <name>  its place', { namespace: { type: 'string', short: 'n' } }],
    ['      --context <name>  of the kubeconfig', { context: { type: 'string' } }],
    [
      '  --context <name>, --kubeconfig <file>  as',
      { context: { type: 'string' }, kubeconfig: { type: 'string' } },
    ],
    ['  --class, --fleet <name>  as', { class: { type: 'string' }, fleet: { type: 'string' } }],
    [
      '  -o, --output <form>  how',
      { output: { type: 'string', short: 'o', values: ['table', 'json', 'yaml'] } },
    ],
    ['  weir check --strict -  # an example', {}],
    ['                             and --strict, in a description', {}],
  ])('%s', (line, flags) => {
    expect(flagsOfHelp(`Usage: weir it\n\nText with --other.\n\n${line}\n`)).toEqual(flags);
  });

  it('include those of the usage, which rows describe further', () => {
    const help =
      'Usage: weir it --hits <n> --all [flags]\n       weir it --to a|b\n\n  -t, --to a|b  the format\n';
    expect(flagsOfHelp(help)).toEqual({
      hits: { type: 'string' },
      all: { type: 'boolean' },
      to: { type: 'string', short: 't', values: ['a', 'b'] },
    });
  });
});
