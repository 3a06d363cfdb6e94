import type { Environment } from '../process/settings/settings-reader.ts';
import type { Backing } from './backing.ts';
import type { ClusterBackingOptions } from './cluster-backing.ts';
import type { ControlPlaneSettings } from './settings/settings.ts';

export interface OpenBackingOptions extends Omit<ClusterBackingOptions, 'client' | 'namespace'> {
  env: Environment;
}

/** Opens no connection yet. Throws a KubernetesConfigError when there is no way to an API server. */
export type OpenBacking = (options: OpenBackingOptions) => Backing;

/** Loads what this kind of source needs and nothing else: the library for Kubernetes alone takes 80 MB. */
export async function loadBacking({ source }: ControlPlaneSettings): Promise<OpenBacking> {
  if (source === 'KUBERNETES') return (await import('./open-cluster-backing.ts')).openClusterBacking;
  const { DirectoryBacking } = await import('./directory-backing.ts');
  return (options) => new DirectoryBacking({ ...options, folder: options.settings.manifestsDirectory });
}
