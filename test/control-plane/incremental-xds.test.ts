/** The control plane's server and a limiter's source, with nothing between them but the wire. */
import { create, toBinary } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { ConfigObject } from '../../control-plane/model/config-object.ts';
import { unrestrictedOwners } from '../../control-plane/model/domain-owners.ts';
import { fleetSnapshot, hashOf } from '../../control-plane/model/fleet-snapshot.ts';
import { Incremental } from '../../control-plane/xds/discovery-form.ts';
import { FleetResponse } from '../../control-plane/xds/fleet-response.ts';
import { DeltaDiscoveryRequestSchema } from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { loadResources } from '../../limiter/config-source/xds/load-resources.ts';
import {
  claimableResources,
  decodeDelta,
  noResources,
  partsToLoad,
  type ResourceSet,
  resourcesInForce,
  versionsOf,
  withChanges,
} from '../../limiter/config-source/xds/resource-set.ts';
import type { RuleSource } from '../../rules/model.ts';
import { encodeResource, rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import type { RuleSupport } from '../../rules/validate-limits.ts';
import { configObject, configSpec } from '../support/config-object-builder.ts';
import { eventually } from '../support/eventually.ts';
import { caseCount } from '../support/property-cases.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import { WatchedXdsSource } from '../support/watched-xds-source.ts';
import { WholeDecider } from '../support/whole-decider.ts';
import { fleetsOf, startXdsServer } from '../support/xds-server.ts';

const weir = { id: 'node-1', metadata: { pod: 'pod-1', instance: 'pod-1-1' }, version: '1.2.3' };

function rules(domain: string, requestsPerUnit: number): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], `team/${domain}`);
}

function snapshot(...sources: RuleSource[]) {
  const resources = sources.map((one) => {
    const bytes = encodeResource(one);
    return { name: one.name, domain: one.domain, bytes, hash: hashOf(bytes), needs: [] };
  });
  return fleetSnapshot('default', resources);
}

const first = snapshot(rules('a', 1), rules('b', 1));
const second = snapshot(rules('a', 1), rules('b', 2), rules('c', 1));
/** Which the control plane would not serve: it stands for a limiter that knows less than its control plane. */
const half = snapshot(rules('a', 5), { ...rules('a', 9), name: 'team/z' }, rules('c', 7));

describe.each([true, false])('control plane and limiter, incremental: %s', (incremental) => {
  it('go together through changes, and through a control plane that restarts', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(first));
    const watched = await WatchedXdsSource.start({ port, incremental, node: weir });
    await eventually(() => expect(watched.rules).toEqual(['a.k 1', 'b.k 1']));
    server.serve(fleetsOf(second));
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    expect(watched.rules).toEqual(['a.k 1', 'b.k 2', 'c.k 1']);
    await server.shutdown();
    const again = await startXdsServer({ replicaName: 'replica-1' }, port);
    again.server.serve(fleetsOf(second));
    // It says so before it was sent anything.
    await eventually(() => expect(again.server.limiters()[0]?.acceptedVersion).toBe(second.version));
    await eventually(() => expect(watched.reported).toContain('found'));
    expect(watched.reported.filter((one) => one.startsWith('loaded'))).toHaveLength(2);
    again.server.serve(fleetsOf(first));
    await eventually(() => expect(watched.rules).toEqual(['a.k 1', 'b.k 1']));
  });
});

describe('a rejection', () => {
  it('is of the resources that are bad, by incremental xDS, and the others are in force', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(second));
    const watched = await WatchedXdsSource.start({ port, incremental: true, node: weir });
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    server.serve(fleetsOf(half));
    const message = "duplicate domain 'a' in config file";
    await eventually(() =>
      expect(server.limiters()[0]).toMatchObject({
        acceptedVersion: second.version,
        refusal: { version: half.version, resources: [{ name: 'team/z', message }] },
      }),
    );
    expect(watched.rules).toEqual(['a.k 5', 'c.k 7']);
    // Another response, and still rejected.
    server.serve(fleetsOf(snapshot(rules('a', 6), { ...rules('a', 9), name: 'team/z' })));
    await eventually(() => expect(watched.rules).toEqual(['a.k 6']));
    server.serve(fleetsOf(snapshot({ ...rules('a', 9), name: 'team/z' })));
    await eventually(() => expect(watched.rules).toEqual(['a.k 9']));
    await eventually(() => expect(server.limiters()[0]?.refusal).toBeUndefined());
  });

  it('is of the whole push, by state of the world', async () => {
    const { server, port } = await startXdsServer();
    server.serve(fleetsOf(second));
    const watched = await WatchedXdsSource.start({ port, node: weir });
    await eventually(() => expect(server.limiters()[0]?.acceptedVersion).toBe(second.version));
    server.serve(fleetsOf(half));
    await eventually(() => expect(server.limiters()[0]?.refusal?.version).toBe(half.version));
    expect(server.limiters()[0]?.refusal?.resources).toBeUndefined();
    expect(watched.rules).toEqual(['a.k 1', 'b.k 2', 'c.k 1']);
  });
});

