/** The text of a file with one deliberate defect. Pure. */
import { parseAst } from 'rolldown/parseAst';

export interface Defect {
  /** What goes wrong, as a reader of the documents would say it. */
  defect: string;
  /** From the root of the project. */
  file: string;
  /** The declaration that holds the text: `isTransient`, `WatchProgress.watchEnded`, `ControlLoop.#apply`. */
  within: string;
  /** Occurs once in the declaration. */
  search: string;
  replace: string;
}

/** A defect that a test file finds. */
export interface Mutant extends Defect {
  /** From the root of the project. The test file that fails with the defect. It stands beside the sources, so that it shares its process with others. */
  killedBy: string;
  /** The test waits for what the defect keeps from coming. Elsewhere a test that is out of time shows nothing. */
  byTimeout?: true;
}

export class MutantError extends Error {}

/** Throws a MutantError where the mutant does not apply any more. */
export function mutated(source: string, { file, within, search, replace }: Defect): string {
  const { start, end } = declarationIn(source, file, within);
  const text = source.slice(start, end);
  const at = text.indexOf(search);
  if (at < 0) throw new MutantError(`${file}: ${within} does not contain ${JSON.stringify(search)}`);
  if (text.indexOf(search, at + 1) >= 0)
    throw new MutantError(`${file}: ${within} contains ${JSON.stringify(search)} more than once`);
  if (search === replace) throw new MutantError(`${file}: ${within}: the mutant changes nothing`);
  return source.slice(0, start + at) + replace + source.slice(start + at + search.length);
}

interface Span {
  start: number;
  end: number;
}

/** As far as the nodes of ESTree are looked at here. */
interface Declared extends Span {
  type: string;
  id?: { name: string } | null;
  key?: { name?: string; type: string };
  kind?: string;
  declaration?: Declared | null;
  declarations?: Declared[];
  body?: { body?: Declared[] };
}

function declarationIn(source: string, file: string, within: string): Span {
  const [name, member] = within.split('.');
  const { body } = parseAst(source, { lang: 'ts' }) as unknown as { body: Declared[] };
  const top = body
    .map((node) => node.declaration ?? node)
    .flatMap((node) => node.declarations ?? [node])
    .filter(({ id }) => id?.name === name);
  const found =
    member === undefined
      ? top
      : top
          .flatMap(({ body: classBody }) => classBody?.body ?? [])
          .filter((node) => memberName(node) === member);
  const [only] = found;
  if (only === undefined) throw new MutantError(`${file} has no ${within}`);
  if (found.length > 1) throw new MutantError(`${file} has several ${within}`);
  return only;
}

function memberName({ key, kind }: Declared): string {
  if (kind === 'constructor') return 'constructor';
  return key?.type === 'PrivateIdentifier' ? `#${key.name}` : (key?.name ?? '');
}
