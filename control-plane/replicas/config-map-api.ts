/** ConfigMaps of one namespace, each of which one process writes at a time, by server-side apply. */
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import type { ApiObject } from '../kubernetes/watch-resource.ts';
import { fieldManager, managedLabels, type ObjectRole } from './replica-name.ts';

export interface ConfigMapApiOptions {
  client: KubernetesClient;
  namespace: string;
  /** Of one request. */
  timeoutMs: number;
}

/** The object whose deletion deletes the ConfigMap. */
export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

export class ConfigMapApi {
  readonly #options: ConfigMapApiOptions;

  constructor(options: ConfigMapApiOptions) {
    this.#options = options;
  }

  /** Makes the ConfigMap hold this and nothing else. */
  async apply(map: ConfigMap, options: { role: ObjectRole; owner?: Owner }): Promise<void> {
    const { client, namespace, timeoutMs } = this.#options;
    const { role, owner } = options;
    await client.request({
      method: 'PATCH',
      path: this.#path(map.name),
      query: { fieldManager, force: true },
      contentType: 'application/apply-patch+yaml',
      timeoutMs,
      body: {
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: {
          name: map.name,
          namespace,
          labels: managedLabels(role),
          ...(owner === undefined ? {} : { ownerReferences: [owner] }),
        },
        data: map.data,
        binaryData: map.binaryData,
      },
    });
  }

  /** Succeeds when there is none; with `resourceVersion` leaves one alone that somebody has written since. */
  async delete(name: string, resourceVersion?: string): Promise<void> {
    const { client, timeoutMs } = this.#options;
    const body = resourceVersion === undefined ? {} : { preconditions: { resourceVersion } };
    try {
      await client.request({ method: 'DELETE', path: this.#path(name), timeoutMs, body });
    } catch (error) {
      if (!(error instanceof ApiError && (error.status === 404 || error.status === 409))) throw error;
    }
  }

  #path(name: string): string {
    return `/api/v1/namespaces/${this.#options.namespace}/configmaps/${name}`;
  }
}

/** From what a watch brings. */
export function configMapOf(object: ApiObject): ConfigMap {
  return {
    name: object.metadata.name,
    data: (object['data'] ?? {}) as ConfigMap['data'],
    binaryData: (object['binaryData'] ?? {}) as ConfigMap['binaryData'],
  };
}

/** A ConfigMap, as far as reports and kept specs need it. */
export interface ConfigMap {
  name: string;
  data: Readonly<Record<string, string>>;
  /** In base64. */
  binaryData: Readonly<Record<string, string>>;
}

/** The most bytes of one ConfigMap's values, before base64: the API server refuses more than 1 MiB, keys included. */
export const maxConfigMapBytes = 1_000_000;
