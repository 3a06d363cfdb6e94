import { describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import type { LogFormat, Logger, LogLevel } from './logger.ts';
import { createLogger } from './pino-logger.ts';

const clock = new ManualClock(Date.UTC(2026, 0, 2, 3, 4, 5, 678));

function capture(level: LogLevel, format: LogFormat): { log: Logger; lines: string[] } {
  const lines: string[] = [];
  const log = createLogger({ level, format, clock, destination: { write: (line) => lines.push(line) } });
  return { log, lines };
}

describe('text log lines', () => {
  it('are time, level and message, as the Go service writes them', () => {
    const { log, lines } = capture('info', 'text');
    log.warn("Listening for HTTP on '0.0.0.0:8080'");
    expect(lines).toEqual([
      `time="2026-01-02T03:04:05Z" level=warning msg="Listening for HTTP on '0.0.0.0:8080'"\n`,
    ]);
  });

  const fields: [value: unknown, text: string][] = [
    ['plain-1.2/x@y^z+_', 'plain-1.2/x@y^z+_'],
    ['two words', '"two words"'],
    ['', '""'],
    ['a="b"', String.raw`"a=\"b\""`],
    ['line\nlevel=error msg=fake', String.raw`"line\nlevel=error msg=fake"`],
    ['\u001b[31m\u007f\u0085\u2028', String.raw`"\u001b[31m\u007f\u0085\u2028"`],
    [42, '42'],
    [true, 'true'],
    [null, 'null'],
    [['a', 1], String.raw`"[\"a\",1]"`],
    [new Error('no route'), '"no route"'],
  ];
  for (const [value, text] of fields) {
    it(`write the field ${JSON.stringify(value)} as ${text}`, () => {
      const { log, lines } = capture('info', 'text');
      log.info('x', { key: value, absent: undefined });
      expect(lines).toEqual([`time="2026-01-02T03:04:05Z" level=info msg="x" key=${text}\n`]);
    });
  }

  it('stay one line when the message has newlines', () => {
    const { log, lines } = capture('error', 'text');
    log.error('one\ntwo');
    expect(lines).toEqual([`${String.raw`time="2026-01-02T03:04:05Z" level=error msg="one\ntwo"`}\n`]);
  });

  it('do not inherit the fields of the line before', () => {
    const { log, lines } = capture('info', 'text');
    log.info('first', { a: 1 });
    log.info('second');
    expect(lines[1]).toBe('time="2026-01-02T03:04:05Z" level=info msg="second"\n');
  });
});

describe('JSON log lines', () => {
  it('have @message, @timestamp, level and the fields', () => {
    const { log, lines } = capture('debug', 'json');
    log.debug('loading domain: d', { rules: 3, error: new Error('no route') });
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      {
        '@message': 'loading domain: d',
        '@timestamp': '2026-01-02T03:04:05.678Z',
        level: 'debug',
        rules: 3,
        error: 'no route',
      },
    ]);
    expect(lines[0]?.endsWith('}\n')).toBe(true);
  });

  it('name the level warn as the Go service does', () => {
    const { log, lines } = capture('warn', 'json');
    log.warn('x');
    expect(JSON.parse(lines[0] as string).level).toBe('warning');
  });
});

describe('LOG_LEVEL', () => {
  const cases: [level: LogLevel, written: string[]][] = [
    ['panic', []],
    ['fatal', []],
    ['error', ['error']],
    ['warn', ['error', 'warn']],
    ['warning', ['error', 'warn']],
    ['info', ['error', 'warn', 'info']],
    ['debug', ['error', 'warn', 'info', 'debug']],
    ['trace', ['error', 'warn', 'info', 'debug']],
  ];
  for (const [level, written] of cases) {
    it(`${level} lets pass ${written.join(', ') || 'nothing'}`, () => {
      const { log, lines } = capture(level, 'text');
      const levels = ['error', 'warn', 'info', 'debug'] as const;
      for (const name of levels) log[name](name);
      expect(lines.map((line) => /msg="(.*)"/.exec(line)?.[1])).toEqual(written);
      expect(levels.filter((name) => log.isEnabled(name))).toEqual(written);
    });
  }
});
