import { noFields, warn } from '../../process/log/log-line.ts';

export const lines = {
  /** `warning` begins with file and line. */
  mapperWarning: warn<{ warning: string }>(({ warning }) => `PROMETHEUS_MAPPER_YAML: ${warning}`, noFields),
};
