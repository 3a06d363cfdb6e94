import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import type { ConfigStatus } from '../../control-plane/model/config-object.ts';
import { type Clock, systemClock } from '../../process/time/clock.ts';
import type { ApiServer } from '../support/api-server.ts';
import { installPrerequisites } from '../support/cluster.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { ScriptedXdsClient } from '../support/xds-client.ts';

/** Sorts first, and so wins. */
const first = 'first-system/weir-control-plane';
const second = 'second-system/weir-control-plane';
const wait = { timeoutMs: 20_000, intervalMs: 200 };

interface Shown {
  metadata: { name: string; resourceVersion: string };
  status?: ConfigStatus;
}

describeWithApiServer('control planes of one cluster', (server) => {
  let api: ApiServer;
  const running: (() => unknown)[] = [];
  let namespace: string;
  let count = 0;

  beforeAll(() => {
    installPrerequisites(server());
    for (const name of ['first-system', 'second-system']) server().createNamespace(name);
  });
  beforeEach(() => {
    api = server();
    namespace = `team-${++count}`;
    api.createNamespace(namespace);
  });
  afterEach(async () => {
    for (const stop of running.splice(0).reverse()) await stop();
    api.delete('ratelimitconfigs', { namespace });
  });

  /** With a limiter that accepts all. */
  async function start(
    place: 'first-system' | 'second-system',
    env: Record<string, string> = {},
    clock: Clock = systemClock,
  ): Promise<InProcessControlPlane> {
    const plane = await InProcessControlPlane.start({
      clock,
      env: {
        KUBECONFIG: api.kubeconfig('admin'),
        POD_NAME: `${place}-0`,
        POD_NAMESPACE: place,
        WATCH_NAMESPACES: namespace,
        LEASE_RETRY_PERIOD: '200ms',
        ...env,
      },
    });
    const client = new ScriptedXdsClient({
      port: plane.ports.xds,
      userAgentName: 'weir',
      metadata: { instance_id: place },
    });
    running.push(() => plane.stop());
    running.push(() => client.close());
    return plane;
  }

  function apply(names: readonly string[], className?: string): void {
    const input = names
      .map((name) =>
        rateLimitConfigText({ namespace, name, className, domain: `${namespace}-${name}`, requests: 1 }),
      )
      .join('\n---\n');
    api.apply(input);
  }

  function shown(): Shown[] {
    return api.read('ratelimitconfigs', { namespace }).items;
  }

  /** `a True Ready by first-system/weir-control-plane`, in the order of names. */
  function statusTexts(type = 'Ready'): string[] {
    return shown().map(({ metadata, status }) => {
      const found = status?.conditions.find((condition) => condition.type === type);
      return `${metadata.name} ${found?.status} ${found?.reason} by ${status?.controllerName ?? 'nobody'}`;
    });
  }

  function eventsOf(reason: string): number {
    return api.read('events', { namespace }, `?fieldSelector=reason=${reason}`).items.length;
  }

  const writes = async (...planes: InProcessControlPlane[]): Promise<number> => {
    const counts = await Promise.all(
      planes.map((plane) => plane.metric('status_writes_total{outcome="written"}')),
    );
    return counts.reduce<number>((sum, written) => sum + (written ?? 0), 0);
  };

  const names = Array.from({ length: 21 }, (_, index) => `o${String(index).padStart(2, '0')}`);
  const all = (what: string): string[] => names.map((name) => `${name} ${what}`);

  it('of one class write a bounded number of times, and all objects end true when one is stopped', async () => {
    apply(names);
    let aheadMs = 0;
    const clock: Clock = { ...systemClock, nowMs: () => systemClock.nowMs() + aheadMs };
    const winner = await start('first-system');
    const stopWinner = running.splice(0);
    const loser = await start('second-system', {}, clock);
    await sleep(10_000);
    let written: number | undefined;
    const noNewWrites = async (): Promise<void> => {
      const before = written;
      written = await writes(winner, loser);
      expect(written).toBe(before);
    };
    await eventually(noNewWrites, { timeoutMs: 30_000, intervalMs: 3_000 });
    expect(written).toBeLessThanOrEqual(8 * names.length);
    expect(statusTexts()).toEqual(all(`True Ready by ${first}`));
    expect(eventsOf('ClassConflict')).toBeGreaterThan(0);
    expect(loser.lines.filter((line) => line.includes('of the same class'))).toHaveLength(1);
    expect(await loser.metric('class_conflicts_total')).toBe(names.length);

    for (const stop of stopWinner.reverse()) await stop();
    aheadMs = 10 * 60_000;
    api.patch('ratelimitconfigs', { name: 'o00', namespace }, { metadata: { annotations: { seen: '1' } } });
    await eventually(() => expect(statusTexts()).toEqual(all(`True Ready by ${second}`)), wait);
  }, 60_000);

  it('of different classes do not touch the objects of each other', async () => {
    apply(['a', 'b']);
    apply(['c'], 'edge');
    const weir = await start('first-system');
    await eventually(
      () =>
        expect(statusTexts().slice(0, 2)).toEqual([`a True Ready by ${first}`, `b True Ready by ${first}`]),
      wait,
    );
    await sleep(500);
    expect(statusTexts()[2]).toBe('c undefined undefined by nobody');
    const before = shown().map(({ metadata }) => metadata.resourceVersion);
    const decisions = () => weir.metric('reconcile_duration_seconds_count');
    const decided = await decisions();
    const edge = await start('second-system', { CLASS_NAME: 'edge' });
    await eventually(() => expect(statusTexts()[2]).toBe(`c True Ready by ${second}`), wait);
    await sleep(500);
    expect(
      shown()
        .slice(0, 2)
        .map(({ metadata }) => metadata.resourceVersion),
    ).toEqual(before.slice(0, 2));
    expect(await weir.snapshot()).toMatchObject({
      controllerName: first,
      className: 'weir',
      fleets: [{ objects: [{ name: `${namespace}/a` }, { name: `${namespace}/b` }] }],
    });
    expect(await edge.snapshot()).toMatchObject({
      controllerName: second,
      className: 'edge',
      fleets: [{ objects: [{ name: `${namespace}/c` }] }],
    });
    // What the other one writes is no reason to decide anew. The second decision of its own may come late.
    expect(await decisions()).toBeLessThanOrEqual(Math.max(2, decided ?? 0));
  });

  it('do not keep Ready=True on an object that leaves the label selector', async () => {
    apply(['a', 'b']);
    for (const name of ['a', 'b']) api.label('ratelimitconfigs', { name, namespace }, { tier: 'gold' });
    const plane = await start('first-system', { LABEL_SELECTOR: 'tier in (gold,silver),!off' });
    await eventually(
      () => expect(statusTexts()).toEqual([`a True Ready by ${first}`, `b True Ready by ${first}`]),
      wait,
    );
    api.label('ratelimitconfigs', { name: 'a', namespace }, { tier: null });
    const left = 'a False NotWatched by nobody';
    for (const type of ['Accepted', 'Programmed', 'Ready'])
      await eventually(() => expect(statusTexts(type)[0]).toBe(left), wait);
    const written = await writes(plane);
    const { metadata } = shown()[0]!;
    api.label('ratelimitconfigs', { name: 'b', namespace }, { team: 'x' });
    await sleep(500);
    expect(await writes(plane)).toBe(written);
    expect(shown()[0]!.metadata.resourceVersion).toBe(metadata.resourceVersion);
    expect((await plane.snapshot()).fleets[0].resources).toHaveLength(1);
    api.label('ratelimitconfigs', { name: 'a', namespace }, { tier: 'silver' });
    await eventually(() => expect(statusTexts()[0]).toBe(`a True Ready by ${first}`), wait);
    api.label('ratelimitconfigs', { name: 'a', namespace }, { off: '1' });
    await eventually(() => expect(statusTexts()[0]).toBe(left), wait);
  });

  it('do not keep Ready=True on an object that left while none of them ran', async () => {
    apply(['a']);
    const before = await start('first-system');
    await eventually(() => expect(statusTexts()).toEqual([`a True Ready by ${first}`]), wait);
    for (const stop of running.splice(0).reverse()) await stop();
    await before.ended;
    apply(['a'], 'nobody');
    const plane = await start('first-system');
    await eventually(() => expect(statusTexts()).toEqual(['a False NotWatched by nobody']), wait);
    expect(await writes(plane)).toBe(1);
  });

  it('hand an object that changes its class over without a fight', async () => {
    apply(['a']);
    const weir = await start('first-system');
    const edge = await start('second-system', { CLASS_NAME: 'edge' });
    await eventually(() => expect(statusTexts()).toEqual([`a True Ready by ${first}`]), wait);
    const before = await writes(weir, edge);
    for (let round = 0; round < 3; round++) {
      apply(['a'], 'edge');
      await eventually(() => expect(statusTexts()).toEqual([`a True Ready by ${second}`]), wait);
      apply(['a'], 'weir');
      await eventually(() => expect(statusTexts()).toEqual([`a True Ready by ${first}`]), wait);
    }
    await sleep(500);
    expect(await writes(weir, edge)).toBeLessThanOrEqual(before + 6 * 3);
    expect(eventsOf('ClassConflict')).toBe(0);
    expect(eventsOf('StatusOverwritten')).toBe(0);
  });

  it('repair what somebody else writes into a status, and report', async () => {
    apply(['a']);
    const plane = await start('first-system');
    await eventually(() => expect(statusTexts()).toEqual([`a True Ready by ${first}`]), wait);
    const foreign = '{"status":{"rules":77}}';
    const patch = [
      'patch',
      'rlc',
      'a',
      '-n',
      namespace,
      '--subresource=status',
      '--type=merge',
      '-p',
      foreign,
    ];
    api.mustKubectl(patch);
    await eventually(() => expect(shown()[0]?.status?.rules).toBe(1), wait);
    await eventually(() => expect(eventsOf('StatusOverwritten')).toBe(1), wait);
    expect(await plane.metric('status_overwrites_total')).toBe(1);
    expect(plane.lines.join('\n')).toMatch(/Another client changed a status.* manager=kubectl-patch/);
  });
});
