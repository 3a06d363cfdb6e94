import type { ApiObject } from '../kubernetes/watch-resource.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { readStatus } from './read-status.ts';

/** What is kept of a RateLimitConfig of the Kubernetes API; annotations and managed fields are not. */
export function readConfigObject(object: ApiObject): { item: ConfigObject } | { unreadable: string } {
  const { namespace, name, uid, generation, creationTimestamp = '' } = object.metadata;
  if (typeof namespace !== 'string') return { unreadable: 'it has no metadata.namespace' };
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const createdMs = Date.parse(creationTimestamp);
  return {
    item: {
      namespace,
      name,
      uid,
      generation,
      createdMs: Number.isNaN(createdMs) ? 0 : createdMs,
      spec: object['spec'],
      status: readStatus(object['status']),
    },
  };
}
