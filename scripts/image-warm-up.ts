/**
 * `node scripts/image-warm-up.ts <folder>`: starts what scripts/image-files.ts wrote once, so that Node keeps its code
 * compiled in /app/compile-cache. Node uses that for the same files, the same Node and the same user only. It writes them
 * for their owner alone; in the image they belong to root, and another user reads them.
 */
import { chmodSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { startProgram } from './started-program.ts';

const [given] = process.argv.slice(2);
if (given === undefined) {
  console.error('usage: node scripts/image-warm-up.ts <folder>');
  process.exit(2);
}
const root = resolve(given);
const cache = join(root, 'app', 'compile-cache');
const env = {
  NODE_COMPILE_CACHE: cache,
  LD_LIBRARY_PATH: join(root, 'nodejs', 'lib'),
};
const limiter = await startProgram({
  command: join(root, 'bin', 'ratelimit'),
  args: [],
  env: {
    ...env,
    BACKEND_TYPE: 'memory',
    DISABLE_STATS: 'true',
    RUNTIME_ROOT: join(root, 'app', 'examples'),
    RUNTIME_APPDIRECTORY: 'rules',
    RUNTIME_WATCH_ROOT: 'false',
    ...anyPorts('HOST', 'PORT'),
    ...anyPorts('GRPC_HOST', 'GRPC_PORT'),
    ...anyPorts('DEBUG_HOST', 'DEBUG_PORT'),
  },
  until: /Listening for HTTP/,
});
await limiter.stop();
// With Redis and an xDS server that nobody answers for: their libraries are loaded before anything is asked.
const withRedis = await startProgram({
  command: join(root, 'bin', 'ratelimit'),
  args: [],
  env: {
    ...env,
    REDIS_SOCKET_TYPE: 'tcp',
    REDIS_URL: '127.0.0.1:1',
    DISABLE_STATS: 'true',
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: '127.0.0.1:1',
    ...anyPorts('DEBUG_HOST', 'DEBUG_PORT'),
  },
  until: /Listening for debug/,
});
await withRedis.stop();
const controlPlane = await startProgram({
  command: join(root, 'bin', 'weir'),
  args: ['control-plane'],
  env: {
    ...env,
    SOURCE: 'DIRECTORY',
    MANIFESTS_DIRECTORY: join(root, 'app', 'examples', 'manifests'),
    ...anyPorts('XDS_HOST', 'XDS_PORT'),
    ...anyPorts('HOST', 'PORT'),
    ...anyPorts('API_HOST', 'API_PORT'),
  },
  until: /Listening for xDS/,
});
await controlPlane.stop();
for (const entry of readdirSync(cache, { recursive: true, withFileTypes: true })) {
  chmodSync(join(entry.parentPath, entry.name), entry.isDirectory() ? 0o755 : 0o644);
}

function anyPorts(host: string, port: string): Record<string, string> {
  return { [host]: '127.0.0.1', [port]: '0' };
}
