import { describe, expect, it } from 'vitest';
import type { LogLevelName } from '../../process/log/logger.ts';
import { logLevels } from '../../process/log/logger.ts';
import { createLogger } from '../../process/log/pino-logger.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { createPostedLog } from './posted-statistics.ts';

const names = ['fatal', 'error', 'warn', 'info', 'debug'] as const satisfies readonly LogLevelName[];

describe('createPostedLog', () => {
  it.each(logLevels)('posts at the level %s what a log of that level writes', (level) => {
    const posted: unknown[] = [];
    const written: string[] = [];
    const log = createPostedLog(level, (...line) => posted.push(line));
    const destination = { write: (line: string) => written.push(line) };
    const local = createLogger({ level, format: 'text', clock: new ManualClock(), destination });
    for (const name of names) {
      log[name](name);
      local[name](name);
      if (name !== 'fatal') expect(log.isEnabled(name)).toBe(local.isEnabled(name));
    }
    expect(posted).toHaveLength(written.length);
    expect(posted).toEqual(names.slice(0, written.length).map((name) => [name, name, undefined]));
  });

  it('posts objects, as a log of this thread writes them', () => {
    const posted: unknown[] = [];
    const log = createPostedLog('info', (...line) => posted.push(structuredClone(line)));
    const circle: Record<string, unknown> = {};
    circle['itself'] = circle;
    log.warn('message', { limit: { unit: 'day', call: () => {} }, list: [1, 'a'], circle });
    const fields = { limit: { unit: 'day' }, list: [1, 'a'], circle: '[object Object]' };
    expect(posted).toEqual([['warn', 'message', fields]]);
  });

  it('posts nothing that a thread cannot take', () => {
    const posted: unknown[] = [];
    const log = createPostedLog('info', (...line) => posted.push(structuredClone(line)));
    log.warn('message', { error: new Error('why'), none: undefined, number: 1, text: 'a', call: () => {} });
    expect(posted).toEqual([
      ['warn', 'message', { error: 'why', number: 1, text: 'a', call: expect.any(String) }],
    ]);
  });
});
