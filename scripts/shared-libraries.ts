import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';

/** The files of the C library, which the base of the image contains. */
const ofTheCLibrary = /^(?:ld-linux[^/]*|lib(?:c|m|dl|pthread|rt))\.so\.\d+$/;

/** Returns the paths of the shared libraries that a program needs, except the C library. */
export function sharedLibraries(program: string): string[] {
  const listing = execFileSync('ldd', [program], { encoding: 'utf8' });
  const paths = [...listing.matchAll(/^\s*\S+ => (\/\S+) /gm)].map((match) => match[1] as string);
  return paths.filter((path) => !ofTheCLibrary.test(basename(path)));
}
