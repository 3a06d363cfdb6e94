/** The keys of one etcd over its HTTP gateway, https://etcd.io/docs/v3.4/dev-guide/api_grpc_gateway/. */

/** Text as etcd's gateway takes and gives it: base64. */
type Encoded = string;

export interface EtcdKey {
  key: Encoded;
  /** Revision of the last change, `mod_revision`. */
  revision: string;
  value: Encoded;
}

export type EtcdChange = { delete: Encoded } | { put: Encoded; value: Encoded };

/** Everything that Kubernetes keeps lies below it. */
const prefix = '/registry/';
/** The first key behind that prefix. */
const prefixEnd = '/registry0';

/** Chosen: etcd takes 128 operations in one transaction unless a flag says otherwise. */
const changesAtOnce = 100;

export class EtcdKeys {
  readonly #url: string;

  constructor(url: string) {
    this.#url = url;
  }

  /** Without values unless `values`. */
  async list({ values = false } = {}): Promise<EtcdKey[]> {
    const body = { key: btoa(prefix), range_end: btoa(prefixEnd), keys_only: !values };
    const { kvs = [] } = (await this.#post('range', body)) as {
      kvs?: { key: Encoded; mod_revision: string; value?: Encoded }[];
    };
    return kvs.map(({ key, mod_revision, value = '' }) => ({ key, revision: mod_revision, value }));
  }

  /** The revision that each put key has then. */
  async change(changes: readonly EtcdChange[]): Promise<Map<Encoded, string>> {
    const revisions = new Map<Encoded, string>();
    for (let start = 0; start < changes.length; start += changesAtOnce) {
      const some = changes.slice(start, start + changesAtOnce);
      const success = some.map((change) =>
        'put' in change
          ? { request_put: { key: change.put, value: change.value } }
          : { request_delete_range: { key: change.delete } },
      );
      const { header } = (await this.#post('txn', { success })) as { header: { revision: string } };
      for (const change of some) if ('put' in change) revisions.set(change.put, header.revision);
    }
    return revisions;
  }

  async #post(what: string, body: object): Promise<unknown> {
    const url = `${this.#url}/v3/kv/${what}`;
    const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
    if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
    return response.json();
  }
}
