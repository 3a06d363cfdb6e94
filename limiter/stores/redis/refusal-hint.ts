/** What an operator can do about an error that Redis answered, by its first word; undefined where its text says all. */
export function refusalHint(
  code: string,
  given: { prefix: 'REDIS_' | 'REDIS_PERSECOND_'; isCluster: boolean },
): string | undefined {
  const { prefix, isCluster } = given;
  if ((code === 'MOVED' || code === 'ASK') && !isCluster)
    return `it is a node of a Redis Cluster: set ${prefix}TYPE=cluster`;
  if (code === 'NOAUTH') return `it asks for a password: set ${prefix}AUTH`;
  return hints.get(code);
}

const hints: ReadonlyMap<string, string> = new Map([
  ['OOM', 'it is at its maxmemory: raise that, or set a maxmemory-policy that evicts, such as volatile-ttl'],
  ['NOPERM', "the user's ACL forbids it: see docs/operations.md for what a limiter needs"],
  ['READONLY', 'it is a replica: REDIS_CLOSE_CONNECTION_ON_READONLY_ERROR=true connects anew'],
  ['MISCONF', 'it cannot save to its disk'],
]);
