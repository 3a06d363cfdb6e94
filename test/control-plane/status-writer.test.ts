import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { Condition, ConfigObject, ConfigStatus } from '../../control-plane/model/config-object.ts';
import { EventRecorder, type RecordedEvent } from '../../control-plane/replicas/event-recorder.ts';
import { lacksRight, StatusWriter } from '../../control-plane/replicas/status-writer.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import type { ApiServer } from '../support/api-server.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import { clientOf } from '../support/kubernetes-client.ts';

interface Json {
  metadata: { uid: string; name: string; resourceVersion: string };
  status?: unknown;
}

/** Under this name, for the namespace `default`. */
function create(api: ApiServer, name: string): ConfigObject {
  const input = JSON.stringify({
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name, namespace: 'default' },
    spec: { domain: name, descriptors: [{ key: 'k', rateLimit: { unit: 'second', requestsPerUnit: 1 } }] },
  });
  api.apply(input);
  return objectOf(get(api, name));
}

function objectOf({ metadata }: Json): ConfigObject {
  const { uid, name, resourceVersion } = metadata;
  const known = { namespace: 'default', name, uid, resourceVersion };
  return { ...known, generation: 1, createdMs: 0, spec: {}, status: undefined };
}

function get(api: ApiServer, name: string): Json {
  return JSON.parse(api.mustKubectl(['get', 'rlc', name, '-o', 'json'])) as Json;
}

function condition(type: Condition['type'], fields: Partial<Condition> = {}): Condition {
  return {
    type,
    status: 'True',
    reason: 'Valid',
    message: 'fine',
    lastTransitionTime: '2026-01-02T03:04:05Z',
    observedGeneration: 1,
    ...fields,
  };
}

function writerOf(
  api: ApiServer,
  {
    user = 'control-plane',
    timeoutMs = 10_000,
  }: { user?: 'control-plane' | 'nobody'; timeoutMs?: number } = {},
): StatusWriter {
  return new StatusWriter({
    client: clientOf(api, { user }),
    timeoutMs,
  });
}

function recorder(api: ApiServer) {
  const reported: string[] = [];
  const telemetry = recordedTelemetry(reportTo(reported));
  const events = new EventRecorder({
    client: clientOf(api, { user: 'control-plane' }),
    instance: 'plane-a',
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    ...telemetry,
  });
  onTestFinished(() => events.close());
  return { events, reported, counted: telemetry.counted };
}

function eventsOf(api: ApiServer, name: string): Record<string, unknown>[] {
  const args = ['get', 'events.v1.events.k8s.io', '--field-selector', `regarding.name=${name}`, '-o', 'json'];
  const { items } = JSON.parse(api.mustKubectl(args)) as { items: Record<string, unknown>[] };
  return items;
}

