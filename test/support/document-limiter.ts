import { projectRoot } from './documents.ts';
import { type LimiterProcess, startLimiter } from './limiter-process.ts';

/** The limiter of a document's commands, which are one `npm start` with settings: it counts in memory, on any free ports. */
export async function startDocumentedLimiter(commands: readonly string[]): Promise<LimiterProcess> {
  const [command = '', ...others] = commands;
  const words = command.trim().split(/\s+/);
  const isStart = words.slice(-2).join(' ') === 'npm start';
  if (!isStart || others.length > 0)
    throw new Error(`more or less than one npm start: ${commands.join('\n')}`);
  const settings = words.slice(0, -2).map((word) => word.split('=') as [string, string]);
  const env = Object.fromEntries(settings);
  return startLimiter({
    env: {
      BACKEND_TYPE: 'memory',
      ...env,
      RUNTIME_ROOT: `${projectRoot}/${env['RUNTIME_ROOT'] ?? 'examples'}`,
    },
  });
}
