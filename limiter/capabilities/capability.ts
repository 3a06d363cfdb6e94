/**
 * A capability is an ability of a limiter besides deciding, in its own folder below `limiter/`. It has a declaration, which imports no
 * code that runs, and two halves (parts.ts). `limiter/settings/capabilities.ts` lists all capabilities.
 */
import type { Environment, SettingsTable } from '../../process/settings/settings-reader.ts';
import type { MainContext, MainPart, ThreadContext, ThreadPart } from './parts.ts';

/** `Own`: the settings of its own rows. */
export interface Capability<Settings = never, Own = never> {
  /** The name of its folder. */
  readonly name: string;
  readonly settings?: DeclaredSettings<Own>;
  /** Whether these settings ask for it. Otherwise its halves are not loaded. */
  isWanted(settings: Settings): boolean;
  load(): Promise<CapabilityThreads<Settings>>;
}

/** Its rows in `docs/settings.md`, in the chart and in the environment. */
export interface DeclaredSettings<Own = never> {
  /** The title of its table, an existing or a new one. */
  readonly title: string;
  /** The position: before the setting of this name in the program, or for a new table before the table of this title. Undefined: last. */
  readonly before?: string;
  readonly rows: SettingsTable;
  /** Prefixes of names: a variable with such a prefix that is not a setting causes a warning. */
  readonly ownPrefixes?: readonly string[];
  /** Returns sentences about values that are allowed but unwise. */
  warnings?(settings: Own, env: Environment): string[];
  /** Returns further members of the settings, read from the environment. */
  derived?(settings: Own, env: Environment): object;
}

export interface CapabilityThreads<Settings> {
  /** Runs once, in the main thread. */
  main?(context: MainContext<Settings>): MainPart;
  /** Runs in each thread that answers callers: in the workers of LIMITER_WORKERS, else in the main thread. */
  thread?(context: ThreadContext<Settings>): ThreadPart;
}

export interface LoadedCapability<Settings> {
  readonly name: string;
  readonly halves: CapabilityThreads<Settings>;
}
