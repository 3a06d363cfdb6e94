import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, expect, it } from 'vitest';
import type { ApiServer } from '../support/api-server.ts';
import { allowLeases, installPrerequisites, type WrittenCondition } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

const count = 500;
const namespace = 'default';

function reasons(api: ApiServer): string[] {
  const { items } = api.read('ratelimitconfigs', { namespace }) as {
    items: { status?: { conditions: WrittenCondition[] } }[];
  };
  return items.map(
    ({ status }) => status?.conditions.find(({ type }) => type === 'Programmed')?.reason ?? 'none',
  );
}

const all = (reason: string): string[] => Array<string>(count).fill(reason);

let controlPlane: InProcessControlPlane | undefined;
let client: ScriptedXdsClient | undefined;
afterEach(async () => {
  client?.close();
  await controlPlane?.stop();
});

const decisions = async (): Promise<number> =>
  (await controlPlane?.metric('reconcile_duration_seconds_count')) ?? 0;

describeWithApiServer('the statuses of 500 objects', (api) => {
  beforeAll(() => {
    installPrerequisites(api());
    allowLeases(api(), 'weir-control-plane');
    const input = Array.from({ length: count }, (_, index) =>
      rateLimitConfigText({ namespace, name: `c${index}`, domain: `d${index}`, requests: 1 }),
    ).join('\n---\n');
    api().mustKubectl(['create', '-f', '-'], { input });
  });

  it('are written without a new decision, and foreign ones are seen', async () => {
    controlPlane = await InProcessControlPlane.start({
      env: {
        KUBECONFIG: api().kubeconfig('control-plane'),
        POD_NAME: 'replica',
        POD_NAMESPACE: 'weir-system',
        STATUS_WRITES_PER_SECOND: '1000',
      },
    });
    client = new ScriptedXdsClient({
      port: controlPlane.ports.xds,
      userAgentName: 'weir',
      reconnects: false,
    });
    const wait = { timeoutMs: 60_000, intervalMs: 500 };
    await eventually(() => expect(reasons(api())).toEqual(all('AllLimiters')), wait);
    const written = (await controlPlane.metric('status_writes_total{outcome="written"}')) ?? 0;
    expect(written).toBeGreaterThanOrEqual(count);
    // The lists of objects and of overrides, and what outlived other processes: each of them may ask for one.
    expect(await decisions()).toBeLessThanOrEqual(3);

    const before = await decisions();
    const foreign = '{"status":{"rules":77,"servedGeneration":9}}';
    const patch = [
      'patch',
      'rlc',
      'c7',
      '-n',
      namespace,
      '--subresource=status',
      '--type=merge',
      '-p',
      foreign,
    ];
    api().mustKubectl(patch);
    await eventually(async () => expect(await decisions()).toBe(before + 1), wait);
    await eventually(() => expect(reasons(api())).toEqual(all('AllLimiters')), wait);
    await sleep(500);
    expect(await decisions()).toBe(before + 1);

    // A pod that joins or leaves costs no write of an object.
    const writes = () => controlPlane!.metric('status_writes_total{outcome="written"}');
    const writtenBefore = await writes();
    const joiner = new ScriptedXdsClient({
      port: controlPlane.ports.xds,
      userAgentName: 'weir',
      nodeId: 'b',
    });
    await sleep(1_000);
    joiner.close();
    await sleep(1_000);
    expect(await writes()).toBe(writtenBefore);

    client.close();
    client = undefined;
    await eventually(() => expect(reasons(api())).toEqual(all('NoLimiters')), wait);
    expect(await decisions()).toBe(before + 1);
    const { fleets } = await controlPlane.snapshot();
    expect(fleets[0].objects[0].programmed).toMatchObject({ reason: 'NoLimiters' });
  }, 120_000);
});
