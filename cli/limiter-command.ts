import { runLimiter } from '../limiter/main.ts';
import { commandOf, UsageError } from './shared/flags.ts';

const help = `Usage: weir limiter

Answers rate limit requests: gRPC on 8081, HTTP on 8080, debug on 6070. All settings come from the environment, see
docs/settings.md; it takes no flags. SIGTERM, SIGINT and SIGHUP stop it.

  BACKEND_TYPE=memory DISABLE_STATS=true RUNTIME_ROOT=examples RUNTIME_APPDIRECTORY=rules \\
    RUNTIME_WATCH_ROOT=false weir limiter
`;

export const limiterCommand = commandOf(help, async (flags) => {
  const stray = flags.positionals[0];
  if (stray !== undefined) throw new UsageError(`limiter takes no arguments, found "${stray}"`);
  // The process does not wait for the event loop to end, because a stuck peer may hold connections open.
  process.exit(await runLimiter({ env: process.env }));
});
