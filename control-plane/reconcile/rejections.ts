/** The reasons why objects are not accepted, in words for their owners. */
import { type ConfigObject, objectKey, UnreadSpec } from '../model/config-object.ts';
import type { Acceptance, ClusterDecision } from '../model/decision.ts';
import { type DomainOwners, type FleetAccesses, isOwner } from '../model/domain-owners.ts';
import { type RejectionReason, reasonRow } from '../model/reasons.ts';
import { shortened } from './conditions.ts';

/** The reason why the newest spec is not accepted, in words for its owner. */
export interface Rejection {
  reason: RejectionReason;
  /** The reason, without the spec that stays in force. */
  problem: string;
}

/** Chosen: a long key leaves room for the other errors. */
export const longestError = 2_000;
/** Chosen: below the maximum of 32,768 characters in a condition, because the message also names the spec that stays in force. */
export const longestProblem = 32_000;

/** A request of an object, and whether its status says that it is granted. */
interface Wish {
  namespace: string;
  fleet: string;
  domain: string;
  isServed: boolean;
}

/** Returns the reason why a namespace may not have a domain of a fleet, regardless of its current owner. Undefined if it may. Pure. */
export function accessRejection(
  { namespace, fleet, domain, isServed }: Wish,
  domainOwners: DomainOwners,
  fleets: FleetAccesses,
): Rejection | undefined {
  const found = fleets.get(fleet);
  const unknown = found !== undefined && 'unknown' in found ? found.unknown : undefined;
  if (unknown !== undefined && !isServed)
    return fleetNotAllowed(`it is unknown which namespaces may use fleet '${name(fleet)}': ${unknown}`);
  const access = found !== undefined && 'admits' in found ? found : undefined;
  if (access?.admits(namespace) === false)
    return fleetNotAllowed(`fleet '${name(fleet)}' is not for namespace '${namespace}': ${access.admitted}`);
  const ofAll = domainOwners.ownersOf(domain);
  const ofFleet = access?.domains.ownersOf(domain);
  const isNamedByFleetAlone = ofFleet !== undefined && ofAll?.length === 0;
  if (!isNamedByFleetAlone && !isOwner(namespace, ofAll))
    return domainNotAllowed(`domain '${name(domain)}'`, ofAll!);
  if (!isOwner(namespace, ofFleet))
    return domainNotAllowed(`domain '${name(domain)}' of fleet '${name(fleet)}'`, ofFleet!);
  return undefined;
}

/** Returns whether DOMAIN_OWNERS or the RateLimitFleet has an entry for the domain. The entry then decides who may use it. */
export function isAssigned(
  { fleet, domain }: { fleet: string; domain: string },
  domainOwners: DomainOwners,
  fleets: FleetAccesses,
): boolean {
  const found = fleets.get(fleet);
  const ofFleet = found !== undefined && 'admits' in found ? found.domains.ownersOf(domain) : undefined;
  return (ofFleet ?? domainOwners.ownersOf(domain)) !== undefined;
}

function fleetNotAllowed(problem: string): Rejection {
  return { reason: 'FleetNotAllowed', problem };
}

export function domainNotAllowed(place: string, owners: readonly string[]): Rejection {
  const whom =
    owners.length === 0
      ? 'no namespace: neither DOMAIN_OWNERS nor the RateLimitFleet has an entry for it, and DOMAIN_OWNERSHIP is claimed'
      : `these namespaces only: ${name(owners.join(', '))}`;
  return { reason: 'DomainNotAllowed', problem: `${place} is for ${whom}` };
}

/** The rules in limiters of an object whose newest spec is not accepted. */
export interface InForce {
  generation: number;
  /** The generation is the newest one: its spec was accepted, and is now read differently. */
  isSame?: boolean;
  /** Fields that are left out of its served rules. */
  without?: readonly string[] | undefined;
}

const nothingInForce = 'nothing is in force';

export function inForceText({ generation, isSame, without }: InForce): string {
  if (without !== undefined)
    return `generation ${generation} is in force without ${without.length === 1 ? 'it' : 'them'}`;
  return `generation ${generation}${isSame ? ' as it was last accepted' : ''} stays in force`;
}

export function rejected({ reason, problem }: Rejection, inForce: InForce | undefined): Acceptance {
  const rest = inForce === undefined ? nothingInForce : inForceText(inForce);
  return { status: false, reason, message: `${problem}; ${rest}` };
}

export function name(text: string): string {
  return shortened(text, longestError);
}

/**
 * Returns the reasons why specs of which nothing is served cannot be read, each with its place. Only limiters know which rules are in
 * force elsewhere.
 */
export function unreadSpecs(
  { outcomes }: ClusterDecision,
  placeOf: (object: ConfigObject) => string | undefined,
): string[] {
  return [...outcomes.values()].flatMap(({ object, accepted, served }) => {
    if (accepted.status || !reasonRow(accepted.reason)?.isUnread || served !== undefined) return [];
    const message = accepted.message.replace(new RegExp(`; ${nothingInForce}$`), '');
    if (object.spec instanceof UnreadSpec) return [message];
    return [`${placeOf(object)}: ${objectKey(object)}: ${message}`];
  });
}
