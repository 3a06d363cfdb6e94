import { onTestFinished } from 'vitest';
import { KubernetesClient, type KubernetesClientOptions } from '../../control-plane/kubernetes/client.ts';
import { loadKubernetesConfig } from '../../control-plane/kubernetes/client-config.ts';
import type { ApiServer, ApiUser } from './api-server.ts';

/** A client of the test under way, closed after it. */
export function clientOf(
  api: ApiServer,
  options: { user?: ApiUser; Client?: new (options: KubernetesClientOptions) => KubernetesClient } = {},
): KubernetesClient {
  const { user = 'admin', Client = KubernetesClient } = options;
  const config = loadKubernetesConfig({ kubeconfig: api.kubeconfig(user) });
  const client = new Client({ config, userAgent: 'weir-test' });
  onTestFinished(() => client.close());
  return client;
}
