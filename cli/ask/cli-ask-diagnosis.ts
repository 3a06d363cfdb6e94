import type { AskEndpoint } from './ask-address.ts';
import { type Trouble, troubleOf } from './ask-diagnosis.ts';
import { type ProbeOutcome, probe } from './ask-probe.ts';
import type { AskTls } from './ask-tls.ts';

/** Looks for what keeps a limiter from being asked, by a connection or two. Undefined when nothing shows. */
export async function diagnose(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<Trouble | undefined> {
  const outcome = await probe(endpoint, tls, timeoutMs);
  const anyTls = { ca: undefined, cert: undefined, key: undefined };
  const otherWay = isUnclear(outcome)
    ? await probe(endpoint, tls === undefined ? anyTls : undefined, timeoutMs)
    : undefined;
  return troubleOf({ endpoint, tls, outcome, otherWay, now: new Date() });
}

/** It may be TLS on one side alone. */
function isUnclear(outcome: ProbeOutcome): boolean {
  if (outcome.kind === 'closed') return !outcome.isSecure;
  return outcome.kind === 'foreign' || outcome.kind === 'tls' || outcome.kind === 'silent';
}
