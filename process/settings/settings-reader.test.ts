import { describe, expect, it } from 'vitest';
import {
  bindHost,
  bool,
  choice,
  duration,
  float,
  headerName,
  integer,
  port,
  text,
} from './settings-kinds.ts';
import { type Environment, readSettings, type SettingsTable } from './settings-reader.ts';

const table = {
  name: { name: 'NAME_OF_IT', kind: text(), default: 'unnamed', summary: '' },
  on: { name: 'SWITCH', kind: bool(), default: true, summary: '' },
  off: { name: 'OTHER_SWITCH', kind: bool(), summary: '' },
  note: { name: 'NOTE', kind: text(), summary: '' },
  count: { name: 'COUNT', kind: integer({ min: 0, max: 100 }), default: 1, summary: '' },
  ratio: { name: 'RATIO', kind: float({ min: 0, max: 1 }), default: 0.5, summary: '' },
  waitMs: { name: 'WAIT', kind: duration({ min: 1, max: 60_000 }), default: 1000, summary: '' },
  listenPort: { name: 'REDIS_PORT', kind: port({ min: 1 }), default: 6379, summary: '' },
  host: { name: 'BIND', kind: bindHost(), default: '0.0.0.0', summary: '' },
  header: { name: 'HEADER', kind: headerName(), default: 'X-A', summary: '' },
  mode: {
    name: 'MODE',
    kind: choice({ values: ['Fast', 'slow'], synonyms: { '': 'slow' } }),
    default: 'Fast',
    summary: '',
  },
  password: {
    name: 'REDIS_AUTH',
    kind: choice({ values: ['open'] }),
    default: 'open',
    summary: '',
    secret: true,
  },
} as const satisfies SettingsTable;

const schema = {
  table,
  aliases: { prefixes: [['KVS_', 'REDIS_']], names: { theCount: 'COUNT' } },
  ownPrefixes: ['REDIS_'],
} as const;

function read(env: Environment) {
  const result = readSettings(schema, env);
  if (result.errors !== undefined) throw new Error(result.errors.map(({ message }) => message).join('\n'));
  return result.settings;
}

function messages(env: Environment): string[] {
  return (readSettings(schema, env).errors ?? []).map(({ message }) => message);
}

