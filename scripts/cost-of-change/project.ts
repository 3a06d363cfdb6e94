/** A project as the TypeScript language service sees it: its sites, its imports, and the references to a declaration. */
import { dirname, join, relative } from 'node:path';
import type { Node } from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';
import { type Site, sitesOf } from './sites.ts';

/** The folders in which hand-written code is counted. */
const countedFolders = /^(?:limiter|process|replay|rules|control-plane|cli|console|packages)\//;
const generatedFolder = /^gen\//;
const testFile = /\.(?:test|suite)\.[jt]s$/;

export interface Sources {
  /** The hand-written files that are not tests, sorted. */
  readonly paths: readonly string[];
  /** Returns the text of a file. */
  textOf(path: string): string;
  /** Sites of hand-written files by their text. */
  readonly sites: ReadonlyMap<string, readonly Site[]>;
  /** Sites of generated files. They are not counted, but declare names to which hand-written files refer. */
  readonly generated: ReadonlyMap<string, readonly Site[]>;
  /** The imported files of each file, including imports of types. */
  readonly imports: ReadonlyMap<string, readonly string[]>;
  /** The hand-written files that refer to the property or constant that is declared at the node, including the declaration itself. */
  references(declaration: Node): string[];
  /** Whether a package or the language, and not the project, declares the name at each node. */
  areForeign(nodes: readonly Node[]): boolean[];
  /** The names of the properties of the type at a node, including inherited ones. */
  propertiesAt(node: Node): string[];
  /** Whether the value at each node is of the type of this name, or a method of it. `undefined` beside the type changes nothing. */
  areOf(type: string, nodes: readonly Node[]): boolean[];
}

/**
 * Reads a project and passes it to `use`. The language service ends when `use` returns. `words`: generated files without any of
 * these words are not read. @throws Error if no file of the project is counted
 */
export function withSources<T>(
  root: string,
  configFile: string,
  words: readonly string[],
  use: (sources: Sources) => T,
): T {
  const api = new API({ cwd: root });
  try {
    const configPath = join(root, configFile);
    const project = api.updateSnapshot({ openProjects: [configPath] }).getProject(configPath);
    if (project === undefined) throw new Error(`${configPath}: TypeScript cannot open the project`);
    const { program, checker } = project;
    const isCounted = (path: string) => countedFolders.test(path) && !testFile.test(path);
    const all = program.getSourceFileNames().map((name) => relative(root, name));
    const paths = all.filter(isCounted).sort();
    if (paths.length === 0) throw new Error(`${configPath}: no file of it is counted`);
    const imports = new Map<string, readonly string[]>();
    const read = (path: string): readonly Site[] => {
      const { sites, imports: written } = sitesOf(path, program.getSourceFile(join(root, path))!);
      const relatives = written.filter((name) => name.startsWith('.'));
      imports.set(path, [...new Set(relatives.map((name) => join(dirname(path), name)))]);
      return sites;
    };
    const sites = byText(paths.flatMap(read));
    const textOf = (path: string) => program.getSourceFile(join(root, path))!.text;
    const isMeant = (path: string) => words.some((word) => textOf(path).includes(word));
    const generated = byText(all.filter((path) => generatedFolder.test(path) && isMeant(path)).flatMap(read));
    return use({
      paths,
      textOf,
      sites,
      generated,
      imports: new Map(paths.map((path) => [path, imports.get(path)!])),
      references: (declaration) => {
        const found = checker.getReferencedSymbolsForNode(declaration, declaration.getStart());
        const handles = found.flatMap(({ definition, references }) => [definition, ...references]);
        return [...new Set(handles.map(({ path }) => relative(root, path)))].filter(isCounted);
      },
      areForeign: (nodes) =>
        checker.getSymbolAtLocation(nodes).map((symbol) => {
          const declarations = symbol?.declarations ?? [];
          const isOurs = (path: string) => !path.startsWith('..') && !path.includes('node_modules/');
          return declarations.length > 0 && !declarations.some(({ path }) => isOurs(relative(root, path)));
        }),
      propertiesAt: (node) => {
        const type = checker.getTypeAtLocation(node);
        return type === undefined ? [] : checker.getPropertiesOfType(type).map(({ name }) => name);
      },
      areOf: (name, nodes) =>
        checker.getTypeAtLocation(nodes).map((type) => {
          const types = type?.isUnionType() === true ? type.getTypes() : [type];
          const symbols = types.map((one) => one?.getSymbol());
          return symbols.some((symbol) => symbol?.name === name || symbol?.getParent()?.name === name);
        }),
    });
  } finally {
    api.close();
  }
}

function byText(sites: readonly Site[]): Map<string, Site[]> {
  const found = new Map<string, Site[]>();
  for (const site of sites) {
    const same = found.get(site.text);
    if (same === undefined) found.set(site.text, [site]);
    else same.push(site);
  }
  return found;
}
