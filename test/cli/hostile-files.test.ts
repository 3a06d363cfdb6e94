/** Files that a pull request or a log brings to `convert`, `check --envoy` and `replay`: an error that names them, soon. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkAskers } from '../../cli/check/check-askers.ts';
import { readReplaySettings } from '../../cli/replay/replay-command.ts';
import { readInput } from '../../cli/shared/read-input.ts';
import { Replay } from '../../replay/replay.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const path = join(suiteFolder(), 'hostile.yaml');

function written(content: string | Buffer): string {
  writeFileSync(path, content);
  return path;
}

const rules = 'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 1 } }]\n';
const levels = 100_000;
const aliases = Array.from({ length: 11 }, (_, level) => {
  const items =
    level === 0
      ? 'x,x,x,x,x,x,x,x,x,x'
      : Array(10)
          .fill(`*a${level - 1}`)
          .join(',');
  return `a${level}: &a${level} [${items}]\n`;
}).join('');

describe('rules', () => {
  const errorsOf = (content: string | Buffer): string[] =>
    readInput(written(content), { mergeDomains: false }).errors.map(({ text }) => text);

  it.each([
    ['nested lists', `domain: ${'['.repeat(levels)}${']'.repeat(levels)}`, 'exceeded max depth of 400'],
    ['nested mappings', `${'{a: '.repeat(levels)}1${'}'.repeat(levels)}`, 'exceeded max depth of 400'],
    ['aliases of aliases', `${aliases}domain: d\n`, "unknown key 'a0'"],
    ['a NUL byte', 'domain: d\u0000\n', 'control characters are not allowed'],
    ['no UTF-8', Buffer.from([0x64, 0xff, 0x3a]), 'invalid leading UTF-8 octet'],
    ['a number without end', rules.replace(' 1 }', ' 1e400 }'), 'cannot unmarshal'],
    ['names of prototypes', `__proto__: { domain: d }\n${rules}`, "unknown key '__proto__'"],
  ])('are rejected for %s', (_, content, message) => {
    expect(errorsOf(content).join('\n')).toContain(message);
  });

  it('are not read from a device', () => {
    const [error] = readInput('/dev/zero', { mergeDomains: false }).errors;
    expect(error).toMatchObject({ source: '/dev/zero', text: 'is a device, which is not read' });
  });

  it('may have a byte order mark', () => {
    expect(errorsOf(`\ufeff${rules}`)).toEqual([]);
  });
});

describe('an Envoy configuration', () => {
  const options = { allowed: new Set<never>(), strictness: 'strict', roots: [] } as const;
  const found = (file: string): string[] =>
    checkAskers([file], [], options).flatMap(({ findings }) => findings.map(({ message }) => message));
  const configuration = (content: string): string[] => {
    const input = readInput(written(rules), { mergeDomains: false });
    writeFileSync(path, content);
    return checkAskers([path], [input], options).flatMap(({ findings }) =>
      findings.map(({ message }) => message),
    );
  };

  it.each([
    ['nested lists', `a: ${'['.repeat(levels)}${']'.repeat(levels)}`, 'exceeded max depth of 400'],
    ['aliases of aliases', `${aliases}static_resources: { listeners: *a10 }\n`, 'ten times as large'],
    ['a key that stands twice', 'admin: {}\nadmin: {}\n', 'duplicated mapping key'],
  ])('is rejected for %s', (_, content, message) => {
    expect(configuration(content).join('\n')).toContain(message);
  });

  it('reports a value that is no text, and one that is no file', () => {
    written(Buffer.from([0x64, 0xff, 0x3a]));
    expect(() => found(path)).toThrow(`--envoy ${path}: invalid leading UTF-8 octet, from character 2 on`);
    expect(() => found('/dev/zero')).toThrow('--envoy /dev/zero: is a device, which is not read');
  });
});

describe('a recording', () => {
  const line = (change: object, descriptors: unknown = [[['a', 'x']]]): string =>
    JSON.stringify({ time: 1, domain: 'd', descriptors, ...change });
  const reasonOf = (text: string): string | undefined => {
    const settings = readReplaySettings([]);
    const replay = new Replay({ rules: [], against: undefined, settings, sortWindow: 1, maxBadLines: 9 });
    replay.addLine(text, 1);
    return replay.badLines.first[0]?.reason;
  };

  it.each([
    [
      'too many descriptors',
      line({}, Array(200_001).fill([['a', 'x']])),
      '200001 elements, and a limiter rejects more than 256',
    ],
    [
      'too many entries',
      line({}, [Array(65).fill(['a', 'x'])]),
      '65 elements, and a limiter rejects more than 64',
    ],
    ['a time without end', line({}).replace('"time":1', '"time":1e400'), 'time Infinity is after'],
    ['NaN', line({}).replace('"time":1', '"time":NaN'), 'is not JSON'],
    ['depth', line({}).replace('[[[', '['.repeat(levels)), 'is not JSON'],
    ['fields of a prototype', '{"__proto__":{"domain":"d"},"time":1,"descriptors":[]}', 'domain is missing'],
  ])('has no line with %s', (_, text, reason) => {
    expect(reasonOf(text)).toContain(reason);
  });

  it('may name prototypes', () => {
    expect(reasonOf(line({ domain: '__proto__' }, [[['constructor', '__proto__']]]))).toBeUndefined();
  });
});
