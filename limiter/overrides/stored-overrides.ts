/**
 * Overrides of the API in the store. Each has a record, whose field is the place that only one override can have. A revision
 * changes with the records. Limiters learn of a change by a message, which names the records and the revision before. A limiter
 * that has this revision reads these records, and all others read all records. A limiter that missed the message notices the
 * revision, which each limiter reads every second. While the store is unavailable, the last known overrides stay in force. A
 * store that comes back empty gets them again. It is recognized by a name that is stored beside the revision and lost with it.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { type Override, overridePlace } from '../../rules/override.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import { StoreError } from '../stores/store-error.ts';

export interface StoredOverridesOptions {
  storeAdmin: StoreAdmin;
  /** Settles when the overrides are in force in this limiter. `soon`: no caller waits for it. */
  use(overrides: readonly Override[], when: 'now' | 'soon'): Promise<void>;
  /** The store came back without its overrides, and now has this number of them again. */
  onGivenBack(overrides: number): void;
  clock: Clock;
  timers: Timers;
  /** The value of OVERRIDES_POLL_INTERVAL. */
  pollMs: number;
}

/** Chosen: the id of a grant is stored for this time after its end, so that it applies only once. */
const rememberedMs = 24 * 3_600_000;
/** Chosen: if a revision was lost together with its writer, the records are read after this many polls. */
const looksPerReading = 60;
/** Chosen: the number of records that are written at once. */
const recordsAtOnce = 500;

/** Chosen: the number of records that a message names. For more, it is quicker to read all records. */
const maxNamed = 100;
/** Chosen: how often to try the next revision while others change it. */
const maxTries = 3;

/** `override`: undefined if this version did not write the record. */
interface StoredOverrideRecord {
  readonly text: string;
  readonly override: Override | undefined;
}

/** The content of a message. Without `after`, it is unknown what else changed. */
interface News {
  readonly revision: string;
  readonly after: string | undefined;
  readonly fields: readonly string[];
}

export class StoredOverrides {
  readonly #options: StoredOverridesOptions;
  /** Records by field. */
  #records = new Map<string, StoredOverrideRecord>();
  #overrides: readonly Override[] = [];
  #revision: string | undefined;
  /** The name of the store that they belong to. Undefined: none were stored yet. */
  #store: string | undefined;
  #looks = 0;
  #reading: Promise<void> | undefined;
  /** The scope of the next reading. */
  #toRead = { all: false, isAwaited: false, news: [] as News[] };
  /** Fields that were written, but not reported yet. */
  readonly #unread = new Set<string>();
  #reporting: Promise<void> = Promise.resolve();
  /** A report that has not begun. */
  #nextReport: Promise<void> | undefined;
  #ends: (() => void)[] = [];

  constructor(options: StoredOverridesOptions) {
    this.#options = options;
  }

  /** All known overrides, including ended ones. */
  get all(): readonly Override[] {
    return this.#overrides;
  }

  start(): void {
    const { storeAdmin, timers, pollMs } = this.#options;
    if (storeAdmin.kind === 'memcache') return;
    const read = (): void => void this.read().catch(() => {});
    const received = (text: string): void => {
      const news = newsOf(text);
      if (news !== undefined) void this.#follow(news).catch(() => {});
    };
    this.#ends = [
      storeAdmin.subscribe({ received, back: read }),
      timers.every(pollMs, () => void this.#look()),
    ];
    read();
  }

  close(): void {
    for (const end of this.#ends) end();
  }

  /** The text of the record at its place now; rejects as the store admin does. */
  async at(override: Override): Promise<{ override: Override; text: string } | undefined> {
    const text = await this.#options.storeAdmin.record('overrides', fieldOf(override));
    const found = text === undefined ? undefined : overrideOf(text);
    return found && { override: found, text: text! };
  }

  /**
   * Writes an override. Resolves to false if another override is at its place, or if it is not the one to replace. Otherwise, the
   * override is in force in this limiter when it settles.
   */
  async put(override: Override, when: 'always' | 'absent' | { is: string }): Promise<boolean> {
    const isPut = await this.#options.storeAdmin.putRecord(
      'overrides',
      fieldOf(override),
      JSON.stringify(override),
      when,
    );
    if (isPut) await this.#changed([fieldOf(override)]);
    return isPut;
  }

