import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { installPrerequisites, startReplica } from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { httpAsk } from '../support/http-ask.ts';
import { machineLoad } from '../support/machine-load.ts';
import { type ManifestOptions, rateLimitConfigText } from '../support/rate-limit-config.ts';
import { type ReceivedDelivery, verified, WebhookReceiver } from '../support/webhook-receiver.ts';
import { runWeir } from '../support/weir-command.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const token = 'T0KEN-OF-THE-PIPELINE';
/** A leader on a busy machine needs longer to renew its Lease object. */
const slowness = machineLoad();
const leases = {
  LEASE_DURATION: `${Math.ceil(5_000 * slowness)}ms`,
  LEASE_RENEW_DEADLINE: `${Math.ceil(4_000 * slowness)}ms`,
  LEASE_RETRY_PERIOD: '300ms',
};

describeWithApiServer('webhooks of two replicas', (api) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-webhooks-'));
  const receiver = new WebhookReceiver();
  const replicas: ControlPlaneProcess[] = [];
  let limiter: ScriptedXdsClient;

  const start = async (name: string): Promise<void> => {
    const env = {
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET: secret,
      API_TOKEN: token,
      ...leases,
    };
    replicas.push(await startReplica(api(), name, env));
  };

  beforeAll(async () => {
    installPrerequisites(api());
    await receiver.start();
    await start('control-plane-0');
    await replicas[0]?.program.printed(/Leading/);
    await start('control-plane-1');
    limiter = new ScriptedXdsClient({ port: (replicas[1] as ControlPlaneProcess).ports.xds });
  });
  afterAll(async () => {
    limiter?.close();
    await Promise.all(replicas.map(({ stop }) => stop()));
    await receiver.stop();
    rmSync(folder, { recursive: true });
  });

  const apply = (options: ManifestOptions): void => api().apply(rateLimitConfigText(options));

  interface Reported {
    type: string;
    data: { name: string; generation: number; condition: { message: string } };
  }

  /** What a receiver with the secret reads. */
  const read = (delivery: ReceivedDelivery): Reported => verified(secret, delivery) as Reported;
  const reported = (name: string): string[] =>
    receiver.deliveries
      .map(read)
      .filter(({ data }) => data.name === name)
      .map(({ type, data }) => `${type.replace('ratelimitconfig.', '')} ${data.generation}`);

  const program = async (name: string): Promise<void> => {
    apply({ name, domain: name, requests: 1 });
    await eventually(() => expect(reported(name)).toContain('programmed 1'));
  };

  /** The limiter that runs the object is silent from now on. */
  const deleteUnanswered = async (name: string): Promise<void> => {
    limiter.fallSilent();
    api().delete('ratelimitconfigs', { name: name, namespace: 'default' });
    await eventually(() => expect(limiter.last?.domains).not.toContain(name));
    await eventually(() => expect(storedObjects()).toBe('weir-removed'));
  };

  /** The name of the ConfigMap of deleted objects, empty while there is none. */
  const storedObjects = (): string =>
    api().names('configmaps', { namespace: 'weir-system' }, 'ratelimit.weir.dev/role=removed').join(' ');

  it('report what becomes accepted and programmed, refused, rejected', async () => {
    apply({ name: 'shop', domain: 'shop', requests: 1 });
    await eventually(() => expect(reported('shop').toSorted()).toEqual(['accepted 1', 'programmed 1']));
    limiter.rejectWith('no room for that');
    apply({ name: 'shop', domain: 'shop', requests: 2 });
    await eventually(() => expect(reported('shop')).toContain('refused 2'));
    const refusal = receiver.deliveries.map(read).find(({ type }) => type === 'ratelimitconfig.refused');
    expect(refusal?.data.condition.message).toContain('no room for that');
    limiter.acceptAgain();
    apply({ name: 'shop', domain: 'shop', requests: 3 });
    await eventually(() => expect(reported('shop')).toContain('programmed 3'));
    const twice = { key: 'key', rateLimit: { unit: 'day', requestsPerUnit: 1 } };
    apply({ name: 'shop', domain: 'shop', requests: 4, more: [twice] });
    await eventually(() => expect(reported('shop')).toContain('rejected 4'));
    expect(new Set(receiver.ids).size).toBe(receiver.ids.length);
  });

  it('are posted by the leader alone', () => {
    const text = api().mustKubectl(['get', 'lease', 'weir-control-plane', '-n', 'weir-system', '-o', 'yaml']);
    expect(text).toContain('holderIdentity: control-plane-0');
    const accepted = reported('shop').filter((one) => one.startsWith('accepted'));
    expect(accepted.toSorted()).toEqual(['accepted 1', 'accepted 2', 'accepted 3']);
  });

  it('are verified by a pipeline that asks any replica for the secret', async () => {
    const { headers, body } = receiver.deliveries.at(-1) as ReceivedDelivery;
    writeFileSync(join(folder, 'headers.json'), JSON.stringify(headers));
    writeFileSync(join(folder, 'body'), body);
    for (const { program } of replicas) {
      const [, port] = await program.printed(/Listening for the secret lookup on '[^']*:(\d+)'/);
      const path = '/v1/webhooks/default/secret';
      const answer = await httpAsk(Number(port), path, { headers: { authorization: `Bearer ${token}` } });
      expect([answer.status, JSON.parse(answer.body)]).toEqual([200, { key: secret }]);
      expect(answer.headers['cache-control']).toBe('no-store');
      expect((await httpAsk(Number(port), path)).status).toBe(401);
      const from = ['--secret-from', `http://127.0.0.1:${port}`];
      const files = ['--headers', join(folder, 'headers.json'), '--body', join(folder, 'body')];
      const verify = runWeir(['webhook', 'verify', ...from, ...files], { env: { API_TOKEN: token } });
      expect(verify).toMatchObject({ status: 0, stdout: expect.stringMatching(/^valid: msg_/), stderr: '' });
    }
  });

  it('say that an object was deleted, once no limiter runs its rules any more', async () => {
    await program('gone');
    await deleteUnanswered('gone');
    expect(reported('gone')).not.toContain('removed 1');
    limiter.acceptAgain();
    limiter.answer();
    // A leader waits 15 s at first for limiters that may be on their way.
    await eventually(() => expect(reported('gone')).toContain('removed 1'), { timeoutMs: 30_000 });
    const event = receiver.deliveries.map(read).find(({ type }) => type === 'ratelimitconfig.removed');
    expect(event?.data).toMatchObject({
      namespace: 'default',
      domain: 'gone',
      fleet: 'default',
      condition: { type: 'Programmed', status: 'False', reason: 'Removed' },
      servedGeneration: null,
      limiters: { inForce: 0, refused: 0, total: 1 },
    });
    await eventually(() => expect(storedObjects()).toBe(''));
  }, 600_000);

  it('come from the next leader, under the same ids, when the one before died with them', async () => {
    await program('lost');
    const before = receiver.deliveries.length;
    receiver.answer(503);
    apply({ name: 'shop', domain: 'shop', requests: 5 });
    apply({ name: 'mail', domain: 'mail', requests: 1 });
    const undelivered = (): Set<string> => new Set(receiver.ids.slice(before));
    const asked = (): number => Number(/webhook_events_queued (\d+)/.exec(page)?.[1]);
    let page = '';
    await eventually(async () => {
      page = (await httpAsk((replicas[0] as ControlPlaneProcess).ports.http, '/metrics')).body;
      // Accepted and programmed, of each.
      expect(asked()).toBe(4);
    });
    await deleteUnanswered('lost');
    const died = undelivered();
    expect(died.size).toBeGreaterThan(0);
    process.kill((replicas[0] as ControlPlaneProcess).pid, 'SIGKILL');
    await (replicas[0] as ControlPlaneProcess).program.ended;
    receiver.answer(204);
    const after = receiver.deliveries.length;
    const expected = ['accepted 1', 'accepted 5', 'programmed 1', 'programmed 5'];
    const arrived = (): string[] =>
      receiver.deliveries
        .slice(after)
        .map(read)
        .filter(({ data: { name, generation } }) => name === 'mail' || generation === 5)
        .map(({ type, data }) => `${type.replace('ratelimitconfig.', '')} ${data.generation}`);
    await eventually(() => expect([...new Set(arrived())].sort()).toEqual(expected), { timeoutMs: 15_000 });
    for (const id of died) expect(receiver.ids.slice(after)).toContain(id);
  }, 600_000);

  it('say that an object was deleted, when the leader that saw it died before', async () => {
    await replicas[1]?.program.printed(/Leading/);
    limiter.acceptAgain();
    limiter.answer();
    await eventually(() => expect(reported('lost')).toContain('removed 1'), { timeoutMs: 30_000 });
    await eventually(() => expect(storedObjects()).toBe(''));
    expect(reported('lost').filter((one) => one === 'removed 1')).toHaveLength(1);
    expect(reported('gone').filter((one) => one === 'removed 1')).toHaveLength(1);
  }, 600_000);

  it('never show a secret in a log', () => {
    for (const { program } of replicas) {
      expect(program.output).not.toContain(secret.slice(6));
      expect(program.output).not.toContain(token);
    }
  });
});
