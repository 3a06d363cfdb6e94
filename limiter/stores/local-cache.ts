/** Keys that are over their limit, remembered in this process so that the store is not asked again. */
export interface LocalCache {
  /** Whether the key is still over at `nowMs`; counts as one lookup. */
  has(key: string, nowMs: number): boolean;
  /** `expiresAtMs` is the end of the key's window: from then on the key is not over. */
  remember(key: string, expiresAtMs: number): void;
  forget(key: string): void;
  clear(): void;
}
