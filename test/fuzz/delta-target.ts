import { fromBinary } from '@bufbuild/protobuf';
import { fleetSnapshot } from '../../control-plane/model/fleet-snapshot.ts';
import { Incremental } from '../../control-plane/xds/discovery-form.ts';
import { FleetResponse } from '../../control-plane/xds/fleet-response.ts';
import {
  type DeltaDiscoveryResponse,
  DeltaDiscoveryResponseSchema,
} from '../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { loadResources } from '../../limiter/config-source/xds/load-resources.ts';
import {
  decodeDelta,
  noResources,
  partsToLoad,
  resourcesInForce,
  withChanges,
} from '../../limiter/config-source/xds/resource-set.ts';
import { rateLimitConfigTypeUrl } from '../../rules/reader/resource.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { type FuzzTarget, must, withoutNumbers } from './fuzz-target.ts';

/** Messages one after the other, each behind two bytes of its length; what is left at the end is one as well. */
function messagesOf(input: Uint8Array): Uint8Array[] {
  const messages: Uint8Array[] = [];
  for (let at = 0; at < input.length && messages.length < 16; ) {
    const length = (input[at]! << 8) | (input[at + 1] ?? 0);
    messages.push(input.subarray(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return messages;
}

const resources = ['a', 'b', 'c'].map((name) => ({
  ...{ name, domain: name, hash: name, bytes: Buffer.from(name), needs: [] },
}));
const served = [resources, resources.slice(1), resources.slice(0, 1)].map(
  (list) => new FleetResponse(fleetSnapshot('f', list), 'replica-0'),
);

/** What a control plane does with the requests of one stream. */
function serve(requests: readonly Uint8Array[]): string {
  const form = new Incremental();
  const outcomes = new Set<string>();
  for (const [index, bytes] of requests.entries()) {
    const request = form.read(bytes);
    if (request === undefined) {
      outcomes.add('unreadable');
      continue;
    }
    const { rejection: refusal, typeUrl } = request;
    // As the stream does: it passes over what asks for another type, before the form is asked.
    if (typeUrl !== rateLimitConfigTypeUrl) {
      outcomes.add('other type');
      continue;
    }
    const asks = form.subscribe(index === 0);
    if (typeof asks === 'object') {
      outcomes.add(withoutNumbers(asks.problem));
      continue;
    }
    outcomes.add(`${asks} ${refusal && (refusal.resources === undefined ? 'all' : 'some')}`);
    const response = served[index % served.length]!;
    const { resources: sent } = fromBinary(DeltaDiscoveryResponseSchema, form.bytesOf(response));
    form.sent(response);
    must(sent.length <= resources.length, `${sent.length} resources are sent`);
    const again = fromBinary(DeltaDiscoveryResponseSchema, form.bytesOf(response));
    must(again.resources.length === 0, 'what was sent is sent again');
  }
  return [...outcomes].sort().join();
}

function decoded(bytes: Uint8Array): DeltaDiscoveryResponse | undefined {
  try {
    return decodeDelta(bytes);
  } catch {
    return undefined;
  }
}

/** What a limiter does with the responses of one stream. By changes and by all of it at once, the same is in force. */
function follow(responses: readonly Uint8Array[]): string {
  let [reported, inForce] = [noResources, noResources];
  let table: RuleTable | undefined;
  const outcomes = new Set<string>();
  for (const bytes of responses) {
    const response = decoded(bytes);
    if (response === undefined) {
      outcomes.add('unreadable');
      continue;
    }
    reported = withChanges(reported, response);
    const load = (share: number) => {
      const { bytes: all, ...parts } = partsToLoad(reported, table && inForce, {
        ...{ typeUrl: rateLimitConfigTypeUrl, share },
      });
      return loadResources({ bytes: all, parts, mergeDomains: false, hashInForce: undefined }).outcome;
    };
    const [change, whole] = [load(1), load(0)];
    must(change.ok === whole.ok, `a change is ${change.ok ? 'good' : 'bad'}, all of it is not`);
    if (!change.ok || !whole.ok) {
      outcomes.add('refused');
      continue;
    }
    inForce = resourcesInForce(reported, table && inForce, change.rejected?.resources ?? []);
    if (change.rules !== undefined) table = RuleTable.with(table, change.rules);
    if (table !== undefined && whole.rules !== undefined) {
      const { contentHash } = new RuleTable(whole.rules.bytes);
      must(table.contentHash === contentHash, 'what is in force depends on how it came');
    }
    const { size } = inForce;
    outcomes.add(`${Math.min(size, 3)} in force${change.rejected === undefined ? '' : ', some refused'}`);
  }
  return [...outcomes].sort().join();
}

/** Incremental xDS: requests as a control plane reads them, and responses as a limiter does. */
export const deltaTarget: FuzzTarget = {
  name: 'delta-xds',
  run(input) {
    const messages = messagesOf(input.subarray(1));
    return ((input[0] ?? 0) & 1) === 0 ? `server: ${serve(messages)}` : `limiter: ${follow(messages)}`;
  },
};