describeWithApiServer('what the leader writes about RateLimitConfigs', (api) => {
  beforeAll(async () => {
    api().applyFiles('examples/kubernetes/rbac.yaml');
    await eventually(() => void api().mustKubectl(['get', 'rlc']));
  });

  it('is the whole status: what is not said any more is gone', async () => {
    const object = create(api(), 'whole');
    const writer = writerOf(api());
    const first: ConfigStatus = {
      observedGeneration: 1,
      domain: 'whole',
      fleet: 'default',
      rules: 1,
      servedVersion: '0123456789abcdef',
      servedGeneration: 1,
      conditions: [condition('Accepted'), condition('Supported', { status: 'False' })],
    };
    const outcome = await writer.write({ object, status: first });
    const written = get(api(), 'whole');
    expect(outcome).toEqual({ is: 'written', version: written.metadata.resourceVersion });
    expect(written.status).toEqual(first);
    const second: ConfigStatus = { observedGeneration: 1, conditions: [condition('Accepted')] };
    expect(await writer.write({ object: objectOf(written), status: second })).toMatchObject({
      is: 'written',
    });
    expect(get(api(), 'whole').status).toEqual(second);
  });

  it('is not for an object that is gone, or for another one of its name', async () => {
    const before = create(api(), 'again');
    const writer = writerOf(api());
    api().delete('ratelimitconfigs', { name: 'again', namespace: 'default' });
    const status: ConfigStatus = { observedGeneration: 1, conditions: [condition('Accepted')] };
    expect(await writer.write({ object: before, status })).toEqual({ is: 'gone' });
    const after = create(api(), 'again');
    expect(await writer.write({ object: before, status })).toEqual({ is: 'outdated' });
    expect(await writer.write({ object: after, status })).toMatchObject({ is: 'written' });
  });

  it('is only written over the version that it follows from', async () => {
    const before = create(api(), 'versions');
    const writer = writerOf(api());
    const first: ConfigStatus = { observedGeneration: 1, conditions: [condition('Accepted')] };
    const second: ConfigStatus = { observedGeneration: 1, rules: 2, conditions: [condition('Accepted')] };
    expect(await writer.write({ object: before, status: first })).toMatchObject({ is: 'written' });
    expect(await writer.write({ object: before, status: second })).toEqual({ is: 'outdated' });
    expect(get(api(), 'versions').status).toEqual(first);
    api().mustKubectl(['label', 'rlc', 'versions', 'a=b']);
    const newest = objectOf(get(api(), 'versions'));
    expect(await writer.write({ object: newest, status: second })).toMatchObject({ is: 'written' });
    expect(get(api(), 'versions').status).toEqual(second);
  });

  it('is rejected if the schema does not allow it', async () => {
    const object = create(api(), 'refused');
    const writer = writerOf(api());
    const conditions = [condition('Accepted', { message: 'x'.repeat(40_000) })];
    const outcome = await writer.write({ object, status: { observedGeneration: 1, conditions } });
    expect(outcome).toMatchObject({ is: 'refused', error: { status: 422 } });
  });

  it('is rejected with a message that names the missing right', async () => {
    const object = create(api(), 'forbidden');
    const writer = writerOf(api(), { user: 'nobody' });
    const outcome = await writer.write({ object, status: { observedGeneration: 1, conditions: [] } });
    expect(outcome).toMatchObject({ is: 'refused' });
    expect('error' in outcome && lacksRight(outcome.error)).toBe(true);
  });

  it('is worth another attempt when there is no answer', async () => {
    const object = create(api(), 'unanswered');
    const writer = writerOf(api(), { timeoutMs: 0 });
    const outcome = await writer.write({ object, status: { observedGeneration: 1, conditions: [] } });
    expect(outcome).toMatchObject({ is: 'failed', error: { reason: 'Timeout' } });
  });

  it('is an event that kubectl describe shows', async () => {
    const object = create(api(), 'reported');
    const { events, reported } = recorder(api());
    events.record({ object, type: 'Warning', reason: 'Invalid', note: 'spec.domain: missing' });
    await eventually(() => expect(eventsOf(api(), 'reported')).toHaveLength(1));
    expect(eventsOf(api(), 'reported')[0]).toMatchObject({
      type: 'Warning',
      reason: 'Invalid',
      note: 'spec.domain: missing',
      action: 'Reconcile',
      reportingController: 'weir.dev/control-plane',
      reportingInstance: 'plane-a',
      regarding: {
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitConfig',
        namespace: 'default',
        name: 'reported',
        uid: object.uid,
      },
    });
    expect(api().mustKubectl(['describe', 'rlc', 'reported'])).toMatch(
      /Warning +Invalid .*spec\.domain: missing/,
    );
    expect(reported).toEqual([]);
  });

  it('is one event with a count when it comes again', async () => {
    const object = create(api(), 'counted');
    const { events, reported } = recorder(api());
    const event: RecordedEvent = { object, type: 'Normal', reason: 'Valid', note: 'accepted' };
    events.record(event);
    await eventually(() => expect(eventsOf(api(), 'counted')).toHaveLength(1));
    for (let index = 0; index < 3; index++) events.record(event);
    await eventually(() => expect(eventsOf(api(), 'counted')[0]?.['series']).toMatchObject({ count: 4 }));
    expect(eventsOf(api(), 'counted')).toHaveLength(1);
    expect(reported).toEqual([]);
  });

  it('is cut if an event is too long for the API', async () => {
    const object = create(api(), 'long');
    const { events, reported } = recorder(api());
    events.record({ object, type: 'Normal', reason: 'Valid', note: 'ü'.repeat(2_000) });
    await eventually(() => expect(eventsOf(api(), 'long')).toHaveLength(1));
    const note = String(eventsOf(api(), 'long')[0]?.['note']);
    expect(note).toBe(`${'ü'.repeat(510)}...`);
    expect(reported).toEqual([]);
  });

  it('never delays a caller that records events, and counts what was dropped', async () => {
    const object = create(api(), 'storm');
    const { events, reported, counted } = recorder(api());
    for (let index = 0; index < 100; index++) {
      events.record({ object, type: 'Normal', reason: 'Valid', note: `number ${index}` });
    }
    expect(await counted('events_dropped_total')).toBe(75);
    expect(reported).toEqual([]);
  });

  it('is lost with a message when the API server rejects it', async () => {
    const object = { ...create(api(), 'nowhere'), namespace: 'missing' };
    const { events, reported } = recorder(api());
    events.record({ object, type: 'Normal', reason: 'Valid', note: 'accepted' });
    await eventually(() =>
      expect(reported[0]).toMatch(/^Could not record an event: .*namespaces "missing" not found/),
    );
  });
});
