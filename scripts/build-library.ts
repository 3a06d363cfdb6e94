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
/** This file of the library says which version of Node it needs. */
const nodeVersion = 'node-version.ts';
/** The oldest Node that can parse the library, and so get that far. */
const target = 'node20';

/**
 * Reads the exports of Node's modules when they are used. An import of a name that an old Node does not export would end the program
 * before the library can say which version it needs.
 */
const withoutNamedImports: Plugin = {
  name: 'without-named-imports',
  renderChunk: (code) => {
    let modules = 0;
    return code.replace(/^import \{ ([^}]+) \} from "(node:[^"]+)";$/gm, (_, names: string, from: string) => {
      modules += 1;
      const all = `node${modules}`;
      return `import * as ${all} from "${from}";\nconst { ${names.replaceAll(' as ', ': ')} } = ${all};`;
    });
  },
};

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
    plugins: [withoutCapabilities, withoutNamedImports],
    // Importing one of our other modules has no side effects.
    treeshake: { moduleSideEffects: (id) => id === join(source, nodeVersion) },
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
    if (!name.endsWith('.ts') || name.endsWith('.test.ts') || name === nodeVersion) continue;
    const { code, errors } = isolatedDeclarationSync(name, readFileSync(join(source, name), 'utf8'));
    // Types that programs cannot reach may be inferred.
    if (errors.length === 0 && !/["']\.\.\//.test(code))
      writeFileSync(
        join(dist, name.replace(/ts$/, 'd.ts')),
        code
          .replace(new RegExp(`^import ["']./${nodeVersion}["'];\n`, 'm'), '')
          .replace(/(from '\.\/[^']+)\.ts'/g, "$1.js'")
          .replace(/(from "\.\/[^"]+)\.ts"/g, '$1.js"'),
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
