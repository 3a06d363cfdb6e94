import type { Logger } from '../../process/log/logger.ts';
import { createLogger } from '../../process/log/pino-logger.ts';
import { ManualClock } from './manual-clock.ts';

/** What is written as text, without its time. */
export function loggedText(write: (log: Logger) => void): string[] {
  const written: string[] = [];
  const destination = { write: (line: string) => written.push(line) };
  write(createLogger({ level: 'debug', format: 'text', clock: new ManualClock(), destination }));
  return written.map((line) => line.replace('time="1970-01-01T00:00:00Z" ', '').trimEnd());
}
