import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { anyPack } from '@bufbuild/protobuf/wkt';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  DeltaDiscoveryRequestSchema,
  DeltaDiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { RefusedResourcesSchema } from '../../gen/weir/xds/v1/refused_resources_pb.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { fleetSnapshot, hashOf } from '../model/fleet-snapshot.ts';
import { Incremental, RejectedLists } from './discovery-form.ts';
import { FleetResponse } from './fleet-response.ts';

type Fields = Omit<MessageInitShape<typeof DeltaDiscoveryRequestSchema>, '$typeName'>;
type Versions = Record<string, string>;

/** Resources by name, each of a text. */
function responseOf(texts: Record<string, string>): FleetResponse {
  const resources = Object.entries(texts).map(([name, text]) => {
    const bytes = Buffer.from(text);
    return { name, domain: name, bytes, hash: hashOf(bytes), needs: [] };
  });
  return new FleetResponse(fleetSnapshot('f', resources), 'replica-0');
}

const typeUrl = rateLimitConfigTypeUrl;

/** What a client does with requests and responses. */
class SentResources {
  readonly form = new Incremental();
  readonly world = new Map<string, string>();
  #isFirst = true;

  constructor(has: Versions = {}) {
    for (const [name, version] of Object.entries(has)) this.world.set(name, version);
  }

