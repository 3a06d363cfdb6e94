import { runControlPlane } from '../control-plane/main.ts';
import { commandOf, UsageError } from './shared/flags.ts';

const help = `Usage: weir control-plane

Serves RateLimitConfigs to limiters over xDS on port 18000, and writes into their status whether they are in force. Port
19000 has probes, metrics, and the snapshot of each limiter. All settings come from the environment
(docs/settings-control-plane.md); there are no flags. SIGTERM, SIGINT and SIGHUP stop it. Without a cluster, for limiters
of this machine, which need no credentials:

  SOURCE=DIRECTORY MANIFESTS_DIRECTORY=examples/manifests XDS_HOST=127.0.0.1 weir control-plane
`;

export const controlPlaneCommand = commandOf(help, async (flags) => {
  const stray = flags.positionals[0];
  if (stray !== undefined) throw new UsageError(`control-plane takes no arguments, found "${stray}"`);
  // The process does not wait for the event loop to end, because a stuck peer may hold connections open.
  process.exit(await runControlPlane({ env: process.env }));
});
