/**
 * The statistics of the whole process as sinks read them: those of worker threads are in it. A sink walks the slots
 * from 0 to `slotCount`; what it keeps of a slot it keeps together with the slot's generation.
 */

import type { Tags } from '../sinks/tags.ts';
import type { SlotKind } from './slot-table.ts';
import type { TimerListener } from './timings.ts';

export interface StatsSource {
  /** Brings every value up to date, those of other threads too; settles within about a second, never rejects. */
  refreshAll(): Promise<void>;
  /** Only grows. */
  readonly slotCount: number;
  /** 0 while the slot stands for nothing; another number than before when it stands for another name. */
  generationOf(slot: number): number;
  kindOf(slot: number): SlotKind;
  /** A counter's total so far, or a gauge. */
  valueOf(slot: number): number;
  /** The name with all tags in it, as statsd and /stats have them. */
  nameOf(slot: number): string;
  /** The name alone. */
  plainNameOf(slot: number): string;
  /** Its own tags and EXTRA_TAGS, by key. */
  tagsOf(slot: number): Tags;
  /** EXTRA_TAGS, which all timers have. */
  readonly extraTags: Tags;
  /** The same as a name has them at its end: `.__a=1.__b=2`, or nothing. */
  readonly extraTagsSuffix: string;
  /** Everything timed from now on, in bulk where other threads timed it. */
  onTimer(listener: TimerListener): void;
  /**
   * Called before `count` slots from `first` on stand for nothing: the last moment to read them. Their metric was idle,
   * and its place is needed.
   */
  onLeave(listener: (first: number, count: number) => void): void;
}
