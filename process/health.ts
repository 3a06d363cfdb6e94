/** Health of a process: healthy when every component is. Pure; listeners are told of changes of the whole only. */
export interface HealthView {
  readonly healthy: boolean;
  /** Calls back at every change, not at once. Returns what ends the subscription. */
  subscribe(listener: (healthy: boolean) => void): () => void;
}

export class Health implements HealthView {
  readonly #components = new Map<string, boolean>();
  readonly #listeners = new Set<(healthy: boolean) => void>();
  #healthy = true;

  get healthy(): boolean {
    return this.#healthy;
  }

  /** The components that are not well, by name. */
  get failing(): string[] {
    return [...this.#components].flatMap(([name, well]) => (well ? [] : [name])).sort();
  }

  /** Sets one component, which is enabled by its first call. */
  set(component: string, healthy: boolean): void {
    this.#components.set(component, healthy);
    const whole = [...this.#components.values()].every(Boolean);
    if (whole === this.#healthy) return;
    this.#healthy = whole;
    for (const listener of this.#listeners) listener(whole);
  }

  subscribe(listener: (healthy: boolean) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
