/** REDIS_SCRIPTS: `never` runs none; `auto` runs them until the server refuses one. */
export type RedisScripts = 'auto' | 'never';

/** Whether the server runs no scripts, or not for this user, or not for keys of several slots. It ran nothing then. */
export function areScriptsRefused(error: unknown): error is Error {
  return error instanceof Error && /^(?:NOPERM|CROSSSLOT|ERR unknown command)\b/i.test(error.message);
}
