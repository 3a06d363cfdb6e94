/** Requests that match rules of different names in the two versions, and the effect on them. */
import { compositeOf, type Rule } from '../../rules/model.ts';
import { patternsOverlap } from '../../rules/review/rule-level.ts';
import { type DomainSide, IndexedLevel, type Sides } from './domain-side.ts';
import {
  effectsBesideOthers,
  isEnforced,
  type LimitEffect,
  limitEffect,
  limitedRule,
  sharingEffects,
} from './limit-effect.ts';
import { isPrefix, type Overlaps, overlappingRules } from './overlapping-rules.ts';

/** The rules that some requests find, level by level; a shorter path found no more. */
export interface Crossing {
  /** Rules on the side that has the rule in question. */
  own: readonly Rule[];
  other: readonly Rule[];
  /** The requests have a longer key than the last of `own`, one that no rule names. */
  isByLongerKey?: boolean;
}

/** The effect of a crossing on its requests. */
export interface CrossingEffect extends LimitEffect {
  /** The rules that these requests find on the other side, if they find one for all their entries. */
  other: readonly Rule[] | undefined;
  /** The key of these requests, if no rule names it: `user_<any>`. */
  longerKey?: string | undefined;
}

const nothing = new IndexedLevel([]);

function isSamePath(own: readonly Rule[], other: readonly Rule[]): boolean {
  return (
    own.length === other.length && own.every((rule, at) => compositeOf(rule) === compositeOf(other[at]!))
  );
}

/** Looks from the side that has a rule (`after` for an added one) at what its requests find on the other side. */
export class Crossings {
  /** True if all crossings were found so far. */
  isComplete = true;
  readonly #sides: Sides;
  readonly #own: DomainSide;
  readonly #other: DomainSide;

  constructor(sides: Sides, from: 'before' | 'after') {
    this.#sides = sides;
    this.#own = sides[from];
    this.#other = from === 'after' ? sides.before : sides.after;
  }

  /** The crossings of a rule in the level that each of these leads to. */
  of(rule: Rule, above: readonly Crossing[]): Crossing[] {
    const found = new Map<Rule | undefined, Crossing>();
    for (const { own, other } of above) {
      const level = this.#own.levelBelow(own.at(-1));
      const beside = this.#levelBeside({ own, other });
      const { rules: met, byLongerKey } = this.#overlaps(rule, level, beside);
      // Compares one level in two versions. A rule for one value that only one version has is a separate change.
      const singles = isSamePath(own, other) ? undefined : level.singleCollisions(beside).get(rule);
      for (const single of singles ?? []) met.add(single);
      for (const one of met) {
        if (found.has(one)) continue;
        found.set(one, {
          own: [...own, rule],
          other: one === undefined ? other : [...other, one],
          isByLongerKey: byLongerKey.has(one),
        });
      }
    }
    return [...found.values()];
  }

  /** Returns effects on requests that end with the rule, and on requests for which only the other side has a rule. */
  effects(crossing: Crossing): CrossingEffect[] {
    const { own, other } = crossing;
    const met = other.length === own.length ? other : undefined;
    const longerKey = crossing.isByLongerKey === true ? `${own.at(-1)!.key}_<any>` : undefined;
    const found = this.#between(own, met).map((effect) => ({ ...effect, other: met, longerKey }));
    const left = met === undefined ? [] : this.#left({ own, other: met });
    return [...found, ...left.flatMap((path) => this.#effectsOn(path))];
  }

  /** Returns effects, also on requests with rules further down. */
  deepEffects(crossing: Crossing): CrossingEffect[] {
    const below = crossing.own.at(-1)!.descriptors.flatMap((rule) => this.of(rule, [crossing]));
    return [...this.effects(crossing), ...below.flatMap((one) => this.deepEffects(one))];
  }

  #between(own: readonly Rule[], other: readonly Rule[] | undefined): LimitEffect[] {
    const [mine, theirs] = [own.at(-1)!, other?.at(-1)];
    const limit = this.#limitEffect(mine, theirs);
    const isAfter = this.#own === this.#sides.after;
    if (other === undefined || theirs === undefined || theirs.limits.length === 0) {
      const [was, is] = isAfter ? [undefined, mine] : [mine, undefined];
      return [limit, ...effectsBesideOthers(was, is, this.#sides)];
    }
    const [before, after] = isAfter ? [other, own] : [own, other];
    const more = sharingEffects(before, after);
    if (mine.limits.length > 0) {
      more.push(...effectsBesideOthers(before.at(-1)!, after.at(-1)!, this.#sides));
    }
    return [limit, ...more];
  }

  /** Returns effects on requests that find this rule of the other side, and none on this side. */
  #effectsOn(other: Rule[]): CrossingEffect[] {
    const theirs = other.at(-1)!;
    const [was, is] = this.#own === this.#sides.after ? [theirs, undefined] : [undefined, theirs];
    const found = [this.#limitEffect(undefined, theirs), ...effectsBesideOthers(was, is, this.#sides)];
    return found.map((effect) => ({ ...effect, other }));
  }

  /** Returns rules with a limit on the other side, for requests that find nothing further on this side. */
  #left(crossing: Crossing): Rule[][] {
    const theirs = this.#levelBeside(crossing);
    const mine = this.#own.levelBelow(crossing.own.at(-1));
    return theirs.rules.flatMap((rule) => {
      const isLeft = this.#overlaps(rule, theirs, mine).rules.has(undefined);
      return isLeft ? this.#limited([...crossing.other, rule]) : [];
    });
  }

  /** The rule at the end of a path on the other side, and those below it, as far as they are found and reject. */
  #limited(path: Rule[]): Rule[][] {
    const rule = path.at(-1)!;
    const traits = limitedRule(rule);
    const level = this.#other.levelBelow(rule);
    const below = rule.descriptors.filter((one) => this.#overlaps(one, level, nothing).rules.size > 0);
    const deeper = below.flatMap((one) => this.#limited([...path, one]));
    return traits !== undefined && isEnforced(traits) ? [path, ...deeper] : deeper;
  }

  #overlaps(rule: Rule, level: IndexedLevel, beside: IndexedLevel): Overlaps {
    const overlaps = overlappingRules(rule, level, beside, this.#sides.foreign);
    if (!overlaps.isComplete) this.isComplete = false;
    return overlaps;
  }

  #levelBeside({ own, other }: Crossing): IndexedLevel {
    return other.length === own.length ? this.#other.levelBelow(other.at(-1)) : nothing;
  }

  #limitEffect(own: Rule | undefined, other: Rule | undefined): LimitEffect {
    const [mine, theirs] = [limitedRule(own), limitedRule(other)];
    return this.#own === this.#sides.after ? limitEffect(theirs, mine) : limitEffect(mine, theirs);
  }
}

interface OvertakenPatterns {
  /** `overtaken`: rules as in the earlier version. */
  moves: { rule: Rule; overtaken: Rule[] }[];
  /** True if the list has all moves. */
  isComplete: boolean;
  /** If the level is too large to compare: the number of its patterns, some of which moved. Otherwise 0. */
  moved: number;
}

/** Chosen: this many comparisons of pairs take about a second. */
const maxSteps = 20_000_000;

/** Finds patterns of a level that now come before others, but came after them, if some text matches both. */
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
      if (steps > maxSteps) return { moves: [], isComplete: false, moved: common.length };
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
