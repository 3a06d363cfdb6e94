import { EventEmitter, once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished } from 'vitest';
import { fetchArgument, handleWriteErrors, parseFlags, printProblem, UsageError } from './flags.ts';
import { processIo, withIo } from './io.ts';
import { escaped } from './text.ts';

const types = {
  'dial-string': { type: 'string' },
  descriptors: { type: 'string', multiple: true },
  merge: { type: 'boolean' },
  namespace: { type: 'string', short: 'n' },
  all: { type: 'boolean', short: 'A' },
} as const;

describe('parseFlags', () => {
  const spellings: [string, string[]][] = [
    ['one dash and an underscore', ['-dial_string', 'a:1']],
    ['two dashes and an underscore', ['--dial_string', 'a:1']],
    ['two dashes and a dash', ['--dial-string', 'a:1']],
    ['one dash and an equals sign', ['-dial_string=a:1']],
  ];
  it.each(spellings)('reads %s', (_, args) => {
    expect(parseFlags(args, types).text('dial-string')).toBe('a:1');
  });

  it('keeps values as they are, underscores and equals signs included', () => {
    const flags = parseFlags(['-descriptors', 'a_b=c_d,e=f', '-descriptors=g_h=i'], types);
    expect(flags.list('descriptors')).toEqual(['a_b=c_d,e=f', 'g_h=i']);
  });

  it.each([['-merge'], ['--merge'], ['-merge=true'], ['-merge=T'], ['-merge=1']])(
    'reads the boolean %s',
    (arg) => {
      expect(parseFlags([arg], types).on('merge')).toBe(true);
    },
  );

  it.each([['-merge=false'], ['--merge=0']])('reads the boolean %s as off', (arg) => {
    expect(parseFlags([arg], types).on('merge')).toBe(false);
  });

  it('rejects another word for a boolean', () => {
    expect(() => parseFlags(['-merge=maybe'], types)).toThrow('--merge is true or false, not "maybe"');
  });

  it.each([
    [['-dial_string', '-x'], '-x'],
    [['-dial_string=true'], 'true'],
    [['-dial_string='], ''],
    [['-dial_string', ''], ''],
  ])('takes the value of %j as it is', (args, value) => {
    expect(parseFlags(args, types).text('dial-string')).toBe(value);
  });

  it.each([['-h'], ['-help'], ['--help']])('knows %s', (arg) => {
    expect(parseFlags([arg], types).on('help')).toBe(true);
  });

  it.each([['-n', 'a-b'], ['-n=a-b'], ['-na-b'], ['-namespace', 'a-b'], ['--namespace=a-b']])(
    'reads a flag that may be short: %s %s',
    (...args) => {
      expect(parseFlags(args, types).text('namespace')).toBe('a-b');
    },
  );

  it('reads a short boolean, and none with a word behind it', () => {
    expect(parseFlags(['-A'], types).on('all')).toBe(true);
    expect(parseFlags(['-A=false'], types).on('all')).toBe(false);
    expect(() => parseFlags(['-Ab'], types)).toThrow("Unknown option '--Ab'");
  });

  it('leaves a boolean off that is not there', () => {
    expect(parseFlags(['folder'], types).on('merge')).toBe(false);
    expect(parseFlags(['folder'], types).positionals).toEqual(['folder']);
  });

  it('names a flag that does not exist', () => {
    expect(() => parseFlags(['-vague'], types)).toThrow(UsageError);
    expect(() => parseFlags(['-vague'], types)).toThrow("Unknown option '--vague'");
  });

  it('names a flag whose value is missing', () => {
    expect(() => parseFlags(['-dial_string'], types)).toThrow(/--dial-string/);
  });
});

describe('escaped', () => {
  it('spells out what could act on a terminal, and leaves all else', () => {
    expect(escaped('r\u001b[31m\n\u009b\u202e "ä" \u{1f600}')).toBe(
      'r\\u001b[31m\\n\\u009b\\u202e "ä" \u{1f600}',
    );
    expect(escaped('a ##[add-mask]b ##vso[c] ## [d] #1')).toBe(
      'a #\\u0023[add-mask]b #\\u0023vso[c] ## [d] #1',
    );
  });
});

function errorOf(code: string): Error {
  return Object.assign(new Error(code), { code });
}

describe('printProblem', () => {
  it.each([
    [{}, 'weir: no such file\n'],
    [{ program: 'kubectl weir' }, 'kubectl weir: no such file\n'],
  ])('names the program that runs: %j', async (given, printed) => {
    const stderr = new PassThrough();
    withIo({ ...processIo, ...given, stderr }, () => printProblem('no such file'));
    expect(await text(stderr.end())).toBe(printed);
  });
});

describe('a stream that cannot be printed to', () => {
  const emit = (...codes: string[]): string[] => {
    const [stdout, stderr] = [new EventEmitter(), new EventEmitter()];
    const failures: string[] = [];
    handleWriteErrors([stdout, stderr], ({ message }) => failures.push(message));
    for (const code of codes) for (const stream of [stdout, stderr]) stream.emit('error', errorOf(code));
    return failures;
  };

  it('is ignored when its reader is gone', () => {
    expect(emit('EPIPE')).toEqual([]);
  });

  it('is reported once for any other reason, such as a full disk', () => {
    expect(emit('ENOSPC', 'EINVAL', 'EPIPE')).toEqual(['ENOSPC']);
  });
});

it('fetchArgument says how long it waited', async () => {
  const silent = createServer(() => undefined).listen(0, '127.0.0.1');
  onTestFinished(() => void silent.close());
  await once(silent, 'listening');
  const url = new URL(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`);
  const asked = fetchArgument(url, { timeoutMs: 50 }, (response) => response.text());
  await expect(asked).rejects.toThrow(new UsageError(`${url.origin}: no answer within 50 ms`));
});
