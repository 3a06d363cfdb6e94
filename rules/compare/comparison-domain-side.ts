import type { RuleMatch } from '../match-result.ts';
import type { Rule, RuleSource } from '../model.ts';
import type { Entry } from '../request.ts';
import { compositeOf } from '../review/rule-level.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { IndexedLevel } from './domain-side.ts';

/** The rules of one domain on one side of a comparison, and their matcher. */
export class DomainSide {
  /** Its first level. */
  readonly rules: readonly Rule[];
  readonly #top: IndexedLevel;
  readonly #below = new Map<Rule, IndexedLevel>();
  readonly #domain: string;
  readonly #table: RuleTable;
  /** Characters for private use that rules have. */
  readonly #privateUse = new Set<string>();
  /** Names of limits that some rule replaces. */
  readonly #replaced = new Set<string>();

  constructor(domain: string, sources: readonly RuleSource[]) {
    const own = sources.filter((source) => source.domain === domain);
    this.#domain = domain;
    this.rules = own.flatMap(({ descriptors }) => descriptors);
    this.#top = new IndexedLevel(this.rules);
    this.#table = new RuleTable(compileRules(own));
    for (const rule of this.rules) this.#collect(rule);
  }

  /** The rule that each entry finds, up to the first one that finds none. */
  walk(entries: readonly Entry[]): Rule[] {
    const found: Rule[] = [];
    let level = this.#top;
    for (const entry of entries) {
      const rule = level.find(entry);
      if (rule === undefined) break;
      found.push(rule);
      level = this.levelBelow(rule);
    }
    return found;
  }

  match(entries: readonly Entry[]): RuleMatch | undefined {
    return this.#table.match(this.#domain, entries);
  }

  /** Asked of characters for private use only. */
  usesCharacter(unit: string): boolean {
    return this.#privateUse.has(unit);
  }

  isReplaced(name: string): boolean {
    return this.#replaced.has(name);
  }

  /** The level that comes after a rule; the first one after none. */
  levelBelow(rule: Rule | undefined): IndexedLevel {
    if (rule === undefined) return this.#top;
    let level = this.#below.get(rule);
    if (level === undefined) {
      level = new IndexedLevel(rule.descriptors);
      this.#below.set(rule, level);
    }
    return level;
  }

  #collect(rule: Rule): void {
    for (const name of rule.rateLimit?.replaces ?? []) this.#replaced.add(name);
    for (const unit of compositeOf(rule).match(/[\ue000-\uf8ff]/g) ?? []) this.#privateUse.add(unit);
    for (const below of rule.descriptors) this.#collect(below);
  }
}

/** A character that no rule of either side has, to stand for any text. */
export function foreignTo(before: DomainSide, after: DomainSide): string {
  let code = firstPrivateUse;
  while (before.usesCharacter(String.fromCharCode(code)) || after.usesCharacter(String.fromCharCode(code)))
    code++;
  return String.fromCharCode(code);
}
const firstPrivateUse = 0xe000;
