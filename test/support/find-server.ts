/**
 * Where the real servers are that tests talk to: an environment variable that names the program, PATH, or the project's
 * own folder `.cache/servers/`, which `npm run test:servers` fills.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';

export interface ServerProgram {
  /** Name of the executable. */
  command: string;
  /** Environment variable that may hold its path. */
  variable: string;
}

export const redisProgram: ServerProgram = { command: 'redis-server', variable: 'WEIR_REDIS_SERVER' };

export const goProgram: ServerProgram = { command: 'go', variable: 'WEIR_GO' };
export const curlProgram: ServerProgram = { command: 'curl', variable: 'WEIR_CURL' };
export const envoyProgram: ServerProgram = { command: 'envoy', variable: 'WEIR_ENVOY' };

export type FoundServer = { path: string } | { missing: string };

export const serversFolder = join(import.meta.dirname, '../../.cache/servers');

/** A variable that is set decides alone: what it names is used or reported missing. */
export function findServer(
  program: ServerProgram,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): FoundServer {
  const { command, variable } = program;
  const named = environment[variable];
  if (named !== undefined && named !== '') {
    return isExecutable(named)
      ? { path: named }
      : { missing: `${variable} names no executable file: ${named}` };
  }
  const folders = (environment['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  for (const folder of [...folders, serversFolder]) {
    const path = join(folder, command);
    if (isExecutable(path)) return { path };
  }
  return { missing: `${command} is neither named by ${variable}, nor on PATH, nor in .cache/servers` };
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
