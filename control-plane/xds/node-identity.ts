/** Reads the identity of a limiter from the `node` of its first request. */

import type { Node } from '../../gen/envoy/config/core/v3/base_pb.ts';
import { plainText, shortened } from '../../process/log/error-text.ts';
import { type Capabilities, knownCapabilities, noCapabilities } from '../../rules/language/capabilities.ts';
import { defaultFleet, dnsLabelLength, dnsLabelPattern } from '../../rules/language/kinds.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { ruleSupportSchema } from '../model/rule-support.ts';

export interface NodeIdentity extends Pick<LimiterReport, 'ruleSupport' | 'capabilities'> {
  name: string;
  fleet: string;
  instance: string | undefined;
  isWeir: boolean;
  /** True by default, because a limiter that reports nothing counts as the Go service does. */
  countsCompatibly: boolean;
}

/** The name of Weir's limiters in `node.user_agent_name`. */
const weirUserAgent = 'weir';

/** Chosen: names are for people, and are part of every status. */
const longestName = 253;

const fleetPattern = new RegExp(dnsLabelPattern);

/** Returns the identity. All clients of the Go service may have the same node id, so the address is part of it. */
export function nodeIdentity(node: Node | undefined, peer: string): NodeIdentity | { problem: string } {
  const metadata = node?.metadata ?? {};
  const fleet = metadata['fleet'] ?? '';
  if (typeof fleet !== 'string') return { problem: 'the node metadata "fleet" is not a string' };
  if (fleet.length > dnsLabelLength || (fleet !== '' && !fleetPattern.test(fleet))) {
    return {
      problem:
        `the node metadata "fleet" is not a DNS label of at most ${dnsLabelLength} lower case letters, ` +
        `digits and inner hyphens: ${JSON.stringify(shortened(fleet, longestName))}`,
    };
  }
  const id = named(node?.id ?? '');
  const ruleSupport = ruleSupportSchema.safeParse(metadata['rule_support']).data;
  return {
    name: text(metadata['pod']) ?? (id === '' ? peer : `${id} (${peer})`),
    fleet: fleet === '' ? defaultFleet : fleet,
    instance: text(metadata['instance']),
    isWeir: node?.userAgentName === weirUserAgent,
    countsCompatibly: metadata['counter_keys'] !== 'unambiguous',
    capabilities: capabilitiesIn(metadata['capabilities']),
    ...(ruleSupport && { ruleSupport }),
  };
}

function capabilitiesIn(value: unknown): Capabilities {
  return Array.isArray(value) ? knownCapabilities(value) : noCapabilities;
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? named(value) : undefined;
}

/** Makes a copy, because the value may be part of a long request that is no longer needed. */
function named(value: string): string {
  return Buffer.from(plainText(value, longestName)).toString();
}