  /** Removes overrides. Returns those that were removed, without any that were replaced since they were read. */
  async remove(overrides: readonly Override[]): Promise<Override[]> {
    const { storeAdmin } = this.#options;
    const removed: Override[] = [];
    for (const override of overrides) {
      const field = fieldOf(override);
      const known = this.#records.get(field);
      const text = known?.override === override ? known.text : JSON.stringify(override);
      // If the store accepts no scripts, the record is removed regardless of its content.
      const isGone =
        (await storeAdmin.removeRecord('overrides', field, text).catch(undefinedIfRejected)) ??
        (await storeAdmin.removeRecord('overrides', field));
      if (isGone) removed.push(override);
    }
    await this.#changed(removed.map(fieldOf));
    return removed;
  }

  /** Settles when the overrides of the store are in force in this limiter. Rejects as the store admin does. */
  async read(): Promise<void> {
    this.#toRead.all = true;
    this.#toRead.isAwaited = true;
    await this.#readOn();
  }

  async #follow(news: News): Promise<void> {
    this.#toRead.news.push(news);
    await this.#readOn();
  }

  async #readOn(): Promise<void> {
    // A reading that began before may have missed the change.
    await this.#reading?.catch(() => {});
    this.#reading ??= this.#readNext().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /**
   * Settles when the fields are in force in this limiter and were reported to the others. Changes that arrive meanwhile are
   * reported as one.
   */
  #changed(fields: readonly string[]): Promise<void> {
    for (const field of fields) this.#unread.add(field);
    this.#nextReport ??= this.#reporting
      .catch(() => {})
      .then(() => {
        this.#nextReport = undefined;
        return this.#report();
      });
    this.#reporting = this.#nextReport;
    return this.#reporting;
  }

  async #report(): Promise<void> {
    const fields = [...this.#unread];
    this.#unread.clear();
    const news = await this.#newRevision(fields).catch((error: unknown) => {
      for (const field of fields) this.#unread.add(field);
      throw error;
    });
    const reported = this.#publish(news);
    this.#toRead.isAwaited = true;
    await this.#follow(news);
    await reported;
  }

  #publish(news: News): Promise<boolean> {
    return this.#options.storeAdmin.publish(JSON.stringify({ is: 'overrides', ...news })).catch(() => false);
  }

  async #newRevision(fields: readonly string[]): Promise<News> {
    const { storeAdmin } = this.#options;
    await storeAdmin.putRecord('revisions', 'store', randomUUID(), 'absent');
    let after = this.#revision;
    for (let tries = 0; tries < maxTries && fields.length <= maxNamed; tries += 1) {
      const revision = this.#revisionAfter(after);
      const when = after === undefined ? 'absent' : { is: after };
      const isNext = await storeAdmin
        .putRecord('revisions', 'overrides', revision, when)
        .catch(undefinedIfRejected);
      if (isNext === undefined) break;
      if (isNext) return { revision, after, fields };
      after = await storeAdmin.record('revisions', 'overrides');
    }
    const revision = this.#revisionAfter(after);
    await storeAdmin.putRecord('revisions', 'overrides', revision);
    return { revision, after: undefined, fields: [] };
  }

  /** Returns the next revision. Later ones have a higher number, which continues if a store lost its own. */
  #revisionAfter(after: string | undefined): string {
    return `${Math.max(numberOf(after), numberOf(this.#revision)) + 1} ${randomUUID()}`;
  }

  async #look(): Promise<void> {
    try {
      this.#looks += 1;
      const revision = (await this.#options.storeAdmin.records('revisions')).get('overrides');
      if (revision === this.#revision && this.#looks % looksPerReading !== 0) return;
      await this.read();
    } catch {
      // The store is unavailable. The next poll comes soon.
    }
  }

  async #readNext(): Promise<void> {
    const { all, isAwaited, news } = this.#toRead;
    this.#toRead = { all: false, isAwaited: false, news: [] };
    const when = isAwaited ? 'now' : 'soon';
    const changes = all ? undefined : changesBy(news, this.#revision);
    if (changes === undefined) await this.#readAll(when);
    else await this.#readFields(changes, when);
  }

  async #readFields(
    { fields, revision }: { fields: ReadonlySet<string>; revision: string | undefined },
    when: 'now' | 'soon',
  ): Promise<void> {
    const { storeAdmin } = this.#options;
    const texts = await Promise.all(
      Array.from(fields, async (field) => ({ field, text: await storeAdmin.record('overrides', field) })),
    );
    const changed = texts.filter(({ field, text }) => this.#records.get(field)?.text !== text);
    for (const { field, text } of changed) {
      if (text === undefined) this.#records.delete(field);
      else this.#records.set(field, { text, override: overrideOf(text) });
    }
    if (changed.length > 0) await this.#use(when);
    this.#revision = revision;
  }

  async #readAll(when: 'now' | 'soon'): Promise<void> {
    const { storeAdmin } = this.#options;
    // Reads the revision first, because a later change has another one.
    let revisions = await storeAdmin.records('revisions');
    if (this.#store !== undefined && revisions.get('store') !== this.#store) {
      await this.#giveBack();
      revisions = await storeAdmin.records('revisions');
    }
    const revision = revisions.get('overrides');
    const texts = await storeAdmin.records('overrides');
    const isSame =
      texts.size === this.#records.size &&
      [...texts].every(([field, text]) => this.#records.get(field)?.text === text);
    if (!isSame) {
      const records = new Map<string, StoredOverrideRecord>();
      for (const [field, text] of texts) {
        const known = this.#records.get(field);
        records.set(field, known?.text === text ? known : { text, override: overrideOf(text) });
      }
      this.#records = records;
      await this.#use(when);
    }
    this.#revision = revision;
    this.#store = revisions.get('store');
    await this.#dropOld();
  }

  async #use(when: 'now' | 'soon'): Promise<void> {
    this.#overrides = [...this.#records.values()].flatMap(({ override }) => override ?? []);
    const used = this.#options.use(this.#overrides, when);
    if (when === 'now') await used;
    else used.catch(() => {});
  }

  /** Writes the records again to a store that has lost them, for example a store without persistence after a restart. */
  async #giveBack(): Promise<void> {
    const { storeAdmin, onGivenBack } = this.#options;
    try {
      const there = await storeAdmin.records('overrides');
      const lost = [...this.#records].filter(([field]) => !there.has(field));
      for (let first = 0; first < lost.length; first += recordsAtOnce) {
        const some = lost.slice(first, first + recordsAtOnce);
        await Promise.all(
          some.map(([field, { text }]) => storeAdmin.putRecord('overrides', field, text, 'absent')),
        );
      }
      await this.#publish(await this.#newRevision(lost.map(([field]) => field)));
      if (lost.length > 0) onGivenBack(lost.length);
    } catch (error) {
      // If the store rejects this, its content applies unchanged.
      if (!(error instanceof StoreError) || error.transient) throw error;
    }
  }

  async #dropOld(): Promise<void> {
    const { storeAdmin, clock } = this.#options;
    const longAgoMs = clock.nowMs() - rememberedMs;
    for (const { endsMs, ...rest } of this.#overrides)
      if (endsMs !== undefined && endsMs < longAgoMs)
        await storeAdmin.removeRecord('overrides', fieldOf({ endsMs, ...rest }));
  }
}

