/**
 * A replica's report in ConfigMaps: JSON that people can read while it is small; then compressed, and cut into
 * several ConfigMaps when one cannot hold it. All parts of one report carry the same revision, and a reader waits for
 * all of them, so that no limiter is ever seen twice or not at all.
 */
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';
import { z } from 'zod';
import { errorText } from '../../process/log/error-text.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import * as lines from '../telemetry/log-lines.ts';
import { type ConfigMap, type FoundValue, maxConfigMapBytes } from './config-maps.ts';

/** Chosen: larger JSON is compressed. */
const longestPlainJson = 8 * 1024;
/** Chosen: what a decompressed report may come to; 10,000 limiters are about 5 MB. */
const longestJson = 256 * 1024 * 1024;
/** Chosen, for each text that a limiter sends: a refusal's message is for a condition, which people read. */
const longestMessage = 1_024;
const longestName = 253;

const jsonKey = 'report.json';
const gzipKey = 'report.json.gz';

/** Name of a replica's first ConfigMap. */
export function reportName(replica: string, part = 1): string {
  return `weir-limiters-${replica}${part === 1 ? '' : `.${part}`}`;
}

/** Cuts what limiters said to lengths that thousands of them may use; merged reports are cut alike on every replica. */
export function boundedReport({ replica, limiters }: ReplicaReport): ReplicaReport {
  return { replica, limiters: limiters.map(boundedLimiter) };
}

/** `revision` is another one for every report that a replica ever publishes, `maxPartBytes` of a part before base64. */
export async function encodeReport(
  report: ReplicaReport,
  { revision, maxPartBytes = maxConfigMapBytes }: { revision: string; maxPartBytes?: number },
): Promise<ConfigMap[]> {
  const { replica } = report;
  const json = JSON.stringify(report);
  const head = (part: number, parts: number) => ({ replica, revision, part: `${part}/${parts}` });
  if (json.length <= longestPlainJson) {
    return [{ name: reportName(replica), data: { ...head(1, 1), [jsonKey]: json }, binaryData: {} }];
  }
  const bytes = await promisify(gzip)(json);
  const parts = Math.ceil(bytes.length / maxPartBytes);
  return Array.from({ length: parts }, (_, index) => {
    const chunk = bytes.subarray(index * maxPartBytes, (index + 1) * maxPartBytes);
    return {
      name: reportName(replica, index + 1),
      data: head(index + 1, parts),
      binaryData: { [gzipKey]: chunk.toString('base64') },
    };
  });
}

export interface ReportPart {
  replica: string;
  revision: string;
  /** From 1. */
  part: number;
  parts: number;
  map: ConfigMap;
}

/** Undefined for a ConfigMap that is no part of a report. */
export function readReportPart(map: ConfigMap): ReportPart | undefined {
  const { replica, revision, part: position } = map.data;
  const match = /^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(position ?? '');
  if (replica === undefined || revision === undefined || match === null) return undefined;
  return { replica, revision, part: Number(match[1]), parts: Number(match[2]), map };
}

/** The report of all parts, in their order; rejects when they are damaged. */
export async function decodeReport(parts: readonly ReportPart[]): Promise<ReplicaReport> {
  const [first] = parts;
  if (first === undefined) throw new Error('a report has no parts');
  const report = reportSchema.parse(JSON.parse(first.map.data[jsonKey] ?? (await decompressed(parts))));
  return { replica: first.replica, limiters: report.limiters.map(limiterOf) };
}

async function decompressed(parts: readonly ReportPart[]): Promise<string> {
  const chunks = parts.map(({ map }) => Buffer.from(map.binaryData[gzipKey] ?? '', 'base64'));
  const bytes = await promisify(gunzip)(Buffer.concat(chunks), { maxOutputLength: longestJson });
  return bytes.toString('utf8');
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
      const whole = wholeReport(found) ?? [];
      const decode = (before: ReplicaReport | undefined) =>
        decodeReport(whole).catch((error: unknown) => {
          lines.reportSkipped(log, `report of ${replica}`, errorText(error));
          return before;
        });
      return { key: replica, version: whole[0]?.revision, decode };
    });
  };
}

/** In their order; undefined while some part of the newest revision is missing. */
function wholeReport(parts: readonly ReportPart[]): ReportPart[] | undefined {
  const first = parts.find(({ part }) => part === 1);
  if (first === undefined) return undefined;
  const same = parts.filter(({ revision }) => revision === first.revision).sort((a, b) => a.part - b.part);
  return same.length === first.parts ? same : undefined;
}
