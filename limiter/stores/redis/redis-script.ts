import { createHash } from 'node:crypto';

export interface RedisScript {
  readonly source: string;
  /** How EVALSHA names it. */
  readonly sha1: string;
}

export function redisScript(source: string): RedisScript {
  return { source, sha1: createHash('sha1').update(source).digest('hex') };
}
