/**
 * How a shared API server becomes as it was after its start: in etcd, behind its back. Deletion through the API would wait for
 * controllers that do not run here, such as the one that ends namespaces. The server's caches watch etcd, so it notices.
 */
import { type ApiServerPlace, type ApiUser, askApiServer } from '../api-server.ts';
import { untilTrue } from '../machine-load.ts';
import { type EtcdChange, type EtcdKey, EtcdKeys } from './etcd-keys.ts';

/** Chosen: one takes 0.1 s on an idle machine. Multiplied by the machine's load. */
const timeoutMs = 20_000;
const intervalMs = 20;

/** The server writes them again and again. */
const serversOwn = /^\/registry\/(?:leases\/kube-system\/|peerserverleases\/|masterleases\/)/;

/** The server derives them from other objects, and deletes them after these. */
const derived = /^\/registry\/apiregistration\.k8s\.io\/apiservices\//;

/** A server that is ready creates them a moment later. */
const lastCreated = [
  ...['default', 'kube-node-lease', 'kube-public', 'kube-system'].map(
    (name) => `/registry/namespaces/${name}`,
  ),
  '/registry/services/specs/default/kubernetes',
];

/** Whose rights come and go with RBAC objects; in the namespace where suites give rights. */
const users: readonly ApiUser[] = ['control-plane', 'nobody'];
const namespace = 'weir-system';

export class CleanState {
  readonly #place: ApiServerPlace;
  readonly #etcd: EtcdKeys;
  readonly #keys: ReadonlyMap<string, EtcdKey>;
  readonly #seen: string;
  /** Of keys that were put back. */
  readonly #revisions = new Map<string, string>();

  private constructor(place: ApiServerPlace, etcd: EtcdKeys, keys: readonly EtcdKey[], seen: string) {
    this.#place = place;
    this.#etcd = etcd;
    this.#keys = new Map(keys.map((key) => [key.key, key]));
    this.#seen = seen;
  }

  /** Of a server that nobody has used. */
  static async of(place: ApiServerPlace, etcdUrl: string): Promise<CleanState> {
    const etcd = new EtcdKeys(etcdUrl);
    let keys: EtcdKey[] = [];
    const isComplete = async (): Promise<boolean> => {
      keys = await etcd.list({ values: true });
      const there = new Set(keys.map(({ key }) => atob(key)));
      return lastCreated.every((key) => there.has(key));
    };
    const failure = () => new Error('kube-apiserver did not create its own namespaces and service');
    await untilTrue(isComplete, { timeoutMs, intervalMs, failure });
    return new CleanState(place, etcd, keys, await seenByServer(place));
  }

  /** Returns the keys that it had to delete or put back. Throws when the server does not become as it was. */
  async restore(): Promise<string[]> {
    const restored = new Set<string>();
    let left: string[] = [];
    let seen = this.#seen;
    const isRestored = async (): Promise<boolean> => {
      const changed = await this.#changed();
      left = changed.map(nameOf);
      for (const key of left) restored.add(key);
      const changes = changed.filter((change) => !derived.test(nameOf(change)));
      for (const [key, revision] of await this.#etcd.change(changes)) this.#revisions.set(key, revision);
      if (left.length > 0) return false;
      seen = await seenByServer(this.#place);
      return seen === this.#seen;
    };
    const failure = () =>
      new Error(
        left.length > 0
          ? `there remain ${left.slice(0, 10).join(', ')}`
          : `the server sees\n${seen}\ninstead of\n${this.#seen}`,
      );
    await untilTrue(isRestored, { timeoutMs, intervalMs, failure });
    return [...restored];
  }

  async #changed(): Promise<EtcdChange[]> {
    const now = new Map((await this.#etcd.list()).map((key) => [key.key, key]));
    const added = [...now.keys()].filter((key) => !this.#keys.has(key)).map((key) => ({ delete: key }));
    const others = [...this.#keys.values()]
      .filter(({ key, revision }) => now.get(key)?.revision !== (this.#revisions.get(key) ?? revision))
      .filter(({ key }) => !now.has(key) || !derived.test(atob(key)))
      .map(({ key, value }) => ({ put: key, value }));
    return [...added, ...others].filter((change) => !serversOwn.test(nameOf(change)));
  }
}

function nameOf(change: EtcdChange): string {
  return atob('put' in change ? change.put : change.delete);
}

/** The server's answers that follow its caches: kinds, namespaces, and rights. */
async function seenByServer(place: ApiServerPlace): Promise<string> {
  const groups = await askJson<{ groups: { name: string }[] }>(place, '/apis');
  const namespaces = await askJson<{ items: { metadata: { name: string } }[] }>(
    place,
    '/api/v1/namespaces?resourceVersion=0',
  );
  const lines = [
    `groups ${sorted(groups.groups.map(({ name }) => name))}`,
    `namespaces ${sorted(namespaces.items.map(({ metadata }) => metadata.name))}`,
  ];
  for (const user of users) {
    const review = await askJson<{ status: { resourceRules: object[]; nonResourceRules: object[] } }>(
      place,
      '/apis/authorization.k8s.io/v1/selfsubjectrulesreviews',
      { user, body: { spec: { namespace } } },
    );
    const { resourceRules, nonResourceRules } = review.status;
    const rules = [...resourceRules, ...nonResourceRules].map((rule) => JSON.stringify(rule));
    lines.push(`rules of ${user} ${sorted(rules)}`);
  }
  return lines.join('\n');
}

function sorted(texts: readonly string[]): string {
  return texts.toSorted().join(' ');
}

async function askJson<T>(
  place: ApiServerPlace,
  path: string,
  options: { user?: ApiUser; body?: object } = {},
): Promise<T> {
  const { status, body } = await askApiServer(place, path, options);
  if (status >= 300) throw new Error(`${path}: ${status} ${body}`);
  return JSON.parse(body) as T;
}
