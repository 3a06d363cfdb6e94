import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { type KubernetesConfigOptions, loadKubernetesConfig } from './client-config.ts';

function kubeconfig(
  name: string,
  options: { context?: string; user?: string; server?: string } = {},
): string {
  const { context = name, user = '{ token: secret }', server = `https://${name}:6443` } = options;
  return `apiVersion: v1
kind: Config
current-context: ${context}
clusters: [{ name: ${name}, cluster: { server: '${server}', certificate-authority: ca.crt } }]
users: [{ name: ${name}, user: ${user} }]
contexts: [{ name: ${name}, context: { cluster: ${name}, user: ${name}, namespace: of-${name} } }]
`;
}

function file(folder: string, name: string, text: string): string {
  mkdirSync(join(folder, name, '..'), { recursive: true });
  writeFileSync(join(folder, name), text);
  return join(folder, name);
}

/** A folder with a pod's service account in `pod`, a kubeconfig `a`, and one in `home`. */
function places(): { folder: string; options: KubernetesConfigOptions } {
  const folder = temporaryFolder();
  file(folder, 'pod/token', 'pod-token');
  file(folder, 'pod/namespace', 'weir-system\n');
  file(folder, 'home/.kube/config', kubeconfig('of-home'));
  return {
    folder,
    options: {
      kubeconfig: file(folder, 'a', kubeconfig('a')),
      serviceHost: '10.0.0.1',
      servicePort: '443',
      home: join(folder, 'home'),
      serviceAccountFolder: join(folder, 'pod'),
    },
  };
}

const serverOf = (options: KubernetesConfigOptions) =>
  loadKubernetesConfig(options).getCurrentCluster()?.server;

describe('loadKubernetesConfig', () => {
  it('takes KUBECONFIG before the service account, and that before the home', () => {
    const { options } = places();
    expect(serverOf(options)).toBe('https://a:6443');
    expect(serverOf({ ...options, kubeconfig: '' })).toBe('https://10.0.0.1:443');
    expect(serverOf({ ...options, kubeconfig: undefined, serviceHost: undefined })).toBe(
      'https://of-home:6443',
    );
  });

  it('reads YAML as kubectl does, with merge keys, and rejects a second document', () => {
    const { folder, options } = places();
    const merged = kubeconfig('b', { user: '{ <<: &on { token: secret }, username: on }' });
    expect(loadKubernetesConfig({ ...options, kubeconfig: file(folder, 'b', merged) }).users).toMatchObject([
      { name: 'b', token: 'secret', username: true },
    ]);
    const several = file(folder, 'c', `${merged}---\n${merged}`);
    expect(() => loadKubernetesConfig({ ...options, kubeconfig: several })).toThrow(
      `${several}: not a kubeconfig file`,
    );
  });

  it('reads the token of a service account from its file, and the namespace', async () => {
    const { options } = places();
    const config = loadKubernetesConfig({ ...options, kubeconfig: '', serviceHost: 'fd00::1' });
    expect(config.getCurrentCluster()?.server).toBe('https://[fd00::1]:443');
    expect(config.getCurrentUser()?.authProvider).toMatchObject({ name: 'tokenFile' });
    expect(config.getContextObject(config.currentContext)?.namespace).toBe('weir-system');
  });

  it('merges the files of a list, of which the first counts', () => {
    const { folder, options } = places();
    const b = file(folder, 'b', `${kubeconfig('b')}`);
    const shadow = file(folder, 'shadow', kubeconfig('a', { server: 'https://shadow:1' }));
    const list = [join(folder, 'missing'), b, options.kubeconfig, shadow].join(':');
    const config = loadKubernetesConfig({ kubeconfig: list });
    expect(config.currentContext).toBe('b');
    expect(config.clusters.map(({ server }) => server)).toEqual(['https://b:6443', 'https://a:6443']);
    expect(config.getCurrentCluster()?.caFile).toBe(join(folder, 'ca.crt'));
  });

  it('knows a user’s tokenFile', () => {
    const { folder } = places();
    const path = file(folder, 'c', kubeconfig('c', { user: `{ tokenFile: ${join(folder, 'pod/token')} }` }));
    expect(loadKubernetesConfig({ kubeconfig: path }).getCurrentUser()?.authProvider).toEqual({
      name: 'tokenFile',
      config: { tokenFile: join(folder, 'pod/token') },
    });
  });

  it('says that there is no way to the API', () => {
    expect(() => loadKubernetesConfig({ home: '/nowhere', serviceAccountFolder: '/nowhere' })).toThrow(
      'cannot find the Kubernetes API: KUBECONFIG is not set, this is not a pod with a service account, and /nowhere/.kube/config does not exist',
    );
  });

  it.each([
    ['is missing', undefined, 'KUBECONFIG=PATH: no such file'],
    ['is not YAML', 'password: [hunter2', 'PATH: not a kubeconfig file'],
    ['is empty', '', 'PATH: not a kubeconfig file'],
    ['has no context', kubeconfig('a', { context: '""' }), 'KUBECONFIG=PATH: current-context is not set'],
    [
      'has another context',
      kubeconfig('a', { context: 'z' }),
      'KUBECONFIG=PATH: current-context "z" is not among its contexts',
    ],
    [
      'names no URL',
      kubeconfig('a', { server: 'nowhere' }),
      'KUBECONFIG=PATH: server of cluster "a": Invalid URL',
    ],
  ])('rejects a file that %s', (_, text, message) => {
    const folder = temporaryFolder();
    const path = text === undefined ? join(folder, 'x') : file(folder, 'x', text);
    expect(() => loadKubernetesConfig({ kubeconfig: path })).toThrow(message.replace('PATH', path));
  });
});
