/**
 * `node scripts/build-library.ts [folder]`: packages/limiter/dist, with the types of what programs import and the licenses of the
 * packages within. In one bundle, because a program that limits requests should not have to install a server's packages.
 */
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { type Plugin, rolldown } from 'rolldown';
import { isolatedDeclarationSync } from 'rolldown/experimental';
import { projectRoot } from './commands.ts';

const source = join(projectRoot, 'packages/limiter');
/** Oldest Node that runs it. */
const target = 'node22';

/**
 * What a capability of the limiter loads when its settings ask for it: servers, exporters of spans, pages. The library has the settings
 * alone, and never asks.
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
    // No module of ours does anything unless it is asked.
    treeshake: { moduleSideEffects: false },
    // A library reads no environment, and one of the packages asks for a variable of its own.
    transform: { target, define: { 'process.env': '({})' } },
  });
  const { output } = await build.write({
    dir: dist,
    format: 'esm',
    // With its lines, which Node shows of an error that nobody catches.
    minify: { compress: true, mangle: true, codegen: { removeWhitespace: false } },
    chunkFileNames: '[name].js',
  });
  await build.close();
  return output.flatMap((chunk) => (chunk.type === 'chunk' ? chunk.moduleIds : []));
}

/** Each file's own, as nothing that is exported needs to be inferred. */
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
