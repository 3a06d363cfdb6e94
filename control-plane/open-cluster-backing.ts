import { packageVersion } from '../process/log/version.ts';
import type { Backing } from './backing.ts';
import { ClusterBacking } from './cluster-backing.ts';
import { KubernetesClient } from './kubernetes/client.ts';
import { loadKubernetesConfig } from './kubernetes/client-config.ts';
import type { OpenBackingOptions } from './open-backing.ts';

/** Where nothing says which namespace this process lives in. */
const defaultNamespace = 'weir-system';

/** See `OpenBacking`. */
export function openClusterBacking(options: OpenBackingOptions): Backing {
  const { settings, env } = options;
  const config = loadKubernetesConfig({
    kubeconfig: settings.kubeconfig,
    serviceHost: env['KUBERNETES_SERVICE_HOST'],
    servicePort: env['KUBERNETES_SERVICE_PORT'],
    home: env['HOME'],
  });
  const client = new KubernetesClient({ config, userAgent: `weir-control-plane/${packageVersion()}` });
  const ofPod = settings.kubeconfig === '' ? client.namespace : undefined;
  return new ClusterBacking({
    ...options,
    client,
    namespace: settings.podNamespace || ofPod || defaultNamespace,
  });
}
