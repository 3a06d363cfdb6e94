import type { StoreError } from '../store-error.ts';

/** Single commands, each about one key, for one server, a proxy before many, or a cluster. */
export interface KeyedCommands {
  /** Calls in one turn go out together, in order for one key. Rejects with an error for `translate`. */
  send(key: string, name: string, args: string[]): Promise<unknown>;
  /** What `send` rejected with, as an error of ours. */
  translate(error: unknown): StoreError;
  /** Equal for keys of one server, as far as is known. */
  placeOf(key: string): unknown;
}
