import type { Logger } from '../../process/log/logger.ts';

/** `warning` begins with file and line. */
export function mapperWarning(log: Logger, warning: string): void {
  log.warn(`PROMETHEUS_MAPPER_YAML: ${warning}`);
}