describe('readSettings', () => {
  it('gives the defaults for an empty environment', () => {
    expect(readSettings(schema, { PATH: '/bin', HOME: undefined })).toEqual({
      settings: {
        name: 'unnamed',
        on: true,
        off: false,
        note: '',
        count: 1,
        ratio: 0.5,
        waitMs: 1000,
        listenPort: 6379,
        host: '0.0.0.0',
        header: 'X-A',
        mode: 'Fast',
        password: 'open',
      },
      warnings: [],
    });
  });

  it('reads each kind', () => {
    expect(
      read({
        NAME_OF_IT: ' as it is ',
        SWITCH: 'F',
        OTHER_SWITCH: 't',
        NOTE: 'x',
        COUNT: '0x10',
        RATIO: '1e-1',
        WAIT: '1.5s',
        REDIS_PORT: '1',
        BIND: '[::1]',
        HEADER: 'x-rate_limit.1',
        MODE: 'SLOW',
      }),
    ).toEqual({
      name: ' as it is ',
      on: false,
      off: true,
      note: 'x',
      count: 16,
      ratio: 0.1,
      waitMs: 1500,
      listenPort: 1,
      host: '::1',
      header: 'x-rate_limit.1',
      mode: 'slow',
      password: 'open',
    });
  });

  for (const word of ['1', 't', 'T', 'TRUE', 'true', 'True']) {
    it(`takes ${word} for true`, () => expect(read({ SWITCH: word }).on).toBe(true));
  }
  for (const word of ['0', 'f', 'F', 'FALSE', 'false', 'False']) {
    it(`takes ${word} for false`, () => expect(read({ SWITCH: word }).on).toBe(false));
  }

  it('takes an empty variable as set', () => {
    expect(read({ NAME_OF_IT: '' }).name).toBe('');
    expect(read({ MODE: '' }).mode).toBe('slow');
    expect(read({ BIND: '' }).host).toBe('0.0.0.0');
    expect(messages({ SWITCH: '', COUNT: '', RATIO: '', WAIT: '', HEADER: '' }).length).toBe(5);
  });

  it('reports every bad value with its variable, the value and what is expected', () => {
    expect(
      messages({
        SWITCH: 'yes',
        COUNT: '101',
        RATIO: '1.01',
        WAIT: '61s',
        REDIS_PORT: '0',
        BIND: 'a b',
        HEADER: 'a:b',
        MODE: 'crazy',
      }),
    ).toEqual([
      'SWITCH: "yes" is not accepted, expected true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)',
      'COUNT: "101" is not accepted, expected a whole number from 0 to 100',
      'RATIO: "1.01" is not accepted, expected a number from 0 to 1',
      'WAIT: "61s" is not accepted, expected a duration such as 10s, 150us or 1h30m, from 1ms to 1m',
      'REDIS_PORT: "0" is not accepted, expected a whole number from 1 to 65535',
      'BIND: "a b" is not accepted, expected a host name or IP address without port',
      'HEADER: "a:b" is not accepted, expected an HTTP header name: letters, digits and !#$%&\'*+-.^_`|~ only, at least one',
      'MODE: "crazy" is not accepted, expected Fast or slow, in any letter case',
    ]);
  });

  it('knows the link that Kubernetes sets for a Service of that name', () => {
    expect(messages({ REDIS_PORT: 'tcp://10.0.0.1:6379' })).toEqual([
      'REDIS_PORT: "tcp://10.0.0.1:6379" is not accepted, expected a whole number from 1 to 65535; this looks like the link that Kubernetes sets for a Service of that name: set enableServiceLinks: false on the pod, or set the variable yourself',
    ]);
  });

  it('shows no more than the beginning of a long value, and newlines escaped', () => {
    const [message] = messages({ COUNT: `a\n${'x'.repeat(1000)}` });
    expect(message).toBe(
      `COUNT: "a\\n${'x'.repeat(98)}..." is not accepted, expected a whole number from 0 to 100`,
    );
  });

  it('never shows a secret', () => {
    const shown = [
      ...messages({ REDIS_AUTH: 'hunter2' }),
      ...messages({ REDIS_AUTH: 'hunter2', KVS_AUTH: 'hunter3' }),
    ];
    expect(shown).toEqual([
      'REDIS_AUTH: the value (not shown) is not accepted, expected open, in any letter case',
      'REDIS_AUTH and KVS_AUTH name the same setting with different values: keep one of them',
    ]);
  });

  it('reads aliases, and names the variable that was set in errors', () => {
    expect(read({ KVS_PORT: '7' }).listenPort).toBe(7);
    expect(read({ theCount: '8' }).count).toBe(8);
    expect(messages({ KVS_PORT: 'x' })[0]).toMatch(/^KVS_PORT: "x" is not accepted/);
  });

  it('takes an alias and its canonical name with the same value', () => {
    expect(read({ KVS_PORT: '7', REDIS_PORT: '7' }).listenPort).toBe(7);
  });

  it('rejects an alias and its canonical name with different values', () => {
    expect(messages({ KVS_PORT: '7', REDIS_PORT: '8' })).toEqual([
      'REDIS_PORT="8" and KVS_PORT="7" name the same setting with different values: keep one of them',
    ]);
  });

  it('reports what is wrong with several values together beside the rest', () => {
    const result = readSettings(
      {
        ...schema,
        check: (settings) =>
          settings.count === 5 ? [{ variable: 'COUNT', message: `COUNT and ratio ${settings.ratio}` }] : [],
      },
      { COUNT: '5', RATIO: 'x' },
    );
    expect(result.errors?.map(({ message }) => message)).toEqual([
      'RATIO: "x" is not accepted, expected a number from 0 to 1',
      'COUNT and ratio undefined',
    ]);
  });
});
