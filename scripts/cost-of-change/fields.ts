/** Finds the files that touch each field of a rule. */
import { type Node, SyntaxKind } from 'typescript/unstable/ast';
import { type FieldRows, limitFields, ruleFields } from '../../rules/language/fields.ts';
import type { Sources } from './project.ts';
import { type AnyNode, groupOf, isTypeGroup, pickedFrom, type Site } from './sites.ts';

/** The types of a rule, each with the rows that it is derived from, and the file that declares them. */
const ruleTypes = {
  path: 'rules/model.ts',
  rows: { Rule: ruleFields, Limit: limitFields, Calendar: {}, ReserveTerms: {} },
};

/** The file of the rows. */
const rowsPath = 'rules/language/fields.ts';

/** Fields whose spelling in a format differs from the property in camel or snake case. */
const otherSpellings: Readonly<Record<string, readonly string[]>> = {
  limits: ['rateLimit', 'rateLimits', 'rate_limit', 'rate_limits'],
  ttlSeconds: ['ttl'],
};

/** A generated file is read only if it contains these words, because only then its types can be those of rules. */
export const ruleWords = ['requestsPerUnit'];

/**
 * Compound names that do not belong to rules alone: counters and leases also have a time to live, and routes of Envoy have
 * `rate_limits`.
 */
const sharedSpellings: readonly string[] = [
  'ttlSeconds',
  'rateLimit',
  'rateLimits',
  'rate_limit',
  'rate_limits',
];

const isDistinct = (spelling: string): boolean =>
  /[a-z][A-Z]|_/.test(spelling) && !sharedSpellings.includes(spelling);

export function spellingsOf(field: string): string[] {
  const snake = field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return [...new Set([field, snake, ...(otherSpellings[field] ?? [])])];
}

/**
 * A distinct spelling (`hideIdentity`, `hide_identity`) touches the field wherever it is a property of the project, a whole string
 * or a word of a regular expression: types that pass the field on repeat its name. One word (`unit`) does so only in
 * the type of rules itself, in the same type, object, list or switch as a distinct field of it, and wherever the language
 * service finds a reference to the property of such a type.
 * @throws Error if a type of rules is not in the file that `ruleTypes` names
 */
export function fieldFiles(sources: Sources): Map<string, Set<string>> {
  const files = new Map<string, Set<string>>();
  for (const [type, fields] of fieldsOf(sources)) {
    const carriers = new Carriers(sources, type, fields.flatMap(spellingsOf).filter(isDistinct));
    for (const field of fields) {
      const paths = spellingsOf(field).flatMap((spelling) =>
        isDistinct(spelling) ? ownPaths(sources, spelling) : carriers.paths(spelling),
      );
      files.set(field, new Set([...(files.get(field) ?? []), ...paths]));
    }
  }
  return files;
}

/** Returns the properties of each type of rules: those of its rows, and those that it declares itself. */
function fieldsOf({ sites }: Sources): Map<string, string[]> {
  const { path, rows } = ruleTypes;
  const names = Object.keys(rows);
  const fields = new Map(Object.entries(rows).map(([name, own]) => [name, propertiesOf(own)]));
  for (const [text, same] of sites) {
    for (const site of same) fields.get(declaringType(site) ?? '')?.push(text);
  }
  const missing = names.find((name) => fields.get(name)!.length === 0);
  if (missing === undefined) return fields;
  throw new Error(`${path} has no type ${missing}: correct ruleTypes in scripts/cost-of-change/fields.ts`);
}

/** Returns the properties of the rows. A field that only spells another one has no property. */
function propertiesOf(rows: FieldRows): string[] {
  return Object.keys(rows).filter((name) => rows[name]!.isSpelling !== true);
}

/** Returns the interface that declares the property of this name in the file of the types of rules. */
function declaringType({ path, node }: Site): string | undefined {
  if (path !== ruleTypes.path) return undefined;
  const group = groupOf(node) as AnyNode | undefined;
  const isDeclared = group !== undefined && isTypeGroup(group) && (node as AnyNode).parent.parent === group;
  return isDeclared ? group.name?.text : undefined;
}

function ownPaths({ sites, areForeign }: Sources, spelling: string): string[] {
  const same = sites.get(spelling) ?? [];
  const foreign = areForeign(same.map(({ node }) => node));
  return same.filter((_, index) => !foreign[index]).map(({ path }) => path);
}

/** The declaration of a type of rules, and the types, objects, lists and switches that contain a distinct field of it. */
class Carriers {
  readonly #sources: Sources;
  readonly #distinct: ReadonlySet<string>;
  readonly #groups: ReadonlySet<Node>;
  /** The names of the carriers that are types. */
  readonly #types: ReadonlySet<string>;

  constructor(sources: Sources, type: string, distinct: readonly string[]) {
    this.#sources = sources;
    this.#distinct = new Set(distinct);
    const own = [...sources.sites.values()].flat().filter((site) => declaringType(site) === type);
    const sites = distinct.flatMap((spelling) => this.#all(spelling));
    const holding = [...own, ...sites.filter(({ form }) => form !== 'pattern')];
    const groups = holding.map(({ node }) => groupOf(node));
    this.#groups = new Set(groups.filter((group) => group !== undefined));
    const types = [...this.#groups].filter(isTypeGroup).map((group) => (group as AnyNode).name?.text);
    this.#types = new Set(types.filter((name) => name !== undefined));
  }

  paths(spelling: string): string[] {
    const carried = this.#all(spelling).filter((site) => site.form !== 'pattern' && this.#isCarried(site));
    const declared = carried.filter(({ node, form, path }) => {
      const group = groupOf(node);
      const isDeclaration = group !== undefined && (isTypeGroup(group) || path === rowsPath);
      return form === 'property' && isDeclaration;
    });
    const referring = declared.flatMap(({ node }) => this.#sources.references(node));
    const counted = new Set(this.#sources.paths);
    return [...carried.map(({ path }) => path).filter((path) => counted.has(path)), ...referring];
  }

  #all(spelling: string): readonly Site[] {
    const { sites, generated } = this.#sources;
    return [...(sites.get(spelling) ?? []), ...(generated.get(spelling) ?? [])];
  }

  #isCarried({ node }: Site): boolean {
    const group = groupOf(node);
    const picked = pickedFrom(node);
    if (picked !== undefined && this.#types.has(picked)) return true;
    return group !== undefined && (this.#groups.has(group) || this.#inherits(group));
  }

  /** Whether an interface has a distinct field from a type that it extends, such as `Omit<Rule, 'limits'>`. */
  #inherits(group: Node): boolean {
    const { kind, name } = group as AnyNode;
    if (kind !== SyntaxKind.InterfaceDeclaration) return false;
    return this.#sources.propertiesAt(name!).some((property) => this.#distinct.has(property));
  }
}
