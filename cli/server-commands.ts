/** The commands that run a server until a signal arrives. */
import { type Command, commandOf, UsageError } from './shared/flags.ts';

const limiterHelp = `Usage: weir limiter

Answers rate limit requests: gRPC on 8081, HTTP on 8080, debug on 6070. All settings come from the environment, see
docs/settings.md; it takes no flags. SIGTERM, SIGINT and SIGHUP stop it.

  BACKEND_TYPE=memory DISABLE_STATS=true RUNTIME_ROOT=examples RUNTIME_APPDIRECTORY=rules \\
    RUNTIME_WATCH_ROOT=false weir limiter
`;

const controlPlaneHelp = `Usage: weir control-plane

Serves RateLimitConfigs to limiters over xDS on port 18000, and writes into their status whether they are in force. Port
19000 has probes, metrics, and the snapshot of each limiter. All settings come from the environment
(docs/settings-control-plane.md); there are no flags. SIGTERM, SIGINT and SIGHUP stop it. Without a cluster, for limiters
of this machine, which need no credentials:

  SOURCE=DIRECTORY MANIFESTS_DIRECTORY=examples/manifests XDS_HOST=127.0.0.1 weir control-plane
`;

export const limiterCommand = serverCommand('limiter', limiterHelp, async () => {
  const { runLimiter } = await import('../limiter/main.ts');
  return runLimiter({ env: process.env });
});

export const controlPlaneCommand = serverCommand('control-plane', controlPlaneHelp, async () => {
  const { runControlPlane } = await import('../control-plane/main.ts');
  return runControlPlane({ env: process.env });
});

function serverCommand(name: string, help: string, run: () => Promise<number>): Command {
  return commandOf(help, async ({ positionals: [stray] }) => {
    if (stray !== undefined) throw new UsageError(`${name} takes no arguments, found "${stray}"`);
    // The process does not wait for the event loop to end, because a stuck peer may hold connections open.
    process.exit(await run());
  });
}
