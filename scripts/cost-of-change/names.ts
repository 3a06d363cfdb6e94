/**
 * Finds the counted names with their files: fields of rules, algorithms, settings, reasons of conditions, and flags.
 * docs/testing.md defines which code touches a name.
 */

import { dirname } from 'node:path';
import { type Node, SyntaxKind } from 'typescript/unstable/ast';
import { flagsOfHelp } from '../../cli/shared/help.ts';
import { fieldFiles } from './fields.ts';
import type { Sources } from './project.ts';
import { type AnyNode, groupOf, type Site, textProperty } from './sites.ts';

export const kinds = ['field', 'algorithm', 'setting', 'reason', 'flag'] as const;
export type Kind = (typeof kinds)[number];

/** The files that touch each name, sorted. */
export type Touched = ReadonlyMap<string, readonly string[]>;
export type Measured = Readonly<Record<Kind, Touched>>;

export function touchedNames(sources: Sources): Measured {
  return {
    field: sorted(fieldFiles(sources)),
    algorithm: sorted(algorithmFiles(sources)),
    setting: sorted(settingFiles(sources)),
    reason: sorted(reasonFiles(sources)),
    flag: sorted(flagFiles(sources)),
  };
}

function sorted(files: ReadonlyMap<string, Iterable<string>>): Touched {
  const entries = [...files].map(([name, paths]) => [name, [...new Set(paths)].sort()] as const);
  return new Map(entries.sort(([a], [b]) => (a < b ? -1 : 1)));
}

const add = (files: Map<string, Set<string>>, name: string, paths: Iterable<string>): void => {
  files.set(name, new Set([...(files.get(name) ?? []), ...paths]));
};

/** The constant whose members are the algorithms. */
const algorithmConstant = 'Algorithm';

/**
 * The members of the constant `Algorithm`, and whatever spells their names as a property or a string. A file or folder named
 * after an algorithm, and each file that imports from it, touches the algorithm.
 */
function algorithmFiles({ sites, imports }: Sources): Map<string, Set<string>> {
  const files = new Map<string, Set<string>>();
  for (const name of constantMembers(sites, (constant) => constant === algorithmConstant)) {
    const snake = name.toLowerCase();
    const camel = snake.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    const pascal = camel[0]!.toUpperCase() + camel.slice(1);
    const kebab = snake.replaceAll('_', '-');
    const spelled = [name, snake, camel, pascal, kebab].flatMap((text) => sites.get(text) ?? []);
    const ownPath = new RegExp(`/${kebab}(?:/|\\.[jt]s$)`);
    const own = [...imports].filter(([path, used]) => [path, ...used].some((one) => ownPath.test(`/${one}`)));
    add(files, name, [...spelled.map(({ path }) => path), ...own.map(([path]) => path)]);
  }
  return files;
}

/** A name in upper case with an underscore always stands for a setting. A single word, such as `PORT`, may stand for anything. */
const isPlainly = (variable: string): boolean => variable.includes('_');

/** The rows of tables of settings: what refers to a row's property, and what names its variable in a string or as a property. */
function settingFiles({ sites, references }: Sources): Map<string, Set<string>> {
  const files = new Map<string, Set<string>>();
  for (const { path, node } of sites.get('summary') ?? []) {
    const row = (node as AnyNode).parent.parent;
    const variable = textProperty(row, 'name');
    const hasKind = row.properties?.some(({ name }) => name?.text === 'kind') === true;
    if (variable === undefined || !hasKind || !/^[A-Z]/.test(variable)) continue;
    const property = row.parent.name;
    const named = (sites.get(variable) ?? []).filter(
      (site) => site.form !== 'pattern' && (isPlainly(variable) || isNameOf(site)),
    );
    const referring = property === undefined ? [] : references(property);
    add(files, variable, [path, ...named.map((site) => site.path), ...referring]);
  }
  return files;
}

const isNameOf = ({ node }: Site): boolean => (node as AnyNode).parent.name?.text === 'name';

const isOfReason = (name: string | undefined): boolean => name !== undefined && /reasons?$/i.test(name);
const pascalCase = /^[A-Z][a-z]+(?:[A-Z][a-z]+)*$/;

/**
 * Finds members of constants and types named `…Reason`, and the reasons of objects that also have `type` and `status`, in
 * `PascalCase`.
 */
function reasonFiles({ sites }: Sources): Map<string, Set<string>> {
  const inControlPlane = (site: Site): boolean => site.path.startsWith('control-plane/');
  const files = new Map<string, Set<string>>();
  const declared = [...sites].filter(
    ([name, same]) =>
      pascalCase.test(name) && same.some((site) => inControlPlane(site) && isDeclaredReason(site)),
  );
  const distinct = declared.filter(([name]) => isTwoWords(name)).flatMap(([, same]) => same);
  const lists = new Set(distinct.map(listOf).filter((list) => list !== undefined));
  const isListed = (list: Node | undefined): boolean => list !== undefined && lists.has(list);
  for (const [name, same] of declared) {
    const touching = same.filter((site) => isTwoWords(name) || isListed(listOf(site)) || isReasonValue(site));
    const paths = touching.map(({ path }) => path);
    add(files, name, paths);
  }
  return files;
}

