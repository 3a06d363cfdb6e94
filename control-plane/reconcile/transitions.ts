import { type Condition, type ConfigStatus, findCondition } from '../model/config-status.ts';

/** A condition that is news to whoever follows the object. */
export type Transition = Pick<
  Condition,
  'type' | 'status' | 'reason' | 'message' | 'lastTransitionTime' | 'observedGeneration'
>;

/**
 * The conditions of `next` that have another status or reason than before, or speak of a newer generation. `Ready` is
 * never among them: it says what the others said.
 */
export function transitions(previous: ConfigStatus | undefined, next: ConfigStatus): Transition[] {
  return next.conditions.filter((condition) => {
    if (condition.type === 'Ready') return false;
    const before = findCondition(previous, condition.type);
    return (
      before?.status !== condition.status ||
      before.reason !== condition.reason ||
      before.observedGeneration !== condition.observedGeneration
    );
  });
}
