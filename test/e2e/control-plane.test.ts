import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';

import {
  applyFleet,
  conditionOf,
  installPrerequisites,
  messageOf,
  startReplica,
  startXdsLimiter,
} from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { DeltaClient } from '../support/delta-client.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import { type ManifestOptions, rateLimitConfigText } from '../support/rate-limit-config.ts';

describeWithApiServer('a limit from kubectl to a decision', (api) => {
  let replica: ControlPlaneProcess;
  let limiter: LimiterProcess;
  let client: LimiterClient;

  beforeAll(async () => {
    installPrerequisites(api());
    // A limiter that ends is expected no more.
    applyFleet(api(), { disconnectedGraceSeconds: 1 });
    replica = await startReplica(api(), 'control-plane-0');
    limiter = await startXdsLimiter(replica.ports.xds, 'limiter-0');
    client = new LimiterClient(limiter.ports.grpc);
  });

  afterAll(async () => {
    client?.close();
    await limiter?.stop();
    await replica?.stop();
  });

  const apply = (options: ManifestOptions): void => api().apply(rateLimitConfigText(options));

  /** The limit that a decision in this domain falls under; undefined when none does. */
  async function limitIn(domain: string): Promise<number | undefined> {
    const answer = await client.ask({ domain, descriptors: [{ entries: [{ key: 'key', value: 'v' }] }] });
    return answer.statuses[0]?.currentLimit?.requestsPerUnit;
  }

  it('enforces what is applied, and says so', async () => {
    expect(await limitIn('shop')).toBeUndefined();
    apply({ name: 'shop', domain: 'shop', requests: 2 });
    api().mustKubectl(['wait', '--for=condition=Programmed', 'rlc/shop', '--timeout=10s']);
    expect(await limitIn('shop')).toBe(2);
    expect(await client.allowed('shop', 'key', 'v')).toBe(true);
    expect(await client.allowed('shop', 'key', 'v')).toBe(false);
    const [head, line] = api().mustKubectl(['get', 'rlc', 'shop']).trim().split('\n') as [string, string];
    expect(head.split(/\s+/)).toEqual(['NAME', 'DOMAIN', 'RULES', 'ACCEPTED', 'PROGRAMMED', 'READY', 'AGE']);
    expect(line.split(/\s+/).slice(0, -1)).toEqual(['shop', 'shop', '1', 'True', 'True', 'True']);
  });

  it('leads without taking itself for another', () => {
    expect(replica.program.output).toMatch(/msg="?Leading/);
    expect(replica.program.output).not.toContain('The leader is another one');
  });

  it('reports it in describe', () => {
    const text = api().mustKubectl(['describe', 'rlc', 'shop']);
    for (const word of ['Valid', 'AllLimiters', 'Accepted', 'Programmed', 'Ready']) {
      expect(text).toContain(word);
    }
    expect(text).toMatch(/Observed Generation: +1\n/);
    expect(text).toMatch(/Events:(.|\n)*Normal +AllLimiters/);
  });

  it('follows a change', async () => {
    apply({ name: 'shop', domain: 'shop', requests: 7 });
    await eventually(async () => expect(await limitIn('shop')).toBe(7));
    api().mustKubectl(['wait', '--for=jsonpath={.status.observedGeneration}=2', 'rlc/shop', '--timeout=10s']);
    await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('True AllLimiters'));
  });

  it('brings a lease to limiters as written, and takes it away again', async () => {
    const rateLimit = { unit: 'hour', requestsPerUnit: 1_000 };
    const leased = (lease: { lease?: string | number }) =>
      apply({ name: 'shop', domain: 'shop', requests: 7, more: [{ key: 'k', rateLimit, ...lease }] });
    const line = 'shop.k: unit=HOUR requests_per_unit=1000, shadow_mode: false, quota_mode: false';
    for (const [lease, words] of [
      [{ lease: '2.5%' }, ', lease: 2.5%'],
      [{ lease: 0 }, ', lease: 0'],
      [{}, ''],
    ] as const) {
      leased(lease);
      await eventually(async () => {
        const page = await fetch(`http://127.0.0.1:${limiter.ports.debug}/rlconfig`);
        expect(await page.text()).toContain(`${line}${words}\n`);
      });
      await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('True AllLimiters'));
    }
  });

  it('rejects a bad change by every error, and the old rules stay in force', async () => {
    const twice = { key: 'key', rateLimit: { unit: 'day', requestsPerUnit: 1 } };
    const replacing = { unit: 'day', requestsPerUnit: 1, name: 'n', replaces: [{ name: 'n' }] };
    const itself = { key: 'other', rateLimit: replacing };
    apply({ name: 'shop', domain: 'shop', requests: 9, more: [twice, itself] });
    api().mustKubectl(['wait', '--for=condition=Accepted=False', 'rlc/shop', '--timeout=10s']);
    expect(conditionOf(api(), 'shop', 'Accepted')).toBe('False Invalid');
    const message = messageOf(api(), 'shop', 'Accepted');
    expect(message).toContain("spec.descriptors[1].key: duplicate descriptor composite key 'shop.key'");
    expect(message).toContain(
      'spec.descriptors[2].rateLimit.replaces[0].name: replaces should not contain name',
    );
    expect(message).toContain('generation 5 stays in force');
    await sleep(300);
    expect(await limitIn('shop')).toBe(7);
    expect(conditionOf(api(), 'shop', 'Ready')).toMatch(/^False/);
  });

  it('keeps them in force for a control plane that starts only now', async () => {
    await replica.stop();
    replica = await startReplica(api(), 'control-plane-1', { XDS_PORT: String(replica.ports.xds) });
    const other = await startXdsLimiter(replica.ports.xds, 'limiter-late');
    const asker = new LimiterClient(other.ports.grpc);
    try {
      const answer = await asker.ask({
        domain: 'shop',
        descriptors: [{ entries: [{ key: 'key', value: 'x' }] }],
      });
      expect(answer.statuses[0]?.currentLimit?.requestsPerUnit).toBe(7);
    } finally {
      asker.close();
      await other.stop();
    }
    expect(await limitIn('shop')).toBe(7);
  });

  it('accepts the corrected one', async () => {
    apply({ name: 'shop', domain: 'shop', requests: 11 });
    // Who else had the old rules, the control plane that started only now knows after 15 s.
    await eventually(async () => expect(await limitIn('shop')).toBe(11));
    await eventually(() => expect(conditionOf(api(), 'shop', 'Ready')).toMatch(/^True/), {
      timeoutMs: 30_000,
    });
  }, 60_000);

  it('is not said of the objects beside the only one that a limiter rejects', async () => {
    apply({ name: 'beside', domain: 'beside', requests: 1 });
    const partial = new DeltaClient(replica.ports.xds, { pod: 'partial', accepts: false });
    partial.request();
    await partial.responses(1);
    partial.refuse('default/shop: cannot load that', [{ name: 'default/shop', message: 'cannot load that' }]);
    await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('False Refused'));
    expect(messageOf(api(), 'shop', 'Programmed')).toMatch(
      /rejected by partial since \S+: cannot load that$/,
    );
    await eventually(() => expect(conditionOf(api(), 'beside', 'Programmed')).toBe('True AllLimiters'));
    partial.close();
    await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('True AllLimiters'));
    api().delete('ratelimitconfigs', { name: 'beside', namespace: 'default' });
  });

  it('gives a domain to the first and shows the second its owner', async () => {
    apply({ name: 'another', domain: 'shop', requests: 1 });
    api().mustKubectl(['wait', '--for=condition=Accepted=False', 'rlc/another', '--timeout=10s']);
    expect(conditionOf(api(), 'another', 'Accepted')).toBe('False DomainConflict');
    expect(messageOf(api(), 'another', 'Accepted')).toContain('default/shop');
    expect(await limitIn('shop')).toBe(11);
    api().delete('ratelimitconfigs', { name: 'shop', namespace: 'default' });
    api().mustKubectl(['wait', '--for=condition=Programmed', 'rlc/another', '--timeout=10s']);
    expect(await limitIn('shop')).toBe(1);
  });

  it('drops what is deleted', async () => {
    api().delete('ratelimitconfigs', { name: 'another', namespace: 'default' });
    await eventually(async () => expect(await limitIn('shop')).toBeUndefined());
  });

  it('serves the example manifests', async () => {
    api().mustKubectl(['apply', '-f', 'examples/manifests']);
    api().mustKubectl(['wait', '--for=condition=Ready', 'rlc', '--all', '--timeout=10s']);
    api().mustKubectl(['delete', '-f', 'examples/manifests']);
  });
});
