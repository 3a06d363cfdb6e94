/** Turns a recording, as "weir replay" reads it, into tests that expect the current decisions of the rules. */

import { basename } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Descriptor } from '../../limiter/decide/messages.ts';
import { RecordingError, readRecordedRequest } from '../../replay/recorded-request.ts';
import { SortWindow } from '../../replay/replay.ts';
import type { JsonObject, JsonValue, RuleSource } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { openRecording } from '../replay/recording-lines.ts';
import { readReplaySettings } from '../replay/replay-command.ts';
import { timeText } from '../shared/text.ts';
import { yamlText } from '../shared/yaml-text.ts';
import { SteppedLimiter } from './decide-steps.ts';
import { type AskStep, answersText, descriptorsText, parseDescriptors, StepError } from './decision-steps.ts';

/** Chosen: people do not review more steps. */
export const maxRecorded = 10_000;
/** Chosen: a request may be this many lines out of order. */
const sortWindow = 10_000;

interface Recorded {
  timeMs: number;
  domain: string;
  step: AskStep;
}

export interface RecordedTests {
  /** The text of a `*.test.yaml` file. */
  text: string;
  requests: number;
  /** Whether the recording has more requests than were taken. */
  isCut: boolean;
  /** Lines that are not requests, or that tests cannot express. */
  leftOut: { line: number; reason: string }[];
}

/** Rejects with a system error if the recording cannot be read. */
export async function recordTests(
  path: string,
  stdin: Parameters<typeof openRecording>[1],
  { rules, place }: { rules: readonly RuleSource[]; place: string },
): Promise<RecordedTests> {
  const requests: Recorded[] = [];
  let isCut = false;
  const leftOut: RecordedTests['leftOut'] = [];
  const window = new SortWindow<Recorded>(sortWindow, (one) => {
    if (requests.length < maxRecorded) requests.push(one);
    else isCut = true;
  });
  const domains = new Set(rules.map(({ domain }) => domain));
  await openRecording(path, stdin).lines((text, line) => {
    if (text.trim() === '') return;
    const read = recorded(text, domains);
    if (typeof read === 'string') leftOut.push({ line, reason: read });
    else if (read !== undefined && window.add(read) !== undefined)
      leftOut.push({ line, reason: 'is too late to be put in order' });
  });
  window.finish();
  const atMs = requests[0]?.timeMs ?? 0;
  const table = new RuleTable(compileRules(rules));
  const tests = [...Map.groupBy(requests, ({ domain }) => domain)].map(([domain, own]) => {
    return { name: `requests of ${domain}`, domain, steps: stepsOf(own, table, atMs) };
  });
  const file = { ...rulesOf(place), at: timeText(atMs), tests };
  return { text: yamlText(file satisfies JsonObject), requests: requests.length, isCut, leftOut };
}

/** Reads one line. A text says why it is left out; undefined means that the proxy sent no descriptor. */
function recorded(text: string, domains: ReadonlySet<string>): Recorded | string | undefined {
  try {
    const read = readRecordedRequest(text);
    if (read === undefined) return undefined;
    const { domain, descriptors, hitsAddend } = read.request;
    if (!domains.has(domain)) return `there are no rules for the domain ${domain}`;
    if (descriptors.some(({ limit }) => limit !== undefined)) return 'has its own limit';
    const all = descriptors.map((one) => ({
      ...one,
      hitsAddend: one.hitsAddend ?? (hitsAddend || undefined),
    }));
    if (all.some(({ hitsAddend: hits = 0 }) => !Number.isSafeInteger(hits))) return 'has hits without end';
    if (!isExpressible(all))
      return 'has a descriptor that tests cannot express, such as one with an empty key';
    // Whole seconds, so that requests at almost the same time are one step.
    const timeMs = Math.floor(read.timeMs / 1000) * 1000;
    return { timeMs, domain, step: { descriptors: all, answers: [{ code: 'OK' }] } };
  } catch (error) {
    if (error instanceof RecordingError) return error.message;
    throw error;
  }
}

function isExpressible(descriptors: readonly Descriptor[]): boolean {
  try {
    return isDeepStrictEqual(parseDescriptors(descriptorsText(descriptors)), descriptors);
  } catch (error) {
    if (error instanceof StepError) return false;
    throw error;
  }
}

/** Joins equal requests in a row and in the same second into one step. */
function stepsOf(requests: readonly Recorded[], table: RuleTable, atMs: number): JsonValue[] {
  const domain = requests[0]!.domain;
  const limiter = new SteppedLimiter({ rules: table, settings: readReplaySettings([]), domain, atMs });
  const steps: JsonValue[] = [];
  let [nowMs, asked] = [atMs, ''];
  let answers: { code: string }[] = [];
  const flush = (): void => {
    if (answers.length > 0) steps.push(`${asked} -> ${answersText(answers)}`);
    answers = [];
  };
  for (const { timeMs, step } of requests) {
    const text = descriptorsText(step.descriptors);
    if (timeMs !== nowMs || text !== asked) flush();
    if (timeMs !== nowMs) {
      const afterMs = timeMs - nowMs;
      steps.push({ after: `${afterMs / 1000}s` });
      limiter.take({ afterMs });
    }
    [nowMs, asked] = [timeMs, text];
    const [answer] = limiter.take(step)!.answers;
    answers.push({ code: answer!.code });
  }
  flush();
  return steps;
}

/** Returns the `rules` field of a test file beside the rules. */
function rulesOf(place: string): { rules: string } {
  return { rules: /\.(?:ya?ml|json)$/.test(place) ? basename(place) : '.' };
}
