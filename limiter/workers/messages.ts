/** The messages between the main thread and a worker thread. Plain data, which is copied or shared between them. */
import type { LogFields, LogLevelName } from '../../process/log/logger.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import type { ThreadMemory } from '../../process/net/connection-memory.ts';
import type { RuleLayer } from '../../rules/table/rule-table.ts';
import type { SentMessage } from '../capabilities/messages.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { SlotName } from '../stats/registry/slot-table.ts';

/** The data with which a thread starts. */
export interface WorkerStart {
  /** The number of the worker, from 1 on. */
  worker: number;
  settings: LimiterSettings;
  /** The rules in force, in memory that all threads share. Empty: there are none yet. */
  rules: readonly RuleLayer[];
  /** The last message of each kind that capabilities published. */
  published: readonly SentMessage[];
  /** The health of the whole process. */
  healthy: boolean;
  /** The memory held by connections of all threads, and this thread's cell of it. */
  connectionMemory: ThreadMemory;
  /** Whether the main thread wants durations. */
  timers: boolean;
}

export type WorkerTask =
  /** Done when the store answered for the first time. */
  | { do: 'connect-store' }
  /** Adds layers over the rules that the worker has. */
  | { do: 'use-rules'; layers: readonly RuleLayer[] }
  | { do: 'listen'; listener: 'grpc' | 'http'; address: ListenAddress }
  | { do: 'set-health'; healthy: boolean }
  /** The main thread has forgotten the slots of the oldest `count` of the metrics that left. */
  | { do: 'reuse-slots'; count: number }
  /** Done when everything counted so far can be read: new names and durations are sent before the answer. */
  | { do: 'show-statistics' }
  | { do: 'receive'; message: SentMessage }
  | { do: 'announce-end' }
  | { do: 'shutdown-grpc' }
  | { do: 'close-http' }
  | { do: 'close-store' }
  /** The thread ends after its answer. */
  | { do: 'end' };

/** Each task is answered once, by its number, when it is done or has failed. */
export interface NumberedTask {
  number: number;
  task: WorkerTask;
}

export type WorkerMessage =
  | { is: 'done'; number: number; result: unknown }
  | { is: 'failed'; number: number; message: string }
  | { is: 'log'; level: LogLevelName; message: string; fields: LogFields | undefined }
  /** The health that the worker itself sees: its connections to the store. */
  | { is: 'health'; healthy: boolean }
  /** The memory with the values of its statistics from now on. */
  | { is: 'values'; values: Float64Array<SharedArrayBuffer> }
  /** The names of further slots of `values`, in their order. */
  | { is: 'names'; names: SlotName[] }
  /** These metrics have taken slots that others left. */
  | { is: 'reused'; slots: { slot: number; name: SlotName }[] }
  /** Metrics have left these first slots. The values stay until the main thread reports that it has forgotten the slots. */
  | { is: 'left'; slots: number[] }
  /** Pairs of a timer's index and a recorded value; `names` are the names of further indices. */
  | { is: 'durations'; names: string[]; pairs: Float64Array };
