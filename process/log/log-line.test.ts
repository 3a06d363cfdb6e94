import { describe, expect, expectTypeOf, it } from 'vitest';
import { loggedText } from '../../test/support/logged-text.ts';
import { announce, debug, error, fatal, info, type LogLine, noFields, warn } from './log-line.ts';
import { type Logger, type LogLevelName, loggerOf } from './logger.ts';

describe('a row of a table of log lines', () => {
  it('writes at its level', () => {
    const seen: [LogLevelName, string][] = [];
    const log = loggerOf(
      (level, message) => seen.push([level, message]),
      () => true,
    );
    const makers = { fatal, error, warn, announce, info, debug };
    for (const [level, maker] of Object.entries(makers)) maker(`of ${level}`)(log);
    expect(seen).toEqual(Object.keys(makers).map((level) => [level, `of ${level}`]));
  });

  const limiterConnected = info<{ limiter: string; fleet: string }>('A limiter connected');
  const plain = info('Shut down');
  const manifestProblem = error<{ place: string; text: string }>(
    ({ place, text }) => `${place}: ${text}`,
    noFields,
  );
  const decided = info<{ fleets: number; durationMs: number }>('Serving new snapshots', (fields) => ({
    ...fields,
    durationMs: Math.round(fields.durationMs),
  }));

  it.each<[string, (log: Logger) => void, string]>([
    ['no fields', plain, 'level=info msg="Shut down"'],
    [
      'the fields that the caller passes',
      (log) => limiterConnected(log, { limiter: 'a', fleet: 'b' }),
      'level=info msg="A limiter connected" limiter=a fleet=b',
    ],
    [
      'fields in its message',
      (log) => manifestProblem(log, { place: 'a.yaml', text: 'No kind' }),
      'level=error msg="a.yaml: No kind"',
    ],
    [
      'fields that it calculates',
      (log) => decided(log, { fleets: 2, durationMs: 1.4 }),
      'level=info msg="Serving new snapshots" fleets=2 durationMs=1',
    ],
  ])('has %s', (_, write, written) => expect(loggedText(write)).toEqual([written]));

  it('takes exactly its fields', () => {
    expectTypeOf(limiterConnected).parameters.toEqualTypeOf<[Logger, { limiter: string; fleet: string }]>();
    expectTypeOf(plain).toEqualTypeOf<LogLine>();
  });
});