function fieldOf(override: Override): string {
  return createHash('sha256').update(overridePlace(override)).digest('base64url');
}

/** Returns the changes since this revision. Undefined if these messages do not determine them. */
function changesBy(
  news: readonly News[],
  known: string | undefined,
): { fields: ReadonlySet<string>; revision: string | undefined } | undefined {
  const fields = new Set<string>();
  let revision = known;
  for (const one of news) {
    // The change was read already, by its author or with all records.
    if (one.revision === revision || isBefore(one.revision, revision)) continue;
    if (one.after === undefined || one.after !== revision) return undefined;
    for (const field of one.fields) fields.add(field);
    revision = one.revision;
  }
  return { fields, revision };
}

function isBefore(one: string, other: string | undefined): boolean {
  return numberOf(one) > 0 && numberOf(one) < numberOf(other);
}

/** Returns 0 for a revision of a version that wrote no numbers. */
function numberOf(revision: string | undefined): number {
  return Number(/^(\d{1,15}) /.exec(revision ?? '')?.[1] ?? 0);
}

/** Handles a store without scripts: it sets a revision regardless of its old value. */
function undefinedIfRejected(error: unknown): undefined {
  if (!(error instanceof StoreError) || error.transient) throw error;
  return undefined;
}

/** Returns undefined for other messages. */
function newsOf(text: string): News | undefined {
  try {
    const { is, revision, after, fields } = JSON.parse(text) as Record<string, unknown>;
    if (is !== 'overrides') return undefined;
    const isNamed = typeof after === 'string' && Array.isArray(fields);
    return { revision: `${revision}`, after: isNamed ? after : undefined, fields: isNamed ? fields : [] };
  } catch {
    return undefined;
  }
}

/** Returns undefined if this version did not write the text. */
function overrideOf(text: string): Override | undefined {
  try {
    const override = JSON.parse(text) as Override;
    return Array.isArray(override.match) && typeof override.effect?.kind === 'string' ? override : undefined;
  } catch {
    return undefined;
  }
}
