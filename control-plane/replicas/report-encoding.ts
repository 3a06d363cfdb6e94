/** A replica's report, as `partedJson` stores it, so that no limiter is ever seen twice or not at all. */
import { z } from 'zod';
import { errorText } from '../../process/log/error-text.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { ConfigMap, FoundValue } from './config-maps.ts';
import { jsonOfParts, type Part, partedJson, partName, readPart, wholeOf } from './parted-json.ts';

/** Chosen, for each text that a limiter sends: a refusal's message is for a condition, which people read. */
const longestMessage = 1_024;
const longestName = 253;

const jsonKey = 'report.json';

/** Name of a replica's first ConfigMap. */
export function reportName(replica: string, part = 1): string {
  return partName(`weir-limiters-${replica}`, part);
}

/** Cuts what limiters said to lengths that thousands of them may use; merged reports are cut alike on every replica. */
export function boundedReport({ replica, limiters }: ReplicaReport): ReplicaReport {
  return { replica, limiters: limiters.map(boundedLimiter) };
}

/** See `PartedJson`. */
export function encodeReport(
  report: ReplicaReport,
  options: { revision: string; maxPartBytes?: number },
): Promise<ConfigMap[]> {
  const { replica } = report;
  const json = JSON.stringify(report);
  return partedJson({ ...options, name: reportName(replica), key: jsonKey, json, head: { replica } });
}

export interface ReportPart extends Part {
  replica: string;
}

/** Undefined for a ConfigMap that is no part of a report. */
export function readReportPart(map: ConfigMap): ReportPart | undefined {
  const { replica } = map.data;
  const part = readPart(map);
  return replica === undefined || part === undefined ? undefined : { ...part, replica };
}

/** The report of all parts, in their order; rejects when they are damaged. */
export async function decodeReport(parts: readonly ReportPart[]): Promise<ReplicaReport> {
  const [first] = parts;
  if (first === undefined) throw new Error('a report has no parts');
  const report = reportSchema.parse(await jsonOfParts(parts, jsonKey));
  return { replica: first.replica, limiters: report.limiters.map(limiterOf) };
}

const limiterSchema = z.object({
  id: z.string(),
  instance: z.string().optional(),
  name: z.string(),
  fleet: z.string(),
  isWeir: z.boolean(),
  /** Replicas that say nothing of it were there before it was. */
  countsCompatibly: z.boolean().default(true),
  connectedMs: z.number(),
  podUid: z.string().optional(),
  address: z.string().optional(),
  acceptedVersion: z.string().optional(),
  refusal: z
    .object({
      version: z.string(),
      message: z.string(),
      /** A replica of before says nothing of it, and was told of whole refusals only. */
      resources: z.array(z.object({ name: z.string(), message: z.string() })).optional(),
    })
    .optional(),
});
/** What another version of this program adds is passed over. */
const reportSchema = z.object({ limiters: z.array(limiterSchema) });

function limiterOf(parsed: z.infer<typeof limiterSchema>): LimiterReport {
  const { instance, acceptedVersion, refusal, ...rest } = parsed;
  return { ...rest, instance, acceptedVersion, refusal };
}

function boundedLimiter(limiter: LimiterReport): LimiterReport {
  const { refusal, name } = limiter;
  if (name.length <= longestName && (refusal?.message.length ?? 0) <= longestMessage) return limiter;
  return {
    ...limiter,
    name: cut(name, longestName),
    refusal: refusal && { ...refusal, message: cut(refusal.message, longestMessage) },
  };
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3)}...`;
}

/** The reports of all replicas, by replica, whether it lives or not. A damaged one is told of, and the one before stays. */
export function findReports(log: Logger): (maps: readonly ConfigMap[]) => FoundValue<ReplicaReport>[] {
  return (maps) => {
    const parts = maps.flatMap((map) => readReportPart(map) ?? []);
    return [...Map.groupBy(parts, ({ replica }) => replica)].map(([replica, found]) => {
      const whole = wholeOf(found) ?? [];
      const decode = (before: ReplicaReport | undefined) =>
        decodeReport(whole).catch((error: unknown) => {
          lines.reportSkipped(log, `report of ${replica}`, errorText(error));
          return before;
        });
      return { key: replica, version: whole[0]?.revision, decode };
    });
  };
}
