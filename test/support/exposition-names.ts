/** The names in a text that Prometheus scrapes: by metric, each label with its values. */
export class ServedNames {
  readonly #metrics = new Map<string, Map<string, Set<string>>>();

  /** Joins what another answer of `/metrics` holds. */
  add(exposition: string): void {
    for (const line of exposition.split('\n')) {
      const sample = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? [^ ]+(?: \d+)?$/.exec(line);
      if (sample === null) continue;
      const [, name = '', labels = ''] = sample;
      const known = this.#metrics.get(name) ?? new Map<string, Set<string>>();
      this.#metrics.set(name, known);
      for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
        known.set(label, (known.get(label) ?? new Set()).add(value));
      }
    }
  }

  /** Of a name, or of the first that an expression such as `a_.+` is of. Undefined while there is no sample of it. */
  labelsOf(metric: string): ReadonlyMap<string, ReadonlySet<string>> | undefined {
    if (/^[\w:]+$/.test(metric)) return this.#metrics.get(metric);
    const pattern = new RegExp(`^(?:${metric})$`);
    return [...this.#metrics].find(([name]) => pattern.test(name))?.[1];
  }
}
