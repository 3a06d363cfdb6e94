/** REDIS_SCRIPTS: `never` runs none; `auto` runs them until the server refuses one. */
export type RedisScripts = 'auto' | 'never';

/** Whether the server runs no scripts, or not for this user, or not for keys of several slots. It ran nothing then. */
export function areScriptsRefused(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return /^(?:NOPERM|CROSSSLOT|ERR unknown command)\b/i.test(error.message) && !isAboutKey(error.message);
}

/** A user who may not touch a key may not do so by plain commands either. Redis 6 says it in other words than later ones. */
function isAboutKey(text: string): boolean {
  return /^NOPERM\b.*\baccess (?:a key|one of the keys)\b/i.test(text);
}
