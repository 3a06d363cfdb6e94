import { describe, expect, it } from 'vitest';
import { Unit } from '../../rules/model.ts';
import { CommandError, UsageError } from '../shared/flags.ts';
import { answersOf } from './init-command.ts';
import { parseBy, parseLimit, programWord } from './starter.ts';

const flagsOf = (given: Record<string, string>) => ({ text: (name: string) => given[name] });
const all = { by: 'address', limit: '5/hour', domain: 'web', proxy: 'nginx' };

/** Gives these answers, one after the other, and keeps the questions. */
function person(...answers: (string | undefined)[]) {
  const questions: string[] = [];
  const ask = async (question: string) => {
    questions.push(question);
    return answers.shift();
  };
  return { ask, questions };
}

describe('answersOf', () => {
  it('asks four questions, each with what an empty answer means', async () => {
    const { ask, questions } = person('', '20 per hour', 'web', 'Caddy');
    const { by, limit, domain, proxy } = await answersOf(flagsOf({}), ask);
    expect([by.map(({ key }) => key), limit, domain, proxy]).toEqual([
      ['remote_address'],
      { requests: 20, unit: Unit.HOUR, multiplier: 1 },
      'web',
      'caddy',
    ]);
    expect(questions.map((text) => /\[([^\]]*)\]: $/.exec(text)?.[1])).toEqual([
      'address',
      '100/minute',
      'shop',
      'envoy',
    ]);
  });

  it('asks for nothing that a flag says, and again after an invalid answer', async () => {
    const { ask, questions } = person('apache', 'none');
    const { proxy } = await answersOf(flagsOf({ ...all, proxy: undefined as unknown as string }), ask);
    expect(proxy).toBe('none');
    expect(questions).toHaveLength(2);
    expect(questions[1]).toContain(
      '"apache" is not one of envoy, istio, nginx, haproxy, caddy, traefik, none\n',
    );
  });

  it('rejects a bad flag before it asks anything', async () => {
    const { ask, questions } = person();
    await expect(answersOf(flagsOf({ domain: 'a b' }), ask)).rejects.toThrow(UsageError);
    expect(questions).toEqual([]);
  });

  it('ends when no more answers come', async () => {
    await expect(answersOf(flagsOf({}), person(undefined).ask)).rejects.toThrow(CommandError);
  });

  it('names the flags that are missing without a terminal', async () => {
    await expect(answersOf(flagsOf({ by: 'address' }), undefined)).rejects.toThrow(
      'there is no terminal to ask the questions: give --limit, --domain, --proxy',
    );
  });
});

describe('parseBy', () => {
  it.each([
    ['address', ['remote_address']],
    ['header:X-Api-Key, path', ['api_key', 'path']],
    ['path,header:x-path', ['path', 'header_path']],
  ])('takes %s', (text, keys) => {
    expect((parseBy(text) as { key: string }[]).map(({ key }) => key)).toEqual(keys);
  });

  it.each(['', 'ip', 'constructor', 'header:', 'header:a b', 'path,', 'path,path', 'header:x-a,header:a'])(
    'rejects "%s"',
    (text) => {
      expect(parseBy(text)).toMatch(/^"[^"]*" is (?:not one of address, path|given twice)/);
    },
  );
});

describe('parseLimit', () => {
  it.each([['1/second'], ['100 / Minute'], ['5 per day'], ['7 a week'], ['4294967295/year']])(
    'takes %s',
    (text) => {
      expect(parseLimit(text)).toMatchObject({ requests: Number.parseInt(text, 10) });
    },
  );
  it.each([
    ['100/min', 100, Unit.MINUTE, 1],
    ['5/10s', 5, Unit.SECOND, 10],
    ['5 in 10secs', 5, Unit.SECOND, 10],
    ['7/S', 7, Unit.SECOND, 1],
    ['7/15min', 7, Unit.MINUTE, 15],
    ['7/1h30m', 7, Unit.MINUTE, 90],
    ['7/60s', 7, Unit.MINUTE, 1],
    ['7/3mo', 7, Unit.MONTH, 3],
  ])('takes %s as a window', (text, requests, unit, multiplier) => {
    expect(parseLimit(text)).toEqual({ requests, unit, multiplier });
  });
  it.each([
    ['5/0s', '"5/0s" is not a limit: 0s is zero'],
    [
      '5/20y',
      '"5/20y" is not a limit: 20y is 630720000 seconds, and a window has at most 315360000 (10 years)',
    ],
    ['5/500ms', '"5/500ms" is not a limit: 500ms is not a whole number of seconds'],
  ])('says what is wrong with %s', (text, message) => {
    expect(parseLimit(text)).toBe(message);
  });
  it.each([['0/second'], ['-1/second'], ['1.5/second'], ['4294967296/day'], ['5/fortnight'], ['5'], ['']])(
    'rejects "%s"',
    (text) => {
      expect(parseLimit(text)).toMatch(/ is not a limit: /);
    },
  );
});

describe('programWord', () => {
  const bundle = 'file:///app/dist/cli/starter.js';
  const clone = 'file:///src/weir/cli/init/starter.ts';
  it.each([
    ['weir', '/home/ann', '/usr/local/bin/weir', bundle],
    ['weir', '/app', '/app/bin/weir.js', bundle],
    ['node_modules/.bin/weir', '/home/ann/shop', '/home/ann/shop/node_modules/.bin/weir', bundle],
    ['bin/weir', '/src/weir', '/src/weir/bin/weir.js', clone],
    ['../weir/bin/weir', '/src/shop', '/src/weir/bin/weir.js', clone],
    ['/src/weir/bin/weir', '/home/ann', '/src/weir/bin/weir.js', clone],
  ])('is %s in %s for %s', (word, folder, started, source) => {
    expect(programWord(folder, started, source)).toBe(word);
  });
});
