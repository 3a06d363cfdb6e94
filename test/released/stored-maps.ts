/** What replicas of the control plane store in ConfigMaps: made by this version, or read from what an earlier one made. */

import { AcceptedSpecStore } from '../../control-plane/replicas/accepted-spec-store.ts';
import { DomainRecordStore } from '../../control-plane/replicas/domain-records.ts';
import {
  type ConfigMap,
  gzipCodec,
  jsonOfParts,
  splitJson,
} from '../../control-plane/replicas/own-objects.ts';
import { RemovedObjectStore } from '../../control-plane/replicas/removed-object-store.ts';
import { reportFormat } from '../../control-plane/replicas/replica-reports.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { knownCapabilities } from '../../rules/language/capabilities.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { eventually } from '../support/eventually.ts';
import { ScriptedApi } from '../support/scripted-api.ts';

type StoredMap = Omit<ConfigMap, 'name'> & { metadata: { name: string } };
type Stores = 'storedSpecs' | 'domains' | 'removed' | 'report';
export type StoredMaps = Record<Stores, StoredMap[]>;

const namespace = 'weir-system';
const path = `/api/v1/namespaces/${namespace}/configmaps`;

const spec = {
  domain: 'shop',
  descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: 5 } }],
};

/** What each of them holds. */
export const storedValues = {
  storedSpecs: new Map([
    ['u1', { namespace: 'team', name: 'limits', generation: 3, spec }],
    [
      'u2',
      {
        namespace: 'team',
        name: 'more',
        generation: 5,
        spec,
        fallback: { generation: 4, spec: { domain: 'old' } },
      },
    ],
  ]),
  domains: new Map([['default/shop', { namespaces: ['team'] }]]),
  removed: [
    {
      namespace: 'team',
      name: 'limits',
      uid: 'u1',
      generation: 3,
      served: { fleet: 'default', domain: 'shop', resource: 'team/limits' },
      removedMs: 1_700_000_000_000,
    },
  ],
  report: {
    replica: 'control-plane-0',
    limiters: [
      {
        id: 'control-plane-0/1',
        instance: 'f3a1',
        name: 'limiter-0',
        fleet: 'default',
        podUid: 'p1',
        address: '10.0.0.7',
        isWeir: true,
        countsCompatibly: true,
        ruleSupport: {
          admission: undefined,
          groups: undefined,
          reservations: 'REDIS_SCRIPTS=never keeps none',
          calendarMonths: true,
        },
        capabilities: knownCapabilities(['algorithms', 'overrides']),
        connectedMs: 1_700_000_000_000,
        acceptedVersion: 'v1',
        sentVersion: 'v2',
        refusal: {
          version: 'v2',
          message: 'shop: bad unit',
          resources: [{ name: 'default/shop', message: 'shop: bad unit' }],
        },
      },
    ],
  },
};

/** Runs each store on an API that lists these ConfigMaps; `wanted` is what it shall store. */
async function withStores<Result>(
  listed: readonly StoredMap[],
  use: (stores: {
    api: ScriptedApi;
    kept: AcceptedSpecStore;
    domains: DomainRecordStore;
    removed: RemovedObjectStore;
    /** Of deleted objects, as they were read last. */
    removedRead: () => unknown;
  }) => Promise<Result>,
  removedWanted?: typeof storedValues.removed,
): Promise<Result> {
  const { api, client } = await ScriptedApi.start();
  const items = listed.map((map, n) => ({
    ...map,
    metadata: { ...map.metadata, namespace, uid: `map-${n}`, resourceVersion: '1' },
  }));
  api.lists.set(path, items as never);
  let read: unknown;
  const options = {
    client,
    namespace,
    clock: systemClock,
    timers: systemTimers,
    random: Math.random,
    codec: gzipCodec,
    ...recordedTelemetry(),
    mayWrite: () => removedWanted !== undefined,
  };
  const kept = new AcceptedSpecStore({ ...options, leads: () => true, changed: () => {} });
  const domains = new DomainRecordStore({
    ...options,
    mayWrite: () => true,
    releaseMs: 60_000,
    changed: () => {},
  });
  const removed = new RemovedObjectStore({
    ...options,
    changed: (stored) => {
      read = stored;
      if (removedWanted !== undefined) removed.sync(removedWanted);
    },
  });
  try {
    return await use({ api, kept, domains, removed, removedRead: () => read });
  } finally {
    await Promise.all([kept.close(), domains.close(), removed.close()]);
  }
}

function written(api: ScriptedApi): StoredMap[] {
  return api.writes.map(({ body }) => {
    const { metadata, data, binaryData } = body as unknown as StoredMap;
    return { metadata: { name: metadata.name }, data, binaryData };
  });
}

export async function writeStoredMaps(): Promise<StoredMaps> {
  const storedSpecs = await withStores([], async ({ api, kept }) => {
    await kept.load();
    kept.sync(storedValues.storedSpecs);
    await api.written(2);
    return written(api);
  });
  const domains = await withStores([], async ({ api, domains: store }) => {
    store.start();
    await eventually(() => {
      if (store.records === undefined) throw new Error('nothing was read');
    });
    store.decided({
      holders: new Map([...storedValues.domains].map(([key, { namespaces }]) => [key, namespaces])),
    });
    await api.written(1);
    return written(api);
  });
  const removed = await withStores(
    [],
    async ({ api, removed: store }) => {
      store.start();
      await api.written(1);
      return written(api);
    },
    storedValues.removed,
  );
  const { prefix, file } = reportFormat;
  const progress = { id: 'run.1', decided: { 'ratelimitconfigs *': '7' } };
  const storedReport = { report: storedValues.report, progress };
  const report = await splitJson({
    ...{ name: `${prefix}${storedValues.report.replica}`, file, revision: '1', codec: gzipCodec },
    json: reportFormat.write(storedReport),
  });
  return {
    storedSpecs,
    domains,
    removed,
    report: report.map(({ name, data, binaryData }) => ({ metadata: { name }, data, binaryData })),
  };
}

/** In the form of `storedValues`. */
export async function readStoredMaps(maps: StoredMaps): Promise<unknown> {
  const storedSpecs = await withStores(maps.storedSpecs, ({ kept }) => kept.load());
  const domains = await withStores(maps.domains, async ({ domains: store }) => {
    store.start();
    await eventually(() => {
      if (store.records === undefined) throw new Error('nothing was read');
    });
    return store.records;
  });
  const removed = await withStores(maps.removed, async ({ removed: store, removedRead }) => {
    store.start();
    await eventually(() => {
      if (removedRead() === undefined) throw new Error('nothing was read');
    });
    return removedRead();
  });
  const reports = maps.report.map(({ metadata: { name }, ...map }) => ({ name, ...map }));
  const json = await jsonOfParts(reports, reportFormat.file, gzipCodec);
  const { report } = reportFormat.read(json, storedValues.report.replica);
  return { storedSpecs, domains, removed, report };
}
