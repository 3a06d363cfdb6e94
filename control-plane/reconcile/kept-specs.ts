import type { ConfigObject } from '../model/config-object.ts';
import type { Decision, KeptSpec } from '../model/decision.ts';

/** By uid: what stays in force should an object's next spec not be accepted. What is neither accepted nor served goes. */
export function nextKept(decision: Decision, kept: ReadonlyMap<string, KeptSpec>): Map<string, KeptSpec> {
  const next = new Map<string, KeptSpec>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const before = kept.get(uid);
    const { generation, spec } = object;
    if (!accepted.status) {
      if (served !== undefined && before !== undefined) next.set(uid, before);
    } else {
      const isKnown = before?.generation === generation && before.spec === spec;
      next.set(uid, isKnown ? before : { generation, spec });
    }
  }
  return next;
}

/** By uid: the kept specs that are served in place of a newer one. These alone must outlive the process. */
export function persistedKept(
  decision: Decision,
  kept: ReadonlyMap<string, KeptSpec>,
): Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>> {
  const persisted = new Map<string, KeptSpec & Pick<ConfigObject, 'namespace' | 'name'>>();
  for (const [uid, { object, accepted, served }] of decision.verdicts) {
    const spec = kept.get(uid);
    if (accepted.status || served === undefined || spec === undefined) continue;
    persisted.set(uid, { ...spec, namespace: object.namespace, name: object.name });
  }
  return persisted;
}
