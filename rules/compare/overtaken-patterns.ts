import type { Rule } from '../model.ts';
import { compositeOf, patternsOverlap } from '../review/rule-level.ts';
import { IndexedLevel } from './domain-side.ts';
import { isPrefix } from './pattern-merges.ts';

export interface OvertakenPatterns {
  moves: { rule: Rule /** As the earlier version has them. */; overtaken: Rule[] }[];
  /** Whether those are all. */
  isComplete: boolean;
  /** Patterns of a level too large to be compared, of which some moved. */
  moved: number;
}

/** We chose it: what comparing two by two may take, about a second. */
const mostSteps = 20_000_000;

/** Patterns of a level that stand before others now which some of the same texts fit, and stood behind them. */
export function overtakenPatterns(before: readonly Rule[], after: readonly Rule[]): OvertakenPatterns {
  const position = new Map(before.map((rule, index) => [compositeOf(rule), index]));
  const common = after.filter((rule) => {
    const composite = compositeOf(rule);
    return composite.includes('*') && position.has(composite);
  });
  const found: OvertakenPatterns = { moves: [], isComplete: true, moved: 0 };
  if (isInOrder(common, position)) return found;
  const level = new IndexedLevel(common);
  const place = new Map(common.map((rule, index) => [rule, index]));
  let steps = 0;
  for (const rule of common) {
    const composite = compositeOf(rule);
    const alike = level.patternsLike(composite);
    const passed = alike.filter(
      (other) =>
        place.get(other)! > place.get(rule)! && position.get(compositeOf(other))! < position.get(composite)!,
    );
    const overtaken: Rule[] = [];
    for (const other of passed) {
      const pattern = compositeOf(other);
      const arePrefixes = isPrefix(composite) && isPrefix(pattern);
      steps += composite.length * (arePrefixes ? 1 : pattern.length);
      if (steps > mostSteps) return { moves: [], isComplete: false, moved: common.length };
      if (arePrefixes || patternsOverlap(composite, pattern)) overtaken.push(other);
    }
    const old = overtaken.map((other) => before[position.get(compositeOf(other))!]!);
    if (old.length > 0) found.moves.push({ rule, overtaken: old });
  }
  return found;
}

function isInOrder(common: readonly Rule[], position: ReadonlyMap<string, number>): boolean {
  let last = -1;
  return common.every((rule) => {
    const at = position.get(compositeOf(rule))!;
    const isLater = at > last;
    last = at;
    return isLater;
  });
}
