/**
 * A claim: one spec of one object wants its domain in its fleet. What is served already comes first, so that nobody
 * loses rules to a newcomer, not even to one with an older creation time. Where the status, which all replicas read
 * alike, and the memory of one process say the same of two objects, the status counts.
 */
import { byAge, type ConfigObject } from '../model/config-object.ts';
import { type ConfigStatus, findCondition } from '../model/config-status.ts';
import type { ReadRules } from './spec-reader.ts';

export interface Claim {
  object: ConfigObject;
  /** Of the spec that claims: the object's own, or of the spec kept for it. */
  generation: number;
  rules: ReadRules;
  standing: ClaimStanding;
}

/** Lower ones are heard first. */
export const ClaimStanding = {
  /** The status says that this very spec is served. */
  specServed: 0,
  /** This very spec was kept for the object: it is served, although the status may not say so yet. */
  specKept: 1,
  /** The status says that another spec of the object is served for the same domain. */
  domainServed: 2,
  /** Another spec for the same domain was kept for the object. */
  domainKept: 3,
  newcomer: 4,
} as const;
export type ClaimStanding = (typeof ClaimStanding)[keyof typeof ClaimStanding];

interface StandingFacts {
  status: ConfigStatus | undefined;
  claimed: ReadRules;
  /** Of the claimed spec. */
  generation: number;
  kept: { rules: ReadRules; generation: number } | undefined;
}

export function claimStanding({ status, generation, claimed, kept }: StandingFacts): ClaimStanding {
  const served = servedGeneration(status);
  const isServedHere = status !== undefined && served !== undefined && isSamePlace(claimed, status);
  const isKeptHere = kept !== undefined && isSamePlace(claimed, kept.rules);
  if (isServedHere && served === generation) return ClaimStanding.specServed;
  if (isKeptHere && kept.generation === generation) return ClaimStanding.specKept;
  if (isServedHere) return ClaimStanding.domainServed;
  return isKeptHere ? ClaimStanding.domainKept : ClaimStanding.newcomer;
}

/** The order in which claims to one domain are heard. */
export function byStanding(a: Claim, b: Claim): number {
  return a.standing - b.standing || byAge(a.object, b.object);
}

function servedGeneration(status: ConfigStatus | undefined): number | undefined {
  if (status?.servedGeneration !== undefined) return status.servedGeneration;
  return findCondition(status, 'Accepted')?.status === 'True' ? status?.observedGeneration : undefined;
}

function isSamePlace(a: ReadRules, b: { fleet?: string; domain?: string }): boolean {
  return a.fleet === b.fleet && a.domain === b.domain;
}