/** Returns the list that contains the name. If one of its elements is a reason, all of them are. */
function listOf({ node }: Site): Node | undefined {
  const group = groupOf(node);
  return group?.kind === SyntaxKind.ArrayLiteralExpression ? group : undefined;
}

/** Single words, such as `Ready` and `Invalid`, are also used for other things. */
const isTwoWords = (name: string): boolean => /[a-z][A-Z]/.test(name);

function isDeclaredReason({ node }: Site): boolean {
  const named = node as AnyNode;
  if (isOfReason(constantAround(named))) return true;
  const { parent } = named;
  if (parent.kind === SyntaxKind.PropertyAssignment && parent.initializer === named) {
    const others = parent.parent.properties?.map(({ name }) => name?.text) ?? [];
    return parent.name?.text === 'reason' && others.includes('type') && others.includes('status');
  }
  if (parent.kind !== SyntaxKind.LiteralType) return false;
  let type = parent.parent;
  if (type.kind === SyntaxKind.UnionType) type = type.parent;
  return type.kind === SyntaxKind.TypeAliasDeclaration ? isOfReason(type.name?.text) : isReasonMember(type);
}

/** `reason: 'Invalid' | …` of a type. */
const isReasonMember = (type: AnyNode): boolean =>
  type.kind === SyntaxKind.PropertySignature && type.name?.text === 'reason';

/** Functions that create a condition for a reason, or look for one. */
const takesReason = /^(?:newCondition|found|hasReason)$/;

/**
 * Whether the name belongs to a constant, type, property or comparison that is called a reason, or goes to a function that
 * takes one.
 */
function isReasonValue({ node, form }: Site): boolean {
  if (form === 'pattern') return false;
  const named = node as AnyNode;
  if (named.parent.arguments !== undefined && takesReason.test(named.parent.expression?.text ?? ''))
    return true;
  if (form === 'property' && isOfReason(named.parent.expression?.text)) return true;
  for (let at = named.parent; at !== undefined; at = at.parent) {
    const { left, right } = at as { left?: AnyNode; right?: AnyNode };
    const sides = [left, right].map((side) => side?.name?.text ?? side?.text);
    if (sides.some(isOfReason)) return true;
    const name = at.name?.text;
    if (name !== undefined && at.name !== named && at.properties === undefined) return isOfReason(name);
  }
  return false;
}

/** Returns the properties of the object that is assigned to a constant of such a name. */
function constantMembers(
  sites: ReadonlyMap<string, readonly Site[]>,
  isMeant: (constant: string) => boolean,
): string[] {
  return [...sites].flatMap(([text, same]) => {
    const isMember = same.some(({ node }) => isMeant(constantAround(node as AnyNode) ?? ''));
    return isMember ? [text] : [];
  });
}

/** Returns the name of the constant whose object has the property of this name. */
function constantAround(name: AnyNode): string | undefined {
  const property = name.parent;
  if (property.kind !== SyntaxKind.PropertyAssignment || property.name !== name) return undefined;
  let value = property.parent.parent;
  while (value.kind === SyntaxKind.AsExpression || value.kind === SyntaxKind.SatisfiesExpression)
    value = value.parent;
  return value.kind === SyntaxKind.VariableDeclaration ? value.name?.text : undefined;
}

/**
 * The flags in texts of help, as `<folder of cli> --<flag>`. Whatever passes the flag's name to a method of `ParsedFlags` or to a call
 * that also takes them, or spells a name with a dash, touches the flag of its own folder, else all flags of that name.
 */
function flagFiles(sources: Sources): Map<string, Set<string>> {
  const files = new Map<string, Set<string>>();
  const flagName = (path: string, flag: string): string => `${dirname(path).replace(/^cli\//, '')} --${flag}`;
  const byFlag = new Map<string, Set<string>>();
  const { paths, sites, textOf } = sources;
  for (const path of paths.filter((one) => one.startsWith('cli/'))) {
    // A row may stand behind the beginning of a template, or behind another text in it.
    const help = textOf(path).replace(/`|\$\{[^}]*\}/g, '\n');
    for (const flag of Object.keys(flagsOfHelp(help))) {
      add(files, flagName(path, flag), [path]);
      add(byFlag, flag, [flagName(path, flag)]);
    }
  }
  for (const [flag, names] of byFlag) {
    const spelled = (sites.get(flag) ?? []).filter(
      (site) => site.path.startsWith('cli/') && site.form === 'literal',
    );
    for (const { path } of spelled.filter((site) => readsFlag(sources, site))) {
      const own = flagName(path, flag);
      for (const name of names.has(own) ? [own] : names) add(files, name, [path]);
    }
  }
  return files;
}

function readsFlag({ areOf }: Sources, { text, node }: Site): boolean {
  if (text.includes('-')) return true;
  const { expression, arguments: values } = (node as AnyNode).parent;
  return values !== undefined && areOf('ParsedFlags', [expression!, ...values]).includes(true);
}
