/**
 * Sites: the places of a source file where code names something by a property, a string literal or a regular expression.
 * Comments, messages and local variables are not sites.
 */
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';

export interface Site {
  /** Relative to the root of the project. */
  readonly path: string;
  readonly text: string;
  /** `property`: the name in `x.name`, `x['name']`, `{ name }`, `name: …`; `pattern`: a word of a regular expression. */
  readonly form: 'property' | 'literal' | 'pattern';
  /** The identifier or literal. For a pattern, the whole regular expression. */
  readonly node: Node;
}

/** A node with the optional parts of all node kinds that this folder reads. */
export interface AnyNode extends Node {
  readonly text?: string;
  readonly name?: AnyNode;
  readonly propertyName?: AnyNode;
  readonly initializer?: AnyNode;
  readonly expression?: AnyNode;
  readonly argumentExpression?: AnyNode;
  readonly moduleSpecifier?: AnyNode;
  readonly argument?: AnyNode;
  readonly literal?: AnyNode;
  readonly arguments?: readonly AnyNode[];
  readonly properties?: readonly AnyNode[];
  readonly typeArguments?: readonly AnyNode[];
  readonly typeName?: AnyNode;
  readonly objectType?: AnyNode;
  readonly parent: AnyNode;
}

const members: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.PropertyAssignment,
  SyntaxKind.ShorthandPropertyAssignment,
  SyntaxKind.PropertySignature,
  SyntaxKind.PropertyDeclaration,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.MethodSignature,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
  SyntaxKind.EnumMember,
]);

/** The sites of one file, and the files that it imports as written, including imports of types. */
export interface FileSites {
  readonly sites: readonly Site[];
  readonly imports: readonly string[];
}

export function sitesOf(path: string, file: SourceFile): FileSites {
  const sites: Site[] = [];
  const imports: string[] = [];
  const visit = (visited: Node): void => {
    const node = visited as AnyNode;
    const imported = importedBy(node);
    if (imported !== undefined) imports.push(imported);
    else sites.push(...sitesAt(path, node));
    node.forEachChild(visit);
  };
  visit(file);
  return { sites, imports };
}

function sitesAt(path: string, node: AnyNode): Site[] {
  const { kind } = node;
  if (kind === SyntaxKind.Identifier) {
    return isPropertyName(node) ? [{ path, text: node.text!, form: 'property', node }] : [];
  }
  if (kind === SyntaxKind.StringLiteral || kind === SyntaxKind.NoSubstitutionTemplateLiteral) {
    const isProperty = isPropertyName(node) || node.parent.argumentExpression === node;
    return [{ path, text: node.text!, form: isProperty ? 'property' : 'literal', node }];
  }
  if (kind === SyntaxKind.RegularExpressionLiteral) {
    const words = new Set(node.text!.match(/[A-Za-z]\w*(?:-\w+)*/g));
    return [...words].map((text) => ({ path, text, form: 'pattern', node }));
  }
  return [];
}

/** The module that an import, an export, `import('…')` or a type `import('…').X` names; undefined for all other nodes. */
function importedBy(node: AnyNode): string | undefined {
  switch (node.kind) {
    case SyntaxKind.ImportDeclaration:
    case SyntaxKind.ExportDeclaration:
      return node.moduleSpecifier?.text;
    case SyntaxKind.ImportType:
      return node.argument?.literal?.text;
    case SyntaxKind.CallExpression:
      return node.expression?.kind === SyntaxKind.ImportKeyword ? node.arguments?.[0]?.text : undefined;
    default:
      return undefined;
  }
}

function isPropertyName(node: AnyNode): boolean {
  const { parent } = node;
  if (parent.kind === SyntaxKind.PropertyAccessExpression) return parent.name === node;
  if (parent.kind === SyntaxKind.BindingElement) {
    const isOfObject = parent.parent.kind === SyntaxKind.ObjectBindingPattern;
    return isOfObject && (parent.propertyName ?? parent.name) === node;
  }
  return members.has(parent.kind) && parent.name === node;
}

const groups: ReadonlySet<SyntaxKind> = new Set([
  SyntaxKind.InterfaceDeclaration,
  SyntaxKind.TypeLiteral,
  SyntaxKind.ClassDeclaration,
  SyntaxKind.ClassExpression,
  SyntaxKind.ObjectLiteralExpression,
  SyntaxKind.ObjectBindingPattern,
  SyntaxKind.ArrayLiteralExpression,
  SyntaxKind.UnionType,
  SyntaxKind.CaseBlock,
]);

/** Returns the surroundings of a name: a type, an object, a list, a union, or the cases of a switch. Undefined in an expression. */
export function groupOf(node: Node): Node | undefined {
  let group = (node as AnyNode).parent;
  // The name of a property, a literal type or a case is at most two nodes below its group.
  for (let above = 0; above < 2 && !groups.has(group.kind); above++) group = group.parent ?? group;
  return groups.has(group.kind) ? group : undefined;
}

/** Returns whether a group is a type, to whose properties other files can refer. */
export function isTypeGroup(group: Node): boolean {
  return (
    group.kind === SyntaxKind.InterfaceDeclaration ||
    group.kind === SyntaxKind.TypeLiteral ||
    group.kind === SyntaxKind.ClassDeclaration
  );
}

/** Returns the name of the type whose property a literal type selects: `Limit` for `Pick<Limit, 'unit'>` and `Limit['unit']`. */
export function pickedFrom(node: Node): string | undefined {
  let type = (node as AnyNode).parent;
  if (type.kind !== SyntaxKind.LiteralType) return undefined;
  type = type.parent;
  if (type.kind === SyntaxKind.UnionType) type = type.parent;
  return (type.objectType ?? type.typeArguments?.[0])?.typeName?.text;
}

/** Returns the value of a property of an object literal if it is a string. Otherwise undefined. */
export function textProperty(object: AnyNode, name: string): string | undefined {
  const property = object.properties?.find((one) => one.name?.text === name);
  const value = property?.initializer;
  return value?.kind === SyntaxKind.StringLiteral ? value.text : undefined;
}
