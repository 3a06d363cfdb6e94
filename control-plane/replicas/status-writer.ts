/** Writes `status` of RateLimitConfigs by server-side apply: what is not in it any more goes. */
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { ConfigStatus } from '../model/config-status.ts';
import { fieldManager } from './object-names.ts';

export type WriteOutcome =
  | { is: 'written' }
  /** The object was deleted, perhaps created anew. */
  | { is: 'gone' }
  /** The server will not take this status, however often it is sent. */
  | { is: 'refused'; error: ApiError }
  /** Worth another attempt. */
  | { is: 'failed'; error: ApiError };

export interface StatusWriterOptions {
  client: KubernetesClient;
  /** Of one request; defaults to 10,000. */
  timeoutMs?: number;
}

export class StatusWriter {
  readonly #client: KubernetesClient;
  readonly #timeoutMs: number;

  constructor({ client, timeoutMs = 10_000 }: StatusWriterOptions) {
    this.#client = client;
    this.#timeoutMs = timeoutMs;
  }

  /** One attempt. */
  async write(object: ConfigObject, status: ConfigStatus): Promise<WriteOutcome> {
    const { namespace, name, uid } = object;
    try {
      const written = await this.#client.request<{ metadata: { uid: string } }>({
        method: 'PATCH',
        path: `/apis/${apiVersion}/namespaces/${namespace}/ratelimitconfigs/${name}/status`,
        query: { fieldManager, force: true },
        contentType: 'application/apply-patch+yaml',
        timeoutMs: this.#timeoutMs,
        body: { apiVersion, kind, metadata: { namespace, name }, status },
      });
      // The API compares no uid when a status is applied: what was created anew since is told by its own status.
      return { is: written.metadata.uid === uid ? 'written' : 'gone' };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) return { is: 'gone' };
      return { is: mayRepeat(error) ? 'failed' : 'refused', error };
    }
  }
}

export const apiVersion = 'ratelimit.weir.dev/v1alpha1';
export const kind = 'RateLimitConfig';

/** No answer, the server's own faults, and what another moment may allow: a conflict, a token that was replaced. */
function mayRepeat({ status }: ApiError): boolean {
  return status === 0 || status >= 500 || [401, 408, 409, 429].includes(status);
}
