/** What the main thread and a worker thread send each other. Plain data: it is copied, or shared, between them. */
import type { LogFields, LogLevelName } from '../../process/log/logger.ts';
import type { ListenAddress } from '../../process/net/bind.ts';
import type { ThreadMemory } from '../../process/net/connection-memory.ts';
import type { Profile } from '../../rules/proxy/read-profiles.ts';
import type { RuleLayer } from '../../rules/table/rule-table.ts';
import type { SentMessage } from '../capabilities/messages.ts';
import type { Order } from '../operate/orders.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import type { SlotName } from '../stats/registry/slot-table.ts';

/** What a thread begins with. */
export interface WorkerStart {
  /** Its number, from 1 on. */
  worker: number;
  settings: LimiterSettings;
  /** Of the rules in force: all threads read them in one place. Empty: there are none yet. */
  rules: readonly RuleLayer[];
  /** Those for other proxies; undefined: there is a file, and it could not be used. */
  profiles: readonly Profile[] | undefined;
  /** The last of each kind that capabilities published. */
  published: readonly SentMessage[];
  /** Health of the whole process. */
  healthy: boolean;
  /** What connections of all threads hold, and its own cell of that. */
  connectionMemory: ThreadMemory;
  /** Whether the main thread wants durations. */
  timers: boolean;
}

export type WorkerTask =
  /** Done when the store answered first. */
  | { do: 'connect-store' }
  /** What goes over the rules that it has. */
  | { do: 'use-rules'; layers: readonly RuleLayer[] }
  | { do: 'operate'; order: Order }
  | { do: 'listen'; listener: 'grpc' | 'http'; address: ListenAddress }
  | { do: 'set-health'; healthy: boolean }
  /** The main thread forgot the slots of the oldest `count` of the metrics that left. */
  | { do: 'reuse-slots'; count: number }
  /** Done when everything counted so far can be read: new names and durations come before the answer. */
  | { do: 'show-statistics' }
  | { do: 'receive'; message: SentMessage }
  | { do: 'shutdown-grpc' }
  | { do: 'close-http' }
  | { do: 'close-store' }
  /** The thread ends once it has answered. */
  | { do: 'end' };

/** Each is answered once, by its number, when it is done or has failed. */
export interface NumberedTask {
  number: number;
  task: WorkerTask;
}

export type WorkerNews =
  | { is: 'done'; number: number; result: unknown }
  | { is: 'failed'; number: number; message: string }
  | { is: 'log'; level: LogLevelName; message: string; fields: LogFields | undefined }
  /** Of what the worker itself sees: its connections to the store. */
  | { is: 'health'; healthy: boolean }
  /** Where the values of its statistics are from now on. */
  | { is: 'values'; values: Float64Array<SharedArrayBuffer> }
  /** Of further slots of `values`, in their order. */
  | { is: 'names'; names: SlotName[] }
  /** Slots that were left have been taken by these metrics. */
  | { is: 'reused'; slots: { slot: number; name: SlotName }[] }
  /** Metrics left these first slots: their values are the last ones until the main thread says that it forgot them. */
  | { is: 'left'; slots: number[] }
  /** Pairs of a timer's index and what it recorded; `names` are those of further indices. */
  | { is: 'durations'; names: string[]; pairs: Float64Array };
