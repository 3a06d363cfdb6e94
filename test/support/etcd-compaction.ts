/** Makes etcd forget all older versions, by its HTTP gateway: anyone who asks to go on at one of them is shown 410 Gone. */
export async function compactEtcd(etcdUrl: string): Promise<void> {
  // A new version, so that what is the newest now is an older one.
  const put = await post(`${etcdUrl}/v3/kv/put`, { key: btoa('/of-a-test'), value: '' });
  const { revision } = (put as { header: { revision: string } }).header;
  await post(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true });
}

async function post(url: string, body: unknown): Promise<unknown> {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`);
  return response.json();
}
