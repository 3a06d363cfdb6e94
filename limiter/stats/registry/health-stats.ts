/** Whether callers are served, and what keeps them from it, as gauges of every sink. */
import type { Health } from '../../../process/grpc/health.ts';
import type { StatsRegistry } from './stats-registry.ts';

/** `isOpen`: whether the listeners for callers are. A component shows from when it is first set. */
export function registerHealthStats(
  registry: StatsRegistry,
  health: Pick<Health, 'healthy' | 'isWell' | 'onComponent'>,
  isOpen: () => boolean,
): void {
  const prefix = 'ratelimit.health';
  registry.gauge(`${prefix}.serving`, () => (isOpen() && health.healthy ? 1 : 0));
  health.onComponent((component) => {
    registry.gauge(`${prefix}.${component}`, () => (health.isWell(component) ? 1 : 0));
  });
}
