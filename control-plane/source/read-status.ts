import { statusModel } from '../../rules/manifest/index.ts';
import type { ConfigStatus } from '../model/config-status.ts';

/**
 * The status of an object as far as it can be read: another version of this project may have written it, or a person.
 * Undefined when there is none.
 */
export function readStatus(value: unknown): ConfigStatus | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  const whole = statusModel.safeParse(value);
  return whole.success ? whole.data : readParts(value as Record<string, unknown>);
}

function readParts(value: Record<string, unknown>): ConfigStatus {
  const { conditions, ...models } = statusModel.shape;
  const status: ConfigStatus = { observedGeneration: 0, conditions: [] };
  for (const [field, model] of Object.entries(models)) {
    const reading = model.safeParse(value[field]);
    if (field in value && reading.success) Object.assign(status, { [field]: reading.data });
  }
  const elements: unknown = value['conditions'];
  for (const element of Array.isArray(elements) ? elements : []) {
    const reading = conditions.element.safeParse(element);
    if (reading.success) status.conditions.push(reading.data);
  }
  return status;
}
