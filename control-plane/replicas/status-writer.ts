/** Writes statuses of RateLimitConfigs to the API server, one attempt at a time. */
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import { serverSideApply } from './replica-name.ts';

export const apiVersion = 'ratelimit.weir.dev/v1alpha1';
export const kind = 'RateLimitConfig';

export type WriteOutcome =
  /** `version`: the one that the write made, where objects have versions. */
  | { is: 'written'; version?: string }
  /** The object is not the version any more that the status follows from, or another one of its name: decide again. */
  | { is: 'outdated' }
  /** The object was deleted. */
  | { is: 'gone' }
  /** The server will not take this status, however often it is sent. */
  | { is: 'refused'; error: ApiError }
  /** Worth another attempt. */
  | { is: 'failed'; error: ApiError };

export interface StatusWriterOptions {
  client: KubernetesClient;
  /** Of one request; defaults to 10,000. */
  timeoutMs?: number;
  /** Called before each attempt; what it returns is called after it, with the version that was written if that is known. */
  writing?(object: ConfigObject): (resourceVersion?: string) => void;
}

/**
 * Writes `status` of RateLimitConfigs by server-side apply: what is not in it any more goes. Each follows from a version of
 * the object, and is not written over another one.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** One attempt. */
  async write(object: ConfigObject, status: ConfigStatus): Promise<WriteOutcome> {
    const { namespace, name, resourceVersion } = object;
    const { client, timeoutMs = 10_000, writing } = this.#options;
    const settle = writing?.(object);
    let version: string | undefined;
    try {
      const { metadata } = await client.request<{ metadata: { resourceVersion: string } }>({
        ...serverSideApply,
        path: `/apis/${apiVersion}/namespaces/${namespace}/ratelimitconfigs/${name}/status`,
        timeoutMs,
        body: { apiVersion, kind, metadata: { namespace, name, resourceVersion }, status },
      });
      version = metadata.resourceVersion;
      return { is: 'written', version };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) return { is: 'gone' };
      if (error.status === 409) return { is: 'outdated' };
      return { is: mayRepeat(error) ? 'failed' : 'refused', error };
    } finally {
      settle?.(version);
    }
  }
}

/** No answer, the server's own faults, and what another moment may allow: a token that was replaced. */
function mayRepeat({ status }: ApiError): boolean {
  return status === 0 || status >= 500 || [401, 408, 429].includes(status);
}
