/** Finds import cycles among files, including imports of types. */

export interface Cycles {
  /** Groups of files in which each file reaches every other one through imports, sorted. */
  readonly groups: readonly (readonly string[])[];
  /** The imports within groups, as `from -> to`. Without them, there is no cycle. */
  readonly imports: readonly string[];
}

export function cyclesOf(imports: ReadonlyMap<string, readonly string[]>): Cycles {
  const groups = connectedGroups(imports)
    .filter((group) => group.length > 1 || imports.get(group[0]!)!.includes(group[0]!))
    .map((group) => group.sort())
    .sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
  const within = groups.flatMap((group) =>
    group.flatMap((from) =>
      imports
        .get(from)!
        .filter((to) => group.includes(to))
        .map((to) => `${from} -> ${to}`),
    ),
  );
  return { groups, imports: within.sort() };
}

/** Finds strongly connected components with Tarjan's algorithm. */
function connectedGroups(imports: ReadonlyMap<string, readonly string[]>): string[][] {
  const found: string[][] = [];
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  const visit = (file: string): void => {
    order.set(file, order.size);
    lowest.set(file, order.get(file)!);
    open.push(file);
    isOpen.add(file);
    for (const next of imports.get(file)!) {
      if (!imports.has(next)) continue;
      if (!order.has(next)) visit(next);
      if (isOpen.has(next)) lowest.set(file, Math.min(lowest.get(file)!, lowest.get(next)!));
    }
    if (lowest.get(file) !== order.get(file)) return;
    const group = open.splice(open.indexOf(file));
    for (const one of group) isOpen.delete(one);
    found.push(group);
  };
  for (const file of imports.keys()) if (!order.has(file)) visit(file);
  return found;
}
