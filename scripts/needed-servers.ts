import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import * as programs from '../test/support/find-server.ts';

/** The keys are names of constants. */
const commands = new Map(
  Object.entries(programs).flatMap(([name, value]) =>
    typeof value === 'object' && 'command' in value ? [[name, value.command] as const] : [],
  ),
);

/** Who imports this file wants the definitions of objects of others, which are no program. */
const definitionsFile = 'definitions.ts';

export interface Needs {
  /** As `ServerProgram.command`. */
  commands: Set<string>;
  definitions: boolean;
}

/** What test files talk to: the programs of find-server.ts that they, and what they import, name. Paths are absolute. */
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

/** The imports of files of this repository, without imports of types. */
function importsOf(text: string): { names: string[]; path: string }[] {
  const statements = text.matchAll(
    /^(?:import|export) (?!type )(?:([^;'"]*?) from )?'(\.{1,2}\/[^']+\.ts)'|\bimport\('(\.{1,2}\/[^']+\.ts)'\)/gm,
  );
  return Array.from(statements, ([, what = '', path, dynamicPath]) => ({
    names: what.match(/\w+/g) ?? [],
    path: (path ?? dynamicPath) as string,
  }));
}
