import { statusModel } from '../../rules/manifest/spec-model.ts';
import type { ApiObject } from '../kubernetes/watch-protocol.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';

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

/** What is kept of a RateLimitConfig of the Kubernetes API; annotations are not, of managed fields only a time is. */
export function readConfigObject(object: ApiObject): { item: ConfigObject } | { unreadable: string } {
  const { namespace, name, uid, generation, creationTimestamp = '' } = object.metadata;
  if (typeof namespace !== 'string') return { unreadable: 'it has no metadata.namespace' };
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const createdMs = Date.parse(creationTimestamp);
  const editedMs = timeOfEdit(object);
  return {
    item: {
      namespace,
      name,
      uid,
      generation,
      createdMs: Number.isNaN(createdMs) ? 0 : createdMs,
      ...(editedMs === undefined ? {} : { editedMs }),
      spec: object['spec'],
      status: readStatus(object['status']),
    },
  };
}

/** The newest write of all managers that was not one of the status. */
function timeOfEdit({ metadata: { managedFields = [] } }: ApiObject): number | undefined {
  const times = managedFields
    .filter(({ subresource }) => subresource === undefined || subresource === '')
    .map(({ time = '' }) => Date.parse(time))
    .filter((time) => !Number.isNaN(time));
  return times.length === 0 ? undefined : Math.max(...times);
}
