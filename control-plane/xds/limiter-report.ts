/** The facts that limiters report about themselves: in the `node` of the first request, and with each rejection. All of them are bounded. */
import type { Node } from '../../gen/envoy/config/core/v3/base_pb.ts';
import { plainText, shortened } from '../../process/log/error-text.ts';
import { type Capabilities, knownCapabilities, noCapabilities } from '../../rules/language/capabilities.ts';
import { defaultFleet, dnsLabelLength, dnsLabelPattern } from '../../rules/language/kinds.ts';
import {
  type LimiterReport,
  type RejectedResource,
  ruleSupportSchema,
  type SnapshotNack,
  versionOfNothing,
} from '../model/fleet-snapshot.ts';
import { addressOf } from './caller-identity.ts';
import type { RequestRejection } from './discovery-form.ts';

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

/** Chosen: versions are hashes, so a longer one is from another control plane. It is written into ConfigMaps. */
const longestVersion = 128;

/** Returns the report of a limiter that has just requested rules. `claimedVersion`: see `DiscoveryForm`. */
export function firstReport(
  identity: NodeIdentity,
  stream: Pick<LimiterReport, 'id' | 'podUid' | 'connectedMs'> & { peer: string; claimedVersion: string },
): LimiterReport {
  const { id, peer, podUid, claimedVersion, connectedMs } = stream;
  return {
    id,
    ...identity,
    podUid,
    address: ipAddressOf(peer),
    connectedMs,
    // Other clients repeat the version that they received last, even if they rejected it.
    acceptedVersion: identity.isWeir ? claimOfRules(claimedVersion) : undefined,
    refusal: undefined,
  };
}

/**
 * Returns an address in the form that Kubernetes uses: IPv6 without brackets, and IPv4 in its own form if it arrived over a dual-stack
 * socket.
 */
function ipAddressOf(peer: string): string {
  return addressOf(peer)
    .replace(/^\[|\]$/g, '')
    .replace(/^::ffff:(?=\d+\.)/, '');
}

/** Returns the version that a limiter claims when it connects. A claim that it has no rules is not an answer. */
function claimOfRules(version: string): string | undefined {
  return version === '' || version === versionOfNothing || version.length > longestVersion
    ? undefined
    : version;
}

/** Chosen: the message of a rejection is written into ConfigMaps, and into conditions, which people read. */
const longestMessage = 1024;
/** Chosen: the bound for each resource that a limiter rejects, of which there may be 100. */
const longestResourceMessage = 256;

export function boundedRejection(version: string, { message, resources }: RequestRejection): SnapshotNack {
  const bounded = resources?.map(
    ({ name, message: why }): RejectedResource => ({
      name,
      message: rejectionText(why, longestResourceMessage),
    }),
  );
  return { version, message: rejectionText(message, longestMessage), resources: bounded };
}

function rejectionText(message: string, longest: number): string {
  return message === '' ? 'rejected without a message' : plainText(message, longest);
}
