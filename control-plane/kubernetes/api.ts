/** The interface to the Kubernetes API. `KubernetesClient` implements it over HTTP; simulations implement it in memory. */
import type { ApiError } from './api-error.ts';

export interface ApiRequest {
  /** The method. Defaults to GET. */
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path from the root of the API: `/api/v1/namespaces/default/configmaps`. */
  path: string;
  /** Query parameters. Undefined values are omitted. */
  query?: Readonly<Record<string, string | number | boolean | undefined>>;
  /** The body, which is sent as JSON. */
  body?: unknown;
  /** The type of the body. Defaults to `application/json`. Server-side apply takes `application/apply-patch+yaml`. */
  contentType?: string;
  signal?: AbortSignal | undefined;
  /** The time until the whole answer has arrived, or until a stream begins. Defaults to the client's timeout. */
  timeoutMs?: number;
}

/** An access that the API server has denied to this process with 401 or 403 for so long that the denial will not pass on its own. */
export interface Denial {
  verb: 'get' | 'list' | 'watch';
  /** The resource, such as `ratelimitfleets.ratelimit.weir.dev` or `/openapi/v3`. */
  resource: string;
  /** The reason, in the words of the API server. */
  reason: string;
}

/** The Kubernetes API. Every failure is an ApiError. */
export interface KubernetesApi {
  /** Called by each `DeniedAccess`. */
  readonly denied?: ((denial: Denial, isDenied: boolean) => void) | undefined;
  /** The answer's JSON, unchecked. */
  request<T = unknown>(request: ApiRequest): Promise<T>;
  /** Returns the answer to a watch as it arrives. `signal` can also end it. */
  stream(request: ApiRequest): Promise<WatchStream>;
  /** Ends all connections. Requests in progress fail, and later requests would open new connections. */
  close(): void;
}

/** The answer to a watch. */
export interface WatchStream {
  /**
   * Passes on the parsed lines as they arrive, those of one chunk together. An empty list shows that the connection works. Called once.
   * Resolves when the watch has ended and its connection is free: with undefined for a regular end, and otherwise with the error. Never
   * rejects.
   */
  follow(receive: (values: readonly unknown[]) => void): Promise<ApiError | undefined>;
  /** Ends the watch without an error. */
  end(): void;
}

/** The accesses that are denied to a reader of the API. */
export class DeniedAccess {
  readonly #client: Pick<KubernetesApi, 'denied'>;
  #denial: Denial | undefined;

  constructor(client: Pick<KubernetesApi, 'denied'>) {
    this.#client = client;
  }

  /** Replaces the last denial. Undefined if nothing is denied any more. */
  set(denial: Denial | undefined): void {
    if (this.#denial !== undefined) this.#client.denied?.(this.#denial, false);
    this.#denial = denial;
    if (denial !== undefined) this.#client.denied?.(denial, true);
  }
}
