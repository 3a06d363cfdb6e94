import { isDeepStrictEqual } from 'node:util';
import {
  type Condition,
  type ConfigStatus,
  findCondition,
  type LimiterCounts,
} from '../model/config-status.ts';
import { type ConditionFacts, type Finding, findings } from './conditions.ts';
import type { Standing } from './fleet-standing.ts';

export interface StatusFacts extends ConditionFacts {
  /** What was written last: times of transitions, and what the object was once accepted for, are taken from it. */
  previous: ConfigStatus | undefined;
  nowMs: number;
}

/** Follows from its arguments; the same facts a second later give the same status. */
export function statusOf(facts: StatusFacts): ConfigStatus {
  const { verdict, standing, previous, nowMs } = facts;
  const { object, served } = verdict;
  const { domain, fleet } = served ?? previous ?? {};
  return {
    observedGeneration: object.generation,
    ...(domain === undefined ? {} : { domain }),
    ...(fleet === undefined ? {} : { fleet }),
    ...(served && { rules: served.rules, servedVersion: served.hash, servedGeneration: served.generation }),
    ...(served && standing && { limiters: limiterCounts(standing) }),
    conditions: findings(facts).map((finding) => condition(finding, facts, timeText(nowMs))),
  };
}

/** Whether there is nothing to write. The order of conditions, and those of others, do not count. */
export function sameStatus(a: ConfigStatus | undefined, b: ConfigStatus | undefined): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  const { conditions: ofA, ...restOfA } = a;
  const { conditions: ofB, ...restOfB } = b;
  return isDeepStrictEqual(restOfA, restOfB) && isDeepStrictEqual(ourConditions(ofA), ourConditions(ofB));
}

const ourTypes = ['Accepted', 'Programmed', 'Ready', 'Supported'] as const;

function ourConditions(conditions: readonly Condition[]): (Condition | undefined)[] {
  return ourTypes.map((type) => conditions.find((candidate) => candidate.type === type));
}

function condition(finding: Finding, { verdict, previous }: StatusFacts, now: string): Condition {
  const before = findCondition(previous, finding.type);
  return {
    ...finding,
    lastTransitionTime: before?.status === finding.status ? before.lastTransitionTime : now,
    observedGeneration: verdict.object.generation,
  };
}

function limiterCounts({ inForce, refused, total }: Standing): LimiterCounts {
  return { inForce, refused: refused.count, total, summary: `${inForce}/${total}` };
}

/** RFC 3339 in whole seconds, as metav1.Time. */
function timeText(nowMs: number): string {
  return `${new Date(nowMs).toISOString().slice(0, 19)}Z`;
}
