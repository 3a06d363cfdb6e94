/**
 * `node scripts/build-library.ts [folder]`: builds packages/limiter/dist as one bundle, with its types and the licenses of the
 * packages in it. A program that limits requests should not have to install the packages of a server.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Plugin, rolldown } from 'rolldown';
import { isolatedDeclarationSync } from 'rolldown/experimental';
import { projectRoot } from './commands.ts';

const source = join(projectRoot, 'packages/limiter');
/** The oldest Node that can run the library. */
const target = 'node22';

/**
 * Leaves out the code that capabilities load on demand: servers, exporters of spans, pages. The library has only their settings,
 * and never loads them.
 */
const withoutCapabilities: Plugin = {
  name: 'without-capabilities',
  resolveId: (id, importer = '') =>
    importer.endsWith('/declaration.ts') && id.startsWith('./') && !id.endsWith('settings.ts') ? none : null,
  load: (id) => (id === none ? 'export {};' : null),
};
const none = '\0none';

async function bundle(dist: string): Promise<string[]> {
  const build = await rolldown({
    cwd: projectRoot,
    input: Object.fromEntries(
      ['index', 'express', 'fastify'].map((name) => [name, join(source, `${name}.ts`)]),
    ),
    platform: 'node',
    external: /^node:/,
    plugins: [withoutCapabilities],
    // Importing one of our modules has no side effects.
    treeshake: { moduleSideEffects: false },
    // A library reads no environment, but one of the packages reads a variable of its own.
    transform: { target, define: { 'process.env': '({})' } },
  });
  const { output } = await build.write({
    dir: dist,
    format: 'esm',
    // Keeps lines, which Node shows with an uncaught error.
    minify: { compress: true, mangle: true, codegen: { removeWhitespace: false } },
    chunkFileNames: '[name].js',
  });
  await build.close();
  return output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []));
}

/** Writes the types of each file separately, because nothing exported needs inferred types. */
function writeTypes(dist: string): void {
  for (const name of readdirSync(source)) {
    if (!name.endsWith('.ts') || name.endsWith('.test.ts')) continue;
    const { code, errors } = isolatedDeclarationSync(name, readFileSync(join(source, name), 'utf8'));
    // Types that programs cannot reach may be inferred.
    if (errors.length === 0 && !/["']\.\.\//.test(code))
      writeFileSync(
        join(dist, name.replace(/ts$/, 'd.ts')),
        code.replace(/(from '\.\/[^']+)\.ts'/g, "$1.js'").replace(/(from "\.\/[^"]+)\.ts"/g, '$1.js"'),
      );
  }
}

function writeLicenses(file: string, modules: readonly string[]): void {
  const packages = new Set(
    modules.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1] ?? []),
  );
  const texts = [...packages].sort().map((name) => {
    const folder = join(projectRoot, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const licenseFile = readdirSync(folder).find((one) => /^licen[cs]e/i.test(one));
    const text = licenseFile === undefined ? '' : readFileSync(join(folder, licenseFile), 'utf8');
    return `${name} ${version} (${license})\n\n${text}`;
  });
  writeFileSync(file, texts.join(`\n${'-'.repeat(80)}\n\n`));
}

const dist = resolve(process.argv[2] ?? join(source, 'dist'));
rmSync(dist, { recursive: true, force: true });
mkdirSync(dist, { recursive: true });
const modules = await bundle(dist);
writeTypes(dist);
if (process.argv[2] === undefined) {
  writeLicenses(join(source, 'LICENSES-OF-OTHERS.txt'), modules);
  copyFileSync(join(projectRoot, 'LICENSE'), join(source, 'LICENSE'));
}
