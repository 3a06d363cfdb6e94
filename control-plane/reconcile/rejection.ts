/** Why a newest spec is not accepted, in words for its owner. */
import { formatManifestError } from '../../rules/manifest/index.ts';
import { objectKey } from '../model/config-object.ts';
import type { Acceptance, RejectionReason } from '../model/decision.ts';
import { joinedWithin, shortened } from './bounded-text.ts';
import type { Claim } from './claim.ts';
import type { Clash } from './domain-holders.ts';
import { AcceptedReason } from './reasons.ts';
import type { UnreadableSpec } from './spec-reader.ts';

export interface Rejection {
  reason: RejectionReason;
  /** Without what stays in force. */
  problem: string;
}

/** Conditions take 32,768 characters; what stays in force comes after this. */
const longestProblem = 32_000;
/** Ours: one long key leaves room for the other errors. */
const longestError = 2_000;

export function invalid({ errors, errorCount }: UnreadableSpec): Rejection {
  const items = errors.map((error) => shortened(formatManifestError(error), longestError));
  return {
    reason: AcceptedReason.Invalid,
    problem: joinedWithin({ items, count: errorCount }, longestProblem),
  };
}

export function domainNotAllowed(domain: string, owners: readonly string[]): Rejection {
  const names = name(owners.join(', '));
  return {
    reason: AcceptedReason.DomainNotAllowed,
    problem: `domain '${name(domain)}' is for these namespaces only: ${names}`,
  };
}

export function domainConflict({ rules: { domain, fleet } }: Claim, { holder, key }: Clash): Rejection {
  const place = `domain '${name(domain)}' of fleet '${name(fleet)}'`;
  const what = key === undefined ? place : `descriptor '${name(key)}' in ${place}`;
  return {
    reason: AcceptedReason.DomainConflict,
    problem: `${what} is taken by ${objectKey(holder.object)}`,
  };
}

export function rejected({ reason, problem }: Rejection, servedGeneration: number | undefined): Acceptance {
  const rest =
    servedGeneration === undefined ? 'nothing is in force' : `generation ${servedGeneration} stays in force`;
  return { status: false, reason, message: `${problem}; ${rest}` };
}

function name(text: string): string {
  return shortened(text, longestError);
}
