import type { ApiObject } from '../kubernetes/watch-resource.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { readStatus } from './read-status.ts';

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
