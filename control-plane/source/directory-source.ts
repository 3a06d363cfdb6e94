import { stat } from 'node:fs/promises';
import { DirectoryWatch } from '../../process/files/directory-watch.ts';
import { ReloadSchedule } from '../../process/files/reload-schedule.ts';
import { isSystemError, systemErrorReason } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { classNameOf } from '../../rules/reader/manifest-reader.ts';
import type { ConfigObject, ConfigStatus } from '../model/config-object.ts';
import { noVersions } from '../model/object-versions.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import type { ObjectSource, SourceListener } from './kubernetes-source.ts';
import {
  type FileManifest,
  ManifestFiles,
  ManifestFolderError,
  ManifestObjects,
  readManifestFolder,
} from './manifest-folder.ts';

export interface DirectorySourceOptions extends Telemetry {
  /** The folder with the manifests. Its subfolders are not read, as with `kubectl apply -f`. */
  folder: string;
  /** CLASS_NAME: manifests of other classes are skipped. */
  className: string;
  clock: Clock;
  timers: Timers;
  limits?: Partial<DirectorySourceLimits>;
}

/** Chosen: bounds and waits. */
export interface DirectorySourceLimits {
  /** A burst of changes ends when nothing has changed for this time. */
  quietMs: number;
  /** The folder is read at most this long after a change, even if the burst has not ended. */
  maxDelayMs: number;
  /** The interval at which the watch checks that the folder's path still leads to the watched folder. */
  checkIntervalMs: number;
  /** The maximum size of all manifests together. */
  maxBytes: number;
}

export const defaultDirectorySourceLimits: Readonly<DirectorySourceLimits> = {
  quietMs: 50,
  maxDelayMs: 500,
  checkIntervalMs: 1_000,
  maxBytes: 64 * 1024 * 1024,
};

/** The folder of manifests does not exist, or cannot be watched or read. */
export class DirectorySourceError extends Error {
  override readonly name = 'DirectorySourceError';
}

/** RateLimitConfigs from a folder of manifests, which is read again whenever it changes. Statuses are stored in memory. */
export class DirectorySource implements ObjectSource {
  readonly versions = noVersions;
  readonly #options: DirectorySourceOptions;
  readonly #limits: DirectorySourceLimits;
  readonly #schedule: ReloadSchedule;
  readonly #files: ManifestFiles;
  readonly #objects = new ManifestObjects();
  #listener: SourceListener | undefined;
  #watch: DirectoryWatch | undefined;
  #callOffReading: (() => void) | undefined;
  #reading: Promise<void> | undefined;
  #isClosed = false;
  /** The reason why the last reading failed as a whole. */
  #failure: string | undefined;

  constructor(options: DirectorySourceOptions) {
    this.#options = options;
    this.#files = new ManifestFiles(options.className);
    this.#limits = { ...defaultDirectorySourceLimits, ...options.limits };
    this.#schedule = new ReloadSchedule(this.#limits);
  }

  /** Starts to watch before the first reading, so that no change is missed. Rejects with a DirectorySourceError. */
  async start(listener: SourceListener): Promise<void> {
    const { folder, timers, log, metrics } = this.#options;
    this.#watch = new DirectoryWatch({
      directory: folder,
      timers,
      checkIntervalMs: this.#limits.checkIntervalMs,
      listener: {
        changed: () => this.#onEvent(),
        lost: (reason) => {
          metrics.sourceLost();
          lines.sourceUnreachable(log, { reason, isListed: this.#listener !== undefined });
        },
        found: () => {
          metrics.sourceConnected();
          lines.sourceReachable(log);
        },
      },
    });
    try {
      if (!(await stat(folder)).isDirectory()) throw new ManifestFolderError('not a directory');
      this.#watch.start();
      this.#schedule.started();
      await this.#read();
    } catch (error) {
      this.#watch.close();
      if (!isSystemError(error) && !(error instanceof ManifestFolderError)) throw error;
      const reason = systemErrorReason(error);
      throw new DirectorySourceError(`the folder of manifests ${folder}: ${reason}`, { cause: error });
    }
    if (this.#isClosed) return;
    this.#listener = listener;
    metrics.sourceConnected();
    lines.sourceListed(log, { objects: this.objects.size });
    listener.changed();
    this.#schedule.ended();
    this.#setTimer();
  }

  get objects(): ReadonlyMap<string, ConfigObject> {
    return this.#objects.objects;
  }

  /** Statuses are stored with the objects here. When an object is removed, its status is removed, too. */
  left(): readonly ConfigObject[] {
    return [];
  }

  /** The place of an object's manifest: `limits.yaml:12`. */
  placeOf(object: ConfigObject): string | undefined {
    return this.#objects.placeOf(object);
  }

  isGone(object: ConfigObject): boolean {
    return !this.objects.has(object.uid);
  }

  /** Stores a status until the object is gone. `objects` returns it. */
  setStatus(uid: string, status: ConfigStatus): void {
    if (this.#objects.setStatus(uid, status)) this.#listener?.changed();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch?.close();
    this.#callOffReading?.();
    await this.#reading;
  }

  #onEvent(): void {
    this.#schedule.changed(this.#options.clock.monotonicMs());
    this.#setTimer();
  }

  #setTimer(): void {
    this.#callOffReading?.();
    const { dueMs } = this.#schedule;
    if (dueMs === undefined || this.#isClosed) return;
    const waitMs = Math.max(0, dueMs - this.#options.clock.monotonicMs());
    this.#callOffReading = this.#options.timers.after(waitMs, () => {
      this.#reading = this.#readAgain();
    });
  }

  async #readAgain(): Promise<void> {
    this.#schedule.started();
    let failure: string | undefined;
    try {
      if (await this.#read()) this.#listener?.changed();
    } catch (error) {
      if (!(error instanceof ManifestFolderError)) throw error;
      failure = error.message;
      if (!this.#isClosed && failure !== this.#failure) this.#problem(this.#options.folder, failure);
    }
    this.#failure = failure;
    this.#schedule.ended();
    this.#setTimer();
  }

  /** Returns whether the objects changed. */
  async #read(): Promise<boolean> {
    const files = await readManifestFolder(this.#options.folder, this.#limits.maxBytes);
    if (this.#isClosed) return false;
    const { problems, corrected } = this.#files.update(files);
    const { hasChanged, problems: duplicates } = this.#objects.update(this.#manifests());
    for (const { place, text } of [...problems, ...duplicates]) this.#problem(place, text);
    for (const file of corrected) lines.fileCorrected(this.#options.log, { file });
    return hasChanged;
  }

  /** Returns the manifests of this class. Every control plane rejects a manifest whose class is not a text. */
  #manifests(): FileManifest[] {
    const { className } = this.#options;
    return this.#files.manifests.filter(({ spec }) => (classNameOf(spec) ?? className) === className);
  }

  #problem(place: string, text: string): void {
    this.#options.metrics.all.sourceSkipped.inc();
    lines.manifestProblem(this.#options.log, { place, text });
  }
}
