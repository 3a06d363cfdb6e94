/** The entries of `/snapshot`, as its JSON has them. */
import type { Capabilities } from '../../rules/language/capabilities.ts';
import { type ConfigStatus, findCondition } from '../model/config-object.ts';
import { acceptedRow, type ObjectOutcome, type ServedConfig } from '../model/decision.ts';
import type { FleetSnapshot, LimiterReport } from '../model/fleet-snapshot.ts';
import { servedTo } from '../model/served-rules.ts';

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
  capabilities: Capabilities;
  /** Whether it does not support all rules of the fleet, and gets others. */
  isTooOld: boolean;
  connectedSince: string;
  /** Null while it has accepted nothing. */
  acceptedVersion: string | null;
  /** True if the accepted version is the one that it is served. */
  isCurrent: boolean;
  refusal: { version: string; message: string } | null;
}

export interface ObjectRow {
  name: string;
  generation: number;
  accepted: { status: boolean; reason: string; message: string };
  served:
    | (Pick<ServedConfig, 'generation' | 'domain' | 'resource' | 'rules' | 'hash' | 'needs'> & {
        /** The generation that limiters with fewer capabilities get. Null: none, or the same. */
        fallbackGeneration: number | null;
      })
    | null;
  /** Null before its status was made for the first time. */
  programmed: { status: string; reason: string; message: string } | null;
}

/** `snapshot` is what the fleet is served. */
export function limiterRow(
  replica: string,
  limiter: LimiterReport,
  snapshot: FleetSnapshot | undefined,
): LimiterRow {
  const { name, isWeir, capabilities, connectedMs, acceptedVersion, refusal } = limiter;
  const own = snapshot && servedTo(snapshot, capabilities);
  return {
    name,
    replica,
    isWeir,
    capabilities,
    isTooOld: own !== snapshot,
    connectedSince: new Date(connectedMs).toISOString(),
    acceptedVersion: acceptedVersion ?? null,
    isCurrent: acceptedVersion !== undefined && acceptedVersion === own?.version,
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
  const { generation, domain, resource, rules, hash, needs, fallback } = served;
  const fallbackGeneration = fallback?.generation ?? null;
  return { generation, domain, resource, rules, hash, needs, fallbackGeneration };
}

function programmedPart(status: ConfigStatus | undefined): ObjectRow['programmed'] {
  const condition = findCondition(status, 'Programmed');
  if (condition === undefined) return null;
  const { status: value, reason, message } = condition;
  return { status: value, reason, message };
}
