import { expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { withFields } from './logger.ts';
import { createLogger } from './pino-logger.ts';

it('every line has the fields, whatever its level and its own', () => {
  const written: string[] = [];
  const destination = { write: (line: string) => written.push(line.replace(/^time="[^"]*" /, '').trimEnd()) };
  const log = withFields(
    createLogger({ level: 'info', format: 'text', clock: new ManualClock(), destination }),
    { store: 'a' },
  );
  log.fatal('f');
  log.error('e', { url: 'u' });
  log.warn('w');
  log.info('i');
  log.debug('d');
  expect(written).toEqual([
    'level=fatal msg="f" store=a',
    'level=error msg="e" url=u store=a',
    'level=warning msg="w" store=a',
    'level=info msg="i" store=a',
  ]);
  expect([log.isEnabled('info'), log.isEnabled('debug')]).toEqual([true, false]);
});
