/** The health of a process: healthy if every component is. Pure; listeners are notified only of changes of the whole. */
export interface HealthView {
  readonly healthy: boolean;
  /** Calls back at every change, but not at once. Returns a function that ends the subscription. */
  subscribe(listener: (healthy: boolean) => void): () => void;
}

export class Health implements HealthView {
  readonly #components = new Map<string, boolean>();
  readonly #listeners = new Set<(healthy: boolean) => void>();
  #onComponent: (component: string) => void = () => {};
  #healthy = true;

  get healthy(): boolean {
    return this.#healthy;
  }

  /** The unhealthy components, by name. */
  get failing(): string[] {
    return [...this.#components].flatMap(([name, well]) => (well ? [] : [name])).sort();
  }

  /** Whether a component is healthy. False also for a component that was never set. */
  isWell(component: string): boolean {
    return this.#components.get(component) ?? false;
  }

  /** Calls back once for every component, and at once for existing ones. Only for one listener. */
  onComponent(listener: (component: string) => void): void {
    this.#onComponent = listener;
    for (const component of this.#components.keys()) listener(component);
  }

  /** Sets one component, which is enabled by its first call. */
  set(component: string, healthy: boolean): void {
    const isNew = !this.#components.has(component);
    this.#components.set(component, healthy);
    if (isNew) this.#onComponent(component);
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