/** What a limiter and the server of its stream know of each other; a lost stream may take a response with it. */
class Pair {
  inForce: ResourceSet | undefined;
  refused: string[] = [];
  claimed = '';
  #form = new Incremental();
  #reported: ResourceSet = noResources;
  #hash: string | undefined;

  connect(): void {
    this.#form = new Incremental();
    this.#reported = claimableResources(this.inForce);
    const first = {
      typeUrl: rateLimitConfigTypeUrl,
      initialResourceVersions: versionsOf(this.#reported),
    };
    this.#form.read(toBinary(DeltaDiscoveryRequestSchema, create(DeltaDiscoveryRequestSchema, first)));
    this.#form.subscribe(true);
    this.claimed = this.#form.claimedVersion;
  }

  /** `isLost`: the stream ends before it arrives. */
  deliver(response: FleetResponse, isLost = false, support?: RuleSupport): void {
    const delta = decodeDelta(this.#form.bytesOf(response));
    this.#form.sent(response);
    if (isLost) {
      this.connect();
      return;
    }
    this.#reported = withChanges(this.#reported, delta);
    const { bytes, ...parts } = partsToLoad(this.#reported, this.inForce, {
      typeUrl: delta.typeUrl,
      share: 1,
    });
    const { outcome } = loadResources({
      bytes,
      parts,
      mergeDomains: false,
      support,
      hashInForce: this.#hash,
    });
    if (!outcome.ok) return;
    this.#hash = outcome.hash;
    this.refused = (outcome.rejected?.resources ?? []).map(({ name }) => name).sort();
    this.inForce = resourcesInForce(this.#reported, this.inForce, outcome.rejected?.resources ?? []);
  }
}

describe('a limiter that cannot count sliding windows', () => {
  const support: RuleSupport = { admission: 'no', groups: undefined, calendarMonths: false };
  const spec = (key: string, algorithm?: 'SlidingWindow') =>
    configSpec({ keys: [key], ...(algorithm && { algorithm }) });
  const alone = configObject({ name: 'a', createdMs: 1, spec: spec('k') });
  const joining = configObject({ name: 'b', createdMs: 2, spec: spec('l', 'SlidingWindow') });
  const other = configObject({ name: 'z', spec: configSpec({ domain: 'mail' }) });

  it('retains the rules of an object whose domain another object joins or leaves with a sliding window', () => {
    const pair = new Pair();
    const decider = new WholeDecider({ mergeDomains: true, domainOwners: unrestrictedOwners });
    const serve = (...objects: ConfigObject[]): void => {
      const { fleets } = decider.decideAll([...objects, other], new Map());
      pair.deliver(new FleetResponse(fleets.get('default')!, 'replica-0'), false, support);
    };
    const domains = () => [...pair.inForce!.values()].map(({ domain }) => domain).sort();
    pair.connect();
    serve(alone);
    expect([pair.refused, domains()]).toEqual([[], ['mail', 'shop']]);
    serve(alone, joining);
    expect([pair.refused, domains()]).toEqual([['shop'], ['mail', 'shop']]);
    serve(alone, { ...joining, generation: 2, spec: spec('l') });
    expect([pair.refused, domains()]).toEqual([[], ['mail', 'shop']]);
    serve({ ...joining, generation: 3, spec: spec('l', 'SlidingWindow') });
    expect([pair.refused, domains()]).toEqual([['shop'], ['mail', 'shop']]);
  });
});

describe('whatever changes, is rejected or gets lost', () => {
  it('a limiter has what is served except for what it rejects, and says so when it connects again', () => {
    const requests = fc.integer({ min: 0, max: 3 });
    const served = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), requests);
    const step = fc.record({ served, isLost: fc.boolean(), reconnects: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 10 }), (steps) => {
        const pair = new Pair();
        pair.connect();
        for (const { served: wanted, isLost, reconnects } of steps) {
          const names = Object.keys(wanted);
          // 0 stands for rules that the limiter does not know, and one is always good.
          const sources = names.map((name) =>
            wanted[name] === 0 ? { ...rules(name, 1), domain: '' } : rules(name, wanted[name]!),
          );
          const now = snapshot(rules('z', 1), ...sources);
          const response = new FleetResponse(now, 'replica-0');
          if (reconnects) pair.connect();
          pair.deliver(response, isLost);
          pair.deliver(response, false);
          const bad = names.filter((name) => wanted[name] === 0).map((name) => `team/${name}`);
          expect(pair.refused).toEqual(bad.sort());
          for (const { name, hash } of now.resources) {
            if (!bad.includes(name)) expect(pair.inForce?.get(name)?.version).toBe(hash);
          }
          for (const name of pair.inForce?.keys() ?? []) expect(response.versions.has(name)).toBe(true);
          pair.connect();
          if (bad.length === 0) expect(pair.claimed).toBe(now.version);
          else expect(pair.claimed).not.toBe(now.version);
          pair.deliver(response, false);
        }
      }),
      { numRuns: caseCount(100) },
    );
  });
});
