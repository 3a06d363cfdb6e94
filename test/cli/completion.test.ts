import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const isThere = (shell: string): boolean => spawnSync(shell, ['--version']).status === 0;

/** What a shell offers behind each line, the words of a line in an argument each. */
const inBash = `source "$1"
shift
for line in "$@"; do
  IFS='|' read -ra COMP_WORDS <<< "$line"
  [[ $line == *'|' ]] && COMP_WORDS+=('')
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1))
  _weir
  echo "\${COMPREPLY[*]}"
done`;

const inFish = `source $argv[1]
for line in $argv[2..]
  echo (complete -C (string replace --all '|' ' ' $line) | string replace --regex '\\t.*' '')
end`;

const inZsh = `compdef() { :; }
compset() { :; }
compadd() { shift; for word in $*; do [[ $word == $current* ]] && print -rn -- "$word "; done; }
_files() { :; }
source "$1"
shift
for line in "$@"; do
  words=("\${(@s:|:)line}")
  CURRENT=$#words
  _weir
  print
done`;

function offered(shell: 'bash' | 'zsh' | 'fish', lines: readonly string[]): string[] {
  const made = runWeir(['completion', shell]);
  expect([made.status, made.stderr]).toEqual([0, '']);
  const script = join(temporaryFolder(), 'weir.completion');
  writeFileSync(script, made.stdout);
  const args = {
    bash: ['--norc', '-c', inBash, 'bash'],
    zsh: ['-f', '-c', inZsh, 'zsh'],
    fish: ['--no-config', '-c', inFish],
  };
  const { stdout, stderr } = spawnSync(shell, [...args[shell], script, ...lines], { encoding: 'utf8' });
  expect(stderr).toBe('');
  return stdout.split('\n').map((line) => line.trim().split(' ').sort().join(' '));
}

describe('weir completion', () => {
  it.each(['bash', 'zsh', 'fish'] as const)('completes commands, verbs, flags and values in %s', (shell) => {
    if (shell !== 'bash' && !isThere(shell)) return;
    const found = offered(shell, [
      'weir|ch',
      'weir|diff|--fa',
      'weir|diff|-o|',
      'weir|completion|f',
      'weir|webhook|',
    ]);
    expect(found.slice(0, 5)).toEqual([
      'check',
      '--fail-on',
      'github json junit markdown sarif tap text yaml',
      'fish',
      'verify',
    ]);
  });

  it('leaves files to bash if any may stand, and sees a value behind "="', () => {
    expect(
      offered('bash', ['weir|diff|', 'weir|replay|--from|', 'weir|diff|--output|=|y']).slice(0, 3),
    ).toEqual(['', '', 'yaml']);
  });

  it('says which shells it knows', () => {
    const { status, stderr } = runWeir(['completion', 'fihs']);
    expect([status, stderr.split('\n')[0]]).toEqual([
      2,
      'weir: "fihs" is not one of bash, zsh, fish; did you mean "fish"?',
    ]);
  });
});

describe('a word that is nearly one of weir', () => {
  it.each([
    [['chekc'], 'there is no command "chekc"; did you mean "check"?'],
    [['expalin'], 'there is no command "expalin"; did you mean "explain"?'],
    [['check', '--stric'], `Unknown option '--stric'; did you mean "--strict"?`],
  ])('is distinguished from the intended word: %j', (args, message) => {
    const { status, stderr } = runWeir(args);
    expect([status, stderr.split('\n')[0]]).toEqual([2, `weir: ${message}`]);
    expect(stderr.split('\n')).toHaveLength(3);
  });
});

describe('-o', () => {
  it.each([
    ['json', /^\{\n {2}"changes": \[/],
    ['yaml', /^changes:\n/],
    ['table', /^~? ?\S/],
  ])('prints %s', (form, expected) => {
    const { stdout } = runWeir(['diff', '/dev/null', 'examples/rules/shop.yaml', '-o', form]);
    expect(stdout).toMatch(expected);
  });
});
