import { describe, expect, it } from 'vitest';
import { hintOf, parseFlags } from './flags.ts';
import { flagsOfHelp } from './help.ts';
import { outputForm } from './report.ts';
import { durationText, rateText, table, valueText } from './text.ts';

const types = flagsOfHelp('  -o, --output <form>  how to print the result');

describe('output', () => {
  it.each([
    [[], 'text'],
    [['-o', 'table'], 'text'],
    [['--output=text'], 'text'],
    [['-ojson'], 'json'],
    [['-o=yaml'], 'yaml'],
  ])('is chosen by %j', (args, format) => {
    expect(outputForm(parseFlags(args, types))).toBe(format);
  });

  it('names the forms that there are', () => {
    const flags = parseFlags(['-o', 'xml'], types);
    expect(() => outputForm(flags)).toThrow('--output is table, json or yaml, not "xml"');
  });

  it('is the same data as JSON and as YAML', () => {
    const value = { limiters: [{ name: 'a', ready: true }], note: 'no' };
    expect(valueText(value, 'json')).toBe(`${JSON.stringify(value, undefined, 2)}\n`);
    expect(valueText(value, 'yaml')).toBe('limiters:\n  - name: a\n    ready: true\nnote: "no"\n');
  });

  it.each(['json', 'yaml'] as const)('keeps as %s from the terminal what would act on it', (format) => {
    const value = { key: 'a\u001b[2J\u009b\u202e\u007f' };
    const text = valueText(value, format);
    expect(text).toMatch(/a\\u001b\[2J\\u009b\\u202e\\u007f/);
    if (format === 'json') expect(JSON.parse(text)).toEqual(value);
  });

  it('is a table whose texts cannot act on a terminal', () => {
    const rows = [
      { KEY: 'a', USED: 12 },
      { KEY: 'x\u001b[2J\u202e', USED: undefined },
    ];
    expect(table(rows)).toBe('KEY                USED\na                  12\nx\\u001b[2J\\u202e   -\n');
    expect(table([])).toBe('\n');
  });

  it.each([
    [0, '0s'],
    [45.4, '45s'],
    [125, '2m5s'],
    [7200, '2h'],
    [7100, '1h58m'],
    [273_600, '3d4h'],
    [-3, '0s'],
  ])('has %d s as %s', (seconds, text) => expect(durationText(seconds)).toBe(text));

  it.each([
    [0, '0'],
    [1.26, '1.3'],
    [4999.6, '5,000'],
  ])('has %d a second as %s', (rate, text) => expect(rateText(rate)).toBe(text));
});

describe('a hint', () => {
  it.each([
    ['chekc', 'check'],
    ['ceck', 'check'],
    ['stat', 'status'],
    ['overide', 'override'],
    ['counter', 'counters'],
  ])('finds for %s what is near: %s', (given, meant) => {
    expect(hintOf(given, ['check', 'status', 'override', 'counters'])).toBe(`; did you mean "${meant}"?`);
  });

  it.each(['', 'x', 'frobnicate', 'constructor'])('finds nothing for %j', (given) => {
    expect(hintOf(given, ['check', 'status', 'override', 'counters'])).toBe('');
  });
});
