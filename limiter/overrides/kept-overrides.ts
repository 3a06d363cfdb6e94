/**
 * Overrides that the API set, in the store: a record each, whose field is the place that only one can have, and a revision that
 * changes with them. Limiters learn of a change by its message, which names the records and the revision before: who has
 * that one reads these records, and all others all. Who missed it learns by the revision, which each looks at every second. While the store is away the last ones known stay, and one that comes back empty gets them again: it has a
 * name of its own beside the revision, which is gone then.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { type Override, overridePlace } from '../../rules/override.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import { StoreError } from '../stores/store-error.ts';

export interface KeptOverridesOptions {
  storeAdmin: StoreAdmin;
  /** Settles when they are in force here. `soon`: nobody waits for it. */
  use(overrides: readonly Override[], when: 'now' | 'soon'): Promise<void>;
  /** The store came back without them, and has so many again. */
  onGivenBack(overrides: number): void;
  clock: Clock;
  timers: Timers;
  /** OVERRIDES_POLL_INTERVAL. */
  pollMs: number;
}

/** Chosen: for so long the id of a grant stays known after its end, so that it happens once. */
const rememberedMs = 24 * 3_600_000;
/** Chosen: where a revision was lost with who wrote it, the records are read all the same after so many looks. */
const looksPerReading = 60;
/** Chosen: records that are written at once. */
const recordsAtOnce = 500;

/** Chosen: records that a message names; of more than these it is quicker to read all. */
const mostNamed = 100;
/** Chosen: so often a revision that others change meanwhile is tried to be the next one. */
const mostTries = 3;

/** `override`: undefined for what nobody of this version wrote. */
interface KeptRecord {
  readonly text: string;
  readonly override: Override | undefined;
}

/** What a message reports. Without `after` nobody knows what else changed. */
interface News {
  readonly revision: string;
  readonly after: string | undefined;
  readonly fields: readonly string[];
}

export class KeptOverrides {
  readonly #options: KeptOverridesOptions;
  /** By field. */
  #records = new Map<string, KeptRecord>();
  #overrides: readonly Override[] = [];
  #revision: string | undefined;
  /** The name of the store that they are of; undefined: none were kept yet. */
  #store: string | undefined;
  #looks = 0;
  #reading: Promise<void> | undefined;
  /** What the next reading is for. */
  #toRead = { all: false, isAwaited: false, news: [] as News[] };
  /** Fields that were written, and nobody was reported. */
  readonly #unread = new Set<string>();
  #reporting: Promise<void> = Promise.resolve();
  /** One that has not begun. */
  #nextReport: Promise<void> | undefined;
  #ends: (() => void)[] = [];

  constructor(options: KeptOverridesOptions) {
    this.#options = options;
  }

  /** Those known, ended ones among them. */
  get all(): readonly Override[] {
    return this.#overrides;
  }

  start(): void {
    const { storeAdmin, timers, pollMs } = this.#options;
    if (storeAdmin.kind === 'memcache') return;
    const read = (): void => void this.read().catch(() => {});
    const heard = (text: string): void => {
      const news = newsOf(text);
      if (news !== undefined) void this.#follow(news).catch(() => {});
    };
    this.#ends = [storeAdmin.subscribe({ heard, back: read }), timers.every(pollMs, () => void this.#look())];
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

  /** False: another one is at its place, or not the one that was to be replaced. In force here when it settles. */
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

  /** Gives those that were removed: not what somebody replaced since it was read. */
  async remove(overrides: readonly Override[]): Promise<Override[]> {
    const { storeAdmin } = this.#options;
    const removed: Override[] = [];
    for (const override of overrides) {
      const field = fieldOf(override);
      const known = this.#records.get(field);
      const text = known?.override === override ? known.text : JSON.stringify(override);
      // Where the store takes no scripts it is removed whatever it is.
      const isGone =
        (await storeAdmin.removeRecord('overrides', field, text).catch(orRefused)) ??
        (await storeAdmin.removeRecord('overrides', field));
      if (isGone) removed.push(override);
    }
    await this.#changed(removed.map(fieldOf));
    return removed;
  }

  /** Settles when what the store has is in force here; rejects as the store admin does. */
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
    // One that began before may have missed what this is for.
    await this.#reading?.catch(() => {});
    this.#reading ??= this.#readNext().finally(() => {
      this.#reading = undefined;
    });
    await this.#reading;
  }

  /** Settles when the fields are in force here and the others were reported; changes that come meanwhile are reported as one. */
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
    for (let tries = 0; tries < mostTries && fields.length <= mostNamed; tries += 1) {
      const revision = this.#revisionAfter(after);
      const when = after === undefined ? 'absent' : { is: after };
      const isNext = await storeAdmin.putRecord('revisions', 'overrides', revision, when).catch(orRefused);
      if (isNext === undefined) break;
      if (isNext) return { revision, after, fields };
      after = await storeAdmin.record('revisions', 'overrides');
    }
    const revision = this.#revisionAfter(after);
    await storeAdmin.putRecord('revisions', 'overrides', revision);
    return { revision, after: undefined, fields: [] };
  }

  /** Later ones have a higher number, which goes on where a store lost its own. */
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
      // The store is away: the next look comes soon.
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
    // The revision first: a change meanwhile has another one.
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
      const records = new Map<string, KeptRecord>();
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

  /** To a store that has lost them, as one does that keeps nothing over its restart. */
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
      // Where that is refused the store is followed as it is.
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

/** What changed from this revision on; undefined: that cannot be determined by these messages. */
function changesBy(
  news: readonly News[],
  known: string | undefined,
): { fields: ReadonlySet<string>; revision: string | undefined } | undefined {
  const fields = new Set<string>();
  let revision = known;
  for (const one of news) {
    // Read already: by who made the change, or with all others.
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

/** 0: written by a version whose revisions had none. */
function numberOf(revision: string | undefined): number {
  return Number(/^(\d{1,15}) /.exec(revision ?? '')?.[1] ?? 0);
}

/** Where the store takes no scripts a revision is set whatever it was. */
function orRefused(error: unknown): undefined {
  if (!(error instanceof StoreError) || error.transient) throw error;
  return undefined;
}

/** Undefined for other messages. */
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

/** Undefined for what nobody of this version wrote. */
function overrideOf(text: string): Override | undefined {
  try {
    const override = JSON.parse(text) as Override;
    return Array.isArray(override.match) && typeof override.effect?.kind === 'string' ? override : undefined;
  } catch {
    return undefined;
  }
}
