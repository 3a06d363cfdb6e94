/** Asks the API server for the user of a token: TokenReview of authentication.k8s.io/v1. */

import { ApiError, type ApiRequest, type KubernetesApi } from './api.ts';

interface TokenReview {
  status?: {
    authenticated?: boolean;
    user?: { username?: string; extra?: Record<string, string[]> };
    audiences?: string[];
    error?: string;
  };
}

/** Chosen: a limiter waits this long for its rules. */
const timeoutMs = 10_000;

/** The field of a token that is bound to a pod, as projected tokens are. */
const podUidKey = 'authentication.kubernetes.io/pod-uid';

/** The user of a token. */
export interface TokenUser {
  user: string;
  /** The UID of the pod that the token is bound to. */
  podUid?: string;
}

/** Returns the user, or the reason why the token belongs to no user. Rejects with an ApiError if the server does not answer. */
export async function reviewToken(
  client: Pick<KubernetesApi, 'request'>,
  { token, audience }: { token: string; audience: string },
): Promise<TokenUser | { problem: string }> {
  const { status = {} } = await twice(client, {
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    timeoutMs,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [audience] },
    },
  });
  const { authenticated, user, audiences = [], error } = status;
  const name = user?.username ?? '';
  if (authenticated !== true || name === '') return { problem: error ?? 'not authenticated' };
  // A server that does not support audiences omits them. Then the token is for the API server itself.
  if (!audiences.includes(audience)) return { problem: `not for the audience ${audience}` };
  const [podUid] = user?.extra?.[podUidKey] ?? [];
  return { user: name, ...(podUid === undefined ? {} : { podUid }) };
}

/** Repeats a request without an answer, because an idle connection may have ended just then. The request creates nothing. */
async function twice(client: Pick<KubernetesApi, 'request'>, request: ApiRequest): Promise<TokenReview> {
  try {
    return await client.request<TokenReview>(request);
  } catch (error) {
    if (!(error instanceof ApiError && error.reason === 'Unreachable')) throw error;
    return client.request<TokenReview>(request);
  }
}
