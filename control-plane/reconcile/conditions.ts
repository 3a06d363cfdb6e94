/** The conditions of one object, in words for its owner. */
import type { Condition, ConditionType } from '../model/config-status.ts';
import type { ServedConfig, Verdict } from '../model/decision.ts';
import { type FirstFew, listed, shortened } from './bounded-text.ts';
import type { Standing } from './fleet-standing.ts';
import { AcceptedReason, ProgrammedReason, ReadyReason, SupportedReason } from './reasons.ts';

/** A condition without what follows from the generation and the status before. */
export type Finding = Pick<Condition, 'status' | 'reason' | 'message'> & { type: ConditionType };

export interface ConditionFacts {
  verdict: Verdict;
  /** Of what is served for the object; undefined: nothing is. */
  standing: Standing | undefined;
  /** Limiters of the object's fleet that are not Weir's. */
  others: FirstFew<string>;
  /** Whether the fleet's snapshot is longer than the usual client of gRPC takes. */
  isOversize: boolean;
}

/** Ours: a limiter's own words are as long as it likes. */
const longestRefusal = 2_000;

/** In the order in which they are read. */
export function findings(facts: ConditionFacts): Finding[] {
  const accepted = acceptedFinding(facts.verdict);
  const programmed = programmedFinding(facts);
  const supported = supportedFinding(facts);
  const ready = readyFinding(accepted, programmed);
  return supported === undefined ? [accepted, programmed, ready] : [accepted, programmed, ready, supported];
}

function acceptedFinding({ accepted, served }: Verdict): Finding {
  if (!accepted.status) {
    return { type: 'Accepted', status: 'False', reason: accepted.reason, message: accepted.message };
  }
  const { domain, fleet, rules } = served!;
  const message = `${counted(rules, 'rule')} for domain '${domain}' served to fleet '${fleet}'`;
  return { type: 'Accepted', status: 'True', reason: AcceptedReason.Valid, message };
}

function programmedFinding({ verdict, standing }: ConditionFacts): Finding {
  const { object, accepted, served } = verdict;
  const found = (reason: string, message: string): Finding => {
    const status = reason === ProgrammedReason.AllLimiters ? 'True' : 'False';
    return { type: 'Programmed', status, reason, message };
  };
  if (served === undefined || standing === undefined) {
    return found(
      ProgrammedReason.NotAccepted,
      `generation ${object.generation} is not accepted; nothing is in force`,
    );
  }
  const { reason, message } = progress(served, standing);
  if (accepted.status) return found(reason, message);
  const stays = standing.total === 0 ? 'is served as before, but ' : 'stays ';
  const older = `generation ${served.generation} ${stays}${message}`;
  return found(ProgrammedReason.NotAccepted, `generation ${object.generation} is not accepted; ${older}`);
}

function progress({ fleet }: ServedConfig, standing: Standing): { reason: string; message: string } {
  const { total, inForce, refused, pending } = standing;
  if (total === 0) {
    return { reason: ProgrammedReason.NoLimiters, message: `no limiter of fleet '${fleet}' is connected` };
  }
  const counts = `in force on ${inForce} of ${counted(total, 'limiter')} of fleet '${fleet}'`;
  const waiting = pending.count === 0 ? '' : `; waiting for ${listed(pending)}`;
  if (refused.count > 0) {
    return { reason: ProgrammedReason.Refused, message: `${counts}; ${refusalText(refused)}${waiting}` };
  }
  if (pending.count > 0) return { reason: ProgrammedReason.Pending, message: `${counts}${waiting}` };
  const all = total === 1 ? 'the one limiter' : `all ${total} limiters`;
  return { reason: ProgrammedReason.AllLimiters, message: `in force on ${all} of fleet '${fleet}'` };
}

function refusalText({ items, count }: Standing['refused']): string {
  const [first, ...others] = items;
  const words = `${first!.name} refuses: ${shortened(first!.message, longestRefusal)}`;
  if (count === 1) return words;
  return `${words}; also refused by ${listed({ items: others.map(({ name }) => name), count: count - 1 })}`;
}

function readyFinding(accepted: Finding, programmed: Finding): Finding {
  if (accepted.status !== 'True') {
    const message = `not accepted: ${accepted.reason}`;
    return { type: 'Ready', status: 'False', reason: accepted.reason, message };
  }
  if (programmed.status !== 'True') return { ...programmed, type: 'Ready' };
  return { type: 'Ready', status: 'True', reason: ReadyReason.Ready, message: programmed.message };
}

/** There only while something is wrong. What never arrives is said before what arrives in part. */
function supportedFinding({ verdict: { served }, others, isOversize }: ConditionFacts): Finding | undefined {
  if (served === undefined) return undefined;
  const problems: { reason: string; message: string }[] = [];
  if (isOversize)
    problems.push({ reason: SupportedReason.SnapshotTooLarge, message: oversize(served, others) });
  if (served.ownFields.length > 0 && others.count > 0) {
    const message = `${served.ownFields.join(', ')} ignored by limiters that are not Weir's: ${listed(others)}`;
    problems.push({ reason: SupportedReason.UnknownFields, message });
  }
  const [first] = problems;
  if (first === undefined) return undefined;
  const message = problems.map((problem) => problem.message).join('; ');
  return { type: 'Supported', status: 'False', reason: first.reason, message };
}

function oversize({ fleet }: ServedConfig, others: FirstFew<string>): string {
  const fact = `the rules of fleet '${fleet}' take over 4 MiB, which limiters refuse unless they are told to take more`;
  return others.count === 0
    ? `${fact}; Weir's take more by default`
    : `${fact}; Weir's take more by default, others are ${listed(others)}`;
}

function counted(count: number, noun: string): string {
  return count === 1 ? `1 ${noun}` : `${count} ${noun}s`;
}
