/** The entries of `/snapshot`, as its JSON has them. */
import { type ConfigStatus, findCondition } from '../model/config-object.ts';
import { acceptedRow, type ObjectOutcome, type ServedConfig } from '../model/decision.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';

export interface ResourceRow {
  name: string;
  domain: string;
  rules: number;
  hash: string;
  bytes: number;
}

export interface LimiterRow {
  name: string;
  replica: string;
  isWeir: boolean;
  /** Up to which version it obeys rules; null: its replica does not say it. */
  rulesVersion: number | null;
  connectedSince: string;
  /** Null while it has accepted nothing. */
  acceptedVersion: string | null;
  /** True if the accepted version is the one that is served. */
  isCurrent: boolean;
  refusal: { version: string; message: string } | null;
}

export interface ObjectRow {
  name: string;
  generation: number;
  accepted: { status: boolean; reason: string; message: string };
  served:
    | (Pick<ServedConfig, 'generation' | 'domain' | 'resource' | 'rules' | 'hash' | 'rulesVersion'> & {
        /** The generation that limiters with fewer capabilities get. Null: none, or the same. */
        generationForOld: number | null;
      })
    | null;
  /** Null before its status was made for the first time. */
  programmed: { status: string; reason: string; message: string } | null;
}

/** `current` is the version that is served. */
export function limiterRow(replica: string, limiter: LimiterReport, current: string | undefined): LimiterRow {
  const { name, isWeir, rulesVersion = null, connectedMs, acceptedVersion, refusal } = limiter;
  return {
    name,
    replica,
    isWeir,
    rulesVersion,
    connectedSince: new Date(connectedMs).toISOString(),
    acceptedVersion: acceptedVersion ?? null,
    isCurrent: acceptedVersion !== undefined && acceptedVersion === current,
    refusal: refusal ?? null,
  };
}

export function objectRow(name: string, outcome: ObjectOutcome, status: ConfigStatus | undefined): ObjectRow {
  const { object, accepted } = outcome;
  return {
    name,
    generation: object.generation,
    accepted: acceptedRow(accepted),
    served: servedPart(outcome.served),
    programmed: programmedPart(status),
  };
}

function servedPart(served: ServedConfig | undefined): ObjectRow['served'] {
  if (served === undefined) return null;
  const { generation, domain, resource, rules, hash, rulesVersion, forOld } = served;
  const generationForOld = forOld?.generation ?? null;
  return { generation, domain, resource, rules, hash, rulesVersion, generationForOld };
}

function programmedPart(status: ConfigStatus | undefined): ObjectRow['programmed'] {
  const condition = findCondition(status, 'Programmed');
  if (condition === undefined) return null;
  const { status: value, reason, message } = condition;
  return { status: value, reason, message };
}
