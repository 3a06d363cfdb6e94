import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as programs from '../test/support/find-server.ts';

/** Commands of programs, by the names of the constants of find-server.ts. */
const commands = new Map(
  Object.entries(programs).flatMap(([name, value]) =>
    typeof value === 'object' && 'command' in value ? [[name, value.command] as const] : [],
  ),
);

/** The file that reads definitions of objects of other projects. A test that imports it needs them, although they are not a program. */
const definitionsFile = 'definitions.ts';

export interface Needs {
  /** The same as `ServerProgram.command`. */
  commands: Set<string>;
  definitions: boolean;
}

/** Returns the programs of find-server.ts that test files, and the files that they import, name. Paths are absolute. */
export function neededServers(files: readonly string[]): Needs {
  const needs: Needs = { commands: new Set(), definitions: false };
  const seen = new Set(files);
  for (const file of seen) {
    if (basename(file) === definitionsFile) needs.definitions = true;
    for (const { names, path } of importsOf(readFileSync(file, 'utf8'))) {
      if (basename(path) === 'find-server.ts') {
        for (const name of names.filter((one) => commands.has(one))) {
          needs.commands.add(commands.get(name) as string);
        }
      } else {
        seen.add(join(file, '..', path));
      }
    }
  }
  return needs;
}

/** Returns the imports of files of this repository, without imports of types. */
function importsOf(text: string): { names: string[]; path: string }[] {
  const statements = text.matchAll(
    /^(?:import|export) (?!type )(?:([^;'"]*?) from )?'(\.{1,2}\/[^']+\.ts)'|\bimport\('(\.{1,2}\/[^']+\.ts)'\)/gm,
  );
  return Array.from(statements, ([, what = '', path, dynamicPath]) => ({
    names: what.match(/\w+/g) ?? [],
    path: (path ?? dynamicPath) as string,
  }));
}
