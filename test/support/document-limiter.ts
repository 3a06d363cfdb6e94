import { type LimiterProcess, startLimiter } from './limiter-process.ts';

/** As `npm start` has them. */
const defaults = { BACKEND_TYPE: 'memory', RUNTIME_ROOT: 'examples', RUNTIME_APPDIRECTORY: 'rules' };

/** The limiter of a document's commands, which are one `npm start` with settings, on any free ports. */
export async function startDocumentedLimiter(commands: readonly string[]): Promise<LimiterProcess> {
  const [command = '', ...others] = commands;
  const words = command.trim().split(/\s+/);
  const isStart = words.slice(-2).join(' ') === 'npm start';
  if (!isStart || others.length > 0)
    throw new Error(`more or less than one npm start: ${commands.join('\n')}`);
  const settings = words.slice(0, -2).map((word) => word.split('=') as [string, string]);
  return startLimiter({ env: { ...defaults, ...Object.fromEntries(settings) } });
}