  ask(fields: Fields = {}): ReturnType<Incremental['subscribe']> {
    this.form.read(
      toBinary(DeltaDiscoveryRequestSchema, create(DeltaDiscoveryRequestSchema, { typeUrl, ...fields })),
    );
    const isAsking = this.form.subscribe(this.#isFirst);
    this.#isFirst = false;
    return isAsking;
  }

  send(response: FleetResponse): { names: string[]; removed: string[] } {
    const bytes = this.form.bytesOf(response);
    this.form.sent(response);
    const { resources, removedResources } = fromBinary(DeltaDiscoveryResponseSchema, bytes);
    for (const { name, version } of resources) this.world.set(name, version);
    for (const name of removedResources) this.world.delete(name);
    return { names: resources.map(({ name }) => name), removed: removedResources };
  }
}

const two = responseOf({ a: 'a1', b: 'b1' });
const changed = responseOf({ a: 'a1', b: 'b2', c: 'c1' });

describe('incremental discovery', () => {
  it('begins with everything, and continues with what is different', () => {
    const reported = new SentResources();
    expect(reported.ask()).toBe(true);
    expect(reported.send(two)).toEqual({ names: ['a', 'b'], removed: [] });
    expect(reported.ask()).toBe(false);
    expect(reported.send(changed)).toEqual({ names: ['b', 'c'], removed: [] });
    expect(reported.send(responseOf({ c: 'c1' }))).toEqual({ names: [], removed: ['a', 'b'] });
  });

  it.each([[[]], [['*']]])('has nothing to say to a limiter that has everything and wants %j', (names) => {
    const reported = new SentResources();
    reported.ask({
      resourceNamesSubscribe: names,
      initialResourceVersions: Object.fromEntries(two.versions),
    });
    expect(reported.form.claimedVersion).toBe(two.version);
    expect(reported.send(two)).toEqual({ names: [], removed: [] });
  });

  it('sends a limiter that comes again what is different, and what is gone', () => {
    const reported = new SentResources();
    reported.ask({ initialResourceVersions: { b: two.versions.get('b')!, z: 'old' } });
    expect(reported.form.claimedVersion).not.toBe(two.version);
    expect(reported.send(two)).toEqual({ names: ['a'], removed: ['z'] });
  });

  it('sends names that were asked for, and says once which there are not', () => {
    const reported = new SentResources();
    reported.ask({ resourceNamesSubscribe: ['b', 'z'] });
    expect(reported.send(two)).toEqual({ names: ['b'], removed: ['z'] });
    expect(reported.send(two)).toEqual({ names: [], removed: [] });
    expect(reported.ask({ resourceNamesSubscribe: ['a', 'b'], resourceNamesUnsubscribe: ['z'] })).toBe(true);
    expect(reported.send(changed)).toEqual({ names: ['a', 'b'], removed: [] });
  });

  it('sends again what is subscribed to again', () => {
    const reported = new SentResources();
    reported.ask({ resourceNamesSubscribe: ['*'] });
    reported.send(two);
    expect(reported.ask({ resourceNamesSubscribe: ['a'] })).toBe(true);
    expect(reported.send(two)).toEqual({ names: ['a'], removed: [] });
    reported.ask({ resourceNamesUnsubscribe: ['*'] });
    expect(reported.send(responseOf({ a: 'a2', b: 'b2' }))).toEqual({ names: ['a'], removed: [] });
  });

  it('bounds names', () => {
    const names = Array.from({ length: 1_001 }, (_, i) => `n${i}`);
    expect(new SentResources().ask({ resourceNamesSubscribe: names.slice(1) })).toBe(true);
    expect(new SentResources().ask({ resourceNamesSubscribe: names })).toEqual({
      problem: 'subscribes to 1001 names of resources, the bound is 1000: subscribe to * for all of them',
    });
  });

  it('is encoded once for all limiters that were shown the same', () => {
    const forms = [new SentResources(), new SentResources()];
    for (const reported of forms) {
      reported.ask();
      reported.send(two);
    }
    const [first, second] = forms.map(({ form }) => form.bytesOf(changed));
    expect(second).toBe(first);
  });

  it('reads a rejection of some resources, and takes one that it cannot read, or that is long, for all', () => {
    const form = new Incremental();
    const refusal = (details: { typeUrl: string; value: Uint8Array }[]) =>
      form.read(
        toBinary(
          DeltaDiscoveryRequestSchema,
          create(DeltaDiscoveryRequestSchema, { errorDetail: { message: 'no', details } }),
        ),
      )?.rejection?.resources;
    const typeUrl = 'type.googleapis.com/weir.xds.v1.RefusedResources';
    const one = Buffer.from('0a060a01611201' + '78', 'hex');
    const resources = refusal([{ typeUrl, value: one }]);
    expect(resources).toEqual([{ name: 'a', message: 'x' }]);
    expect(refusal([{ typeUrl, value: one }])).toBe(resources);
    expect(refusal([{ typeUrl: 'type.googleapis.com/a.B', value: one }])).toBeUndefined();
    expect(refusal([{ typeUrl, value: Buffer.from('0aff', 'hex') }])).toBeUndefined();
    expect(refusal([{ typeUrl, value: Buffer.concat(Array(1_000).fill(one)) }])).toHaveLength(1_000);
    expect(refusal([{ typeUrl, value: Buffer.concat(Array(1_001).fill(one)) }])).toBeUndefined();
  });

  it('remembers the 64 lists of rejected resources that were used last', () => {
    const lists = new RejectedLists();
    const listOf = (number: number) => {
      const resources = [{ name: `team/${number}`, message: 'no' }];
      const message = create(RefusedResourcesSchema, { resources });
      return lists.of([anyPack(RefusedResourcesSchema, message)]);
    };
    const first = listOf(0);
    for (let number = 1; number < 64; number += 1) listOf(number);
    expect(listOf(0)).toBe(first);
    for (let number = 64; number < 127; number += 1) listOf(number);
    expect(listOf(0)).toBe(first);
    for (let number = 127; number < 191; number += 1) listOf(number);
    expect(listOf(0)).toEqual(first);
    expect(listOf(0)).not.toBe(first);
  });
});

const name = fc.constantFrom<string>('a', 'b', 'c', 'd');
const texts = fc.dictionary(name, fc.constantFrom('1', '2', '3'));

describe('whatever happens', () => {
  it('a limiter has what the last response says, of all that it wants', () => {
    const event = fc.oneof(
      fc.record({ serve: texts }),
      fc.record({
        more: fc.array(fc.oneof(name, fc.constant('*')), { maxLength: 3 }),
        less: fc.array(fc.oneof(name, fc.constant('*')), { maxLength: 2 }),
      }),
    );
    const first = fc.record({
      has: fc.dictionary(name, fc.constantFrom('1', '2')),
      wants: fc.array(name, { maxLength: 2 }),
    });
    fc.assert(
      fc.property(first, fc.array(event, { maxLength: 12 }), ({ has, wants }, events) => {
        const versions = Object.fromEntries(responseOf(has).versions);
        const reported = new SentResources(wants.length === 0 ? versions : {});
        reported.ask({
          resourceNamesSubscribe: wants,
          initialResourceVersions: wants.length === 0 ? versions : {},
        });
        let wantsAll = wants.length === 0;
        const names = new Set<string>(wants);
        let served = responseOf({});
        for (const one of events) {
          if ('serve' in one) served = responseOf(one.serve);
          else {
            reported.ask({ resourceNamesSubscribe: one.more, resourceNamesUnsubscribe: one.less });
            if (one.more.includes('*')) wantsAll = true;
            if (one.less.includes('*')) wantsAll = false;
            for (const gone of one.less) names.delete(gone);
            for (const more of one.more) if (more !== '*') names.add(more);
            // What a client wants no longer it drops.
            for (const key of reported.world.keys())
              if (!wantsAll && !names.has(key)) reported.world.delete(key);
          }
          reported.send(served);
          for (const [key, version] of served.versions) {
            if (wantsAll || names.has(key)) expect(reported.world.get(key)).toBe(version);
          }
          for (const key of reported.world.keys()) {
            if (wantsAll || names.has(key)) expect(served.versions.has(key)).toBe(true);
          }
        }
      }),
      { numRuns: caseCount(300) },
    );
  });
});
