/** Of the machine for which the bounds on times are meant: two cores of a server of some years, with nothing else to do. */
const referenceMs = 10;

const rounds = 7;

/**
 * How many times longer than the reference this machine takes for the same work, at least 1: what bounds on times are
 * multiplied with. The best of several rounds, so it reports the machine's speed and not what runs beside.
 */
export function machineSlowness(): number {
  let bestMs = Number.POSITIVE_INFINITY;
  for (let round = 0; round < rounds; round += 1) {
    const startMs = performance.now();
    work();
    bestMs = Math.min(bestMs, performance.now() - startMs);
  }
  return Math.max(1, bestMs / referenceMs);
}

/** Strings, maps and numbers, as the limiter's own work. */
function work(): number {
  const counts = new Map<string, number>();
  for (let i = 0; i < 100_000; i += 1) {
    const key = `key_${(i * 7919) % 10_007}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts.size;
}
