/**
 * `npm run release`: creates the files of a release from the commit that is checked out, and pushes them with the image. It uses only an
 * export of that commit, so the same commit always gives the same bytes.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { findServer, helmProgram } from '../test/support/find-server.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { projectRoot, run } from './commands.ts';

interface ReleaseOptions {
  dryRun: boolean;
  /** The repository on GitHub: `owner/name`. */
  repository: string;
  /** The name of the image without a tag. Registries allow only lowercase letters. */
  image: string;
  out: string;
  /** The processors of the single executables, by Node's names. May be empty. */
  processors: readonly string[];
}

interface Release extends ReleaseOptions {
  version: string;
  commit: string;
  /** The time of the commit, which all files of the release get. */
  epochSeconds: number;
  /** The folder with the files of the commit, in which the names of the release replace the placeholder. */
  sources: string;
}

interface Step {
  title: string;
  command: string;
  args: string[];
  cwd: string;
  env?: Record<string, string>;
}

/** Stops a release, with a message for the user. */
class ReleaseError extends Error {
  override readonly name = 'ReleaseError';
}

const defaultOut = join(projectRoot, 'dist-release');

const knownProcessors = ['x64', 'arm64'];

/** The name of the repository in documents, chart and alerts before a release replaces it. */
const placeholder = 'example/weir';

const flags = defineFlags({
  help: `Usage: npm run release -- [flags]

Releases the current commit. The command makes these files: the npm tarballs (weir and
@weir-limits/limiter), the chart, the command line for Linux (x64 and arm64, with Node in it), the bill of materials and SHA256SUMS.
Then it pushes the image for linux/amd64 and linux/arm64, pushes the chart to the same registry, and creates the release on GitHub.

It stops before it creates anything if there are uncommitted changes, if the commit has no tag v<version>, or if CHANGELOG.md has no
section "## <version>". It also stops if a program is missing. It needs gh, helm, and one of docker with buildx, podman and buildah,
which must be signed in to the registry.

Tests of later versions compare with test/released/<version>.json. If that file is missing, the command writes it and stops, so that
you can commit it.

The field repository in package.json determines the names of image and chart, and the links in documents and alerts. In a fork, change it.

  --dry-run              makes the files, prints what would stop the release, and prints the commands that push
  --repository <name>    <owner>/<name> on GitHub (default: the repository in package.json)
  --image <name>         name of the image, without a tag (default: ghcr.io/<owner>/<name>); the chart goes below it
  --processors <list>    processors to make the command line for (default: x64,arm64); "none" makes no command line
  --out <folder>         an empty or new folder for the files (default: dist-release, which the command empties)

Exit status: 0 after a complete release or dry run, 1 if it stopped or failed, 2 for a wrong command line.
`,
  rows: {
    'dry-run': { type: 'boolean' },
    repository: { type: 'string' },
    image: { type: 'string' },
    processors: { type: 'string', default: knownProcessors.join(',') },
    out: { type: 'string' },
  },
  read: (values): ReleaseOptions => {
    const dryRun = values['dry-run'];
    const repository = values.repository ?? ownRepository();
    if (!dryRun && repository === placeholder) {
      throw new FlagError(
        `the repository is still ${placeholder}: to push, set the repository in package.json or --repository to yours`,
      );
    }
    if (!/^[\w.-]+\/[\w.-]+$/.test(repository)) {
      throw new FlagError(`--repository must be <owner>/<name>, not "${repository}"`);
    }
    const image = values.image ?? `ghcr.io/${repository.toLowerCase()}`;
    if (!/^[a-z0-9.-]+(?::\d+)?(?:\/[a-z0-9._-]+)+$/.test(image)) {
      throw new FlagError(`--image must be <registry>/<name> in lowercase and without a tag, not "${image}"`);
    }
    const processors = values.processors === 'none' ? [] : values.processors.split(',');
    const unknown = processors.find((name) => !knownProcessors.includes(name));
    if (unknown !== undefined)
      throw new FlagError(`--processors takes ${knownProcessors.join(',')}, not "${unknown}"`);
    const out = values.out === undefined ? defaultOut : resolve(values.out);
    if (out !== defaultOut && existsSync(out) && readdirSync(out).length > 0) {
      throw new FlagError(`--out must be an empty or new folder, but ${out} has files`);
    }
    return { dryRun, repository, image, out, processors };
  },
});

/** Returns `owner/name` from the field `repository` of package.json: `github:owner/name`. */
function ownRepository(): string {
  const { repository } = JSON.parse(readFileSync(join(projectRoot, 'package.json'), 'utf8')) as {
    repository: string;
  };
  return repository.replace(/^github:/, '');
}

/** Returns the output of the command. @throws ReleaseError */
function printed(command: string, args: readonly string[], cwd = projectRoot): string {
  const { status, stdout, error } = spawnSync(command, args, {
    cwd,
    stdio: ['ignore', 'pipe', 'inherit'],
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  });
  if (status !== 0)
    throw new ReleaseError(`${command} ${args.join(' ')}: ${error?.message ?? `status ${status}`}`);
  return stdout.trim();
}

function readRelease(options: ReleaseOptions, folder: string): Release {
  const commit = printed('git', ['rev-parse', 'HEAD']);
  const sources = join(folder, 'weir');
  mkdirSync(sources);
  printed('git', ['archive', '--format=tar', '--output', join(folder, 'weir.tar'), commit]);
  printed('tar', ['-xf', join(folder, 'weir.tar'), '-C', sources]);
  symlinkSync(join(projectRoot, 'node_modules'), join(sources, 'node_modules'));
  const { version } = JSON.parse(readFileSync(join(sources, 'package.json'), 'utf8')) as { version: string };
  const epochSeconds = Number(printed('git', ['log', '-1', '--format=%ct', commit]));
  return { ...options, version, commit, epochSeconds, sources };
}

/** Returns all problems that block the release, so that you can correct them together. */
function blockingProblems({ version, sources }: Release): string[] {
  const reasons: string[] = [];
  const changed = printed('git', ['status', '--porcelain']).split('\n').filter(Boolean);
  if (changed.length > 0) {
    const names = changed.map((line) => line.trim().split(' ').at(-1));
    const shown = `${names.slice(0, 5).join(', ')}${names.length > 5 ? ', ...' : ''}`;
    reasons.push(`${names.length} uncommitted changes (${shown}): commit or remove them`);
  }
  const tags = printed('git', ['tag', '--points-at', 'HEAD']).split('\n');
  if (!tags.includes(`v${version}`))
    reasons.push(`the commit has no tag v${version} (the version in package.json): run git tag v${version}`);
  if (changesOf(sources, version) === undefined)
    reasons.push(`CHANGELOG.md has no section "## ${version}": add one`);
  if (imageBuilder() === undefined)
    reasons.push('there is no docker with buildx, podman or buildah: install one of them');
  if (!works('gh', '--version')) reasons.push('gh is missing: install it');
  return reasons;
}

/**
 * Writes test/released/<version>.json if it does not exist. The release must contain it, so the command then stops until you commit it.
 */
function recordRelease({ version, dryRun }: Release): void {
  const record = `test/released/${version}.json`;
  if (existsSync(join(projectRoot, record))) return;
  if (dryRun) {
    console.log(`would write ${record} and stop, so that you can commit it`);
    return;
  }
  const args = ['run', '--project', 'tests', 'test/released/released.test.ts', '-t', 'records'];
  mustRun({ title: record, command: 'vitest', args, cwd: projectRoot, env: { RECORD_RELEASE: version } });
  throw new ReleaseError(`${record} is new: commit it, and move the tag to that commit`);
}

function works(command: string, ...args: string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

type ImageBuilder = 'docker' | 'podman' | 'buildah';

/** Returns undefined if there is none. */
function imageBuilder(): ImageBuilder | undefined {
  if (works('docker', 'buildx', 'version')) return 'docker';
  return (['podman', 'buildah'] as const).find((command) => works(command, '--version'));
}

/** Returns the section of CHANGELOG.md without its heading. A date may follow the title in the heading. */
function changesOf(sources: string, title: string): string | undefined {
  const sections = readFileSync(join(sources, 'CHANGELOG.md'), 'utf8').split(/^## /m).slice(1);
  const section = sections.find((text) => new RegExp(`^${RegExp.escape(title)}( .*)?\n`).test(text));
  return section?.slice(section.indexOf('\n')).trim();
}

/** Returns the text with links that work on the page of the release. */
function releaseNotes({ repository, sources, version }: Release): string {
  const text = changesOf(sources, version) ?? changesOf(sources, 'Unreleased') ?? '';
  const base = `https://github.com/${repository}/blob/v${version}/`;
  return `${text.replace(/\]\((?!\w+:)(#?)/g, (_, anchor) => `](${base}${anchor && 'CHANGELOG.md#'}`)}\n`;
}

/**
 * Replaces the placeholder in documents, chart, alerts and examples by the repository and the image of the release. The image becomes the
 * default of the chart, also in the files that are generated from its values and by Helm.
 */
function nameRelease({ sources, repository, image, epochSeconds }: Release, helm: string): void {
  for (const path of printed('git', ['ls-files'], projectRoot).split('\n')) {
    const file = join(sources, path);
    if (path.startsWith('test/') || !existsSync(file)) continue;
    const text = readFileSync(file, 'latin1');
    const named = text
      .replaceAll(`github.com/${placeholder}`, `github.com/${repository}`)
      .replaceAll(`"github:${placeholder}"`, `"github:${repository}"`)
      .replaceAll(`ghcr.io/${placeholder}`, image);
    if (named !== text) writeFileSync(file, named, 'latin1');
  }
  const chart = join(sources, 'charts/weir');
  const [before, after, ...more] = readFileSync(join(chart, 'values.yaml'), 'utf8').split(
    '\n  repository: weir\n',
  );
  if (after === undefined || more.length > 0)
    throw new ReleaseError('values.yaml must contain "repository: weir" exactly once');
  writeFileSync(join(chart, 'values.yaml'), `${before}\n  repository: ${image}\n${after}`);
  const env = { WEIR_HELM: helm };
  mustRun({ title: 'chart', command: process.execPath, args: ['scripts/chart.ts'], cwd: sources, env });
  // Helm preserves the times of files.
  for (const path of readdirSync(chart, { recursive: true, encoding: 'utf8' })) {
    utimesSync(join(chart, path), epochSeconds, epochSeconds);
  }
}

/**
 * Creates `weir-<version>-linux-x64.tar.gz` with the program, a link for the kubectl plugin, and the licenses. For another processor, it
 * takes Node of the same version from Node's npm package.
 */
function makeCommandLine({ version, out, sources, epochSeconds }: Release, processor: string): void {
  const name = `weir-${version}-linux-${processor}`;
  const folder = join(sources, '..', name);
  mkdirSync(folder);
  const isOther = processor !== process.arch;
  const license = join(
    isOther ? nodeOf(processor, folder) : join(dirname(process.execPath), '..'),
    'LICENSE',
  );
  const node = isOther ? ['--node', join(dirname(license), 'bin/node')] : [];
  const args = ['scripts/single-executable.ts', join(folder, 'weir'), ...node];
  mustRun({ title: 'command line', command: process.execPath, args, cwd: sources });
  if (existsSync(license)) copyFileSync(license, join(folder, 'LICENSE.node'));
  rmSync(join(folder, 'package'), { recursive: true, force: true });
  copyFileSync(join(sources, 'LICENSE'), join(folder, 'LICENSE'));
  symlinkSync('weir', join(folder, 'kubectl-weir'));
  const tar = join(sources, '..', `${name}.tar`);
  const same = ['--sort=name', '--owner=0', '--group=0', '--numeric-owner', '--mode=u=rwX,go=rX'];
  printed('tar', [...same, `--mtime=@${epochSeconds}`, '-cf', tar, '-C', dirname(folder), name]);
  printed('gzip', ['-n', '-f', tar]);
  renameSync(`${tar}.gz`, join(out, `${name}.tar.gz`));
}

/** Unpacks Node for a processor into `folder`, and returns its folder. */
function nodeOf(processor: string, folder: string): string {
  const name = `node-linux-${processor}@${process.versions.node}`;
  const [tarball = ''] = printed('npm', ['pack', '--silent', '--pack-destination', folder, name]).split('\n');
  printed('tar', ['-xzf', join(folder, tarball), '-C', folder]);
  rmSync(join(folder, tarball));
  return join(folder, 'package');
}

/** Creates the files of the release in `out`, and returns their names. */
function makeFiles(release: Release, helm: string): string[] {
  const { version, out, sources } = release;
  nameRelease(release, helm);
  mustRun({
    title: 'npm tarballs',
    command: 'npm',
    args: ['pack', '--silent', '--pack-destination', out, '.', './packages/limiter'],
    cwd: sources,
  });
  const chart = join(release.sources, '..', 'chart');
  const versions = ['--version', version, '--app-version', version];
  const args = ['package', 'charts/weir', ...versions, '--destination', chart];
  mustRun({ title: 'chart', command: helm, args, cwd: sources });
  // Helm would use the name of the npm tarball.
  renameSync(join(chart, `weir-${version}.tgz`), join(out, chartFile(version)));
  for (const processor of release.processors) makeCommandLine(release, processor);
  writeFileSync(join(out, `weir-${version}.cdx.json`), billOfMaterials(release));
  const files = readdirSync(out).sort();
  const sums = files.map((name) => `${sha256(readFileSync(join(out, name)))}  ${name}\n`);
  writeFileSync(join(out, 'SHA256SUMS'), sums.join(''));
  return [...files, 'SHA256SUMS'];
}

function chartFile(version: string): string {
  return `weir-chart-${version}.tgz`;
}

interface Bill {
  serialNumber: string;
  metadata: { timestamp: string };
  components: { 'bom-ref': string; properties: { name: string; value: string }[] }[];
  dependencies: { ref: string; dependsOn: string[] }[];
}

/**
 * Returns the run-time dependencies of the package as CycloneDX. npm adds the current time and a random number, which are replaced.
 * `--omit dev` would also omit packages that both kinds of dependencies need, so this function removes only packages that npm marks as
 * development packages.
 */
function billOfMaterials({ sources, epochSeconds }: Release): string {
  const flags = ['--package-lock-only', '--sbom-format', 'cyclonedx', '--sbom-type', 'application'];
  const bill = JSON.parse(printed('npm', ['sbom', ...flags], sources)) as Bill;
  const isMark = ({ name }: { name: string }): boolean => name === 'cdx:npm:package:development';
  const left = new Set(
    bill.components.filter((one) => one.properties.some(isMark)).map((one) => one['bom-ref']),
  );
  bill.components = bill.components.filter((one) => !left.has(one['bom-ref']));
  bill.dependencies = bill.dependencies
    .filter(({ ref }) => !left.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((name) => !left.has(name)) }));
  bill.metadata.timestamp = new Date(epochSeconds * 1000).toISOString();
  bill.serialNumber = '';
  // RFC 9562, section 5.8.
  const hash = sha256(JSON.stringify(bill));
  const parts = [hash.slice(0, 8), hash.slice(8, 12), `8${hash.slice(13, 16)}`, `a${hash.slice(17, 20)}`];
  bill.serialNumber = `urn:uuid:${parts.join('-')}-${hash.slice(20, 32)}`;
  return `${JSON.stringify(bill, null, 2)}\n`;
}

function sha256(content: string | Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** The order matters: when people see a release, everything that it names must exist. */
function pushingSteps(release: Release, files: readonly string[], helm: string): Step[] {
  const { repository, image, version, out } = release;
  const create = ['release', 'create', `v${version}`, '--repo', repository, '--verify-tag'];
  const words = ['--title', `Weir ${version}`, '--notes-file', 'notes.md'];
  const kind = version.includes('-') ? ['--prerelease'] : [];
  return [
    ...imageSteps(release, imageBuilder() ?? 'docker'),
    { title: 'chart', command: helm, args: ['push', chartFile(version), `oci://${image}/charts`], cwd: out },
    { title: 'release', command: 'gh', args: [...create, ...words, ...kind, ...files], cwd: out },
  ];
}

/**
 * docker builds and pushes in one step, and writes the digest to image.json. The other programs need two steps, and write it to
 * image.digest.
 */
function imageSteps(release: Release, command: ImageBuilder): Step[] {
  const { repository, version, out, sources: cwd, epochSeconds } = release;
  const image = `${release.image}:${version}`;
  const labels = Object.entries({
    source: `https://github.com/${repository}`,
    revision: release.commit,
    version,
    licenses: 'Apache-2.0',
  }).flatMap(([name, value]) => ['--label', `org.opencontainers.image.${name}=${value}`]);
  const platforms = ['--platform', 'linux/amd64,linux/arm64'];
  if (command === 'docker') {
    const proofs = ['--sbom=true', '--provenance=mode=max', '--metadata-file', join(out, 'image.json')];
    const args = ['buildx', 'build', ...platforms, '--tag', image, ...labels, ...proofs, '--push', '.'];
    return [{ title: 'image', command, args, cwd, env: { SOURCE_DATE_EPOCH: String(epochSeconds) } }];
  }
  const time = ['--timestamp', String(epochSeconds)];
  const digest = ['--digestfile', join(out, 'image.digest')];
  return [
    {
      title: 'image',
      command,
      args: ['build', ...platforms, '--manifest', image, ...labels, ...time, '.'],
      cwd,
    },
    {
      title: 'push of the image',
      command,
      args: ['manifest', 'push', '--all', ...digest, image, `docker://${image}`],
      cwd,
    },
  ];
}

function shellText({ command, args, env = {} }: Step): string {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const words = [command, ...args].map((word) => (/[^\w./:=,@-]/.test(word) ? `'${word}'` : word));
  return [...variables, ...words].join(' ');
}

function mustRun(step: Step): void {
  const { command, args, cwd, env } = step;
  const status = run(command, args, { cwd, env: { ...process.env, ...env } });
  if (status !== 0) throw new ReleaseError(`${step.title} failed (${status}): ${shellText(step)}`);
}

function makeRelease(options: ReleaseOptions, folder: string): void {
  const helm = findServer(helmProgram);
  if ('missing' in helm) throw new ReleaseError(`${helm.missing}; npm run test:servers -- helm builds it`);
  const release = readRelease(options, folder);
  const { version, commit, out, dryRun } = release;
  console.log(`weir ${version} of commit ${commit}`);
  const reasons = blockingProblems(release);
  if (reasons.length > 0 && !dryRun)
    throw new ReleaseError(`stopped before it created anything\n  ${reasons.join('\n  ')}`);
  for (const reason of reasons) console.log(`would stop: ${reason}`);
  recordRelease(release);
  if (out === defaultOut) rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  const files = makeFiles(release, helm.path);
  writeFileSync(join(out, 'notes.md'), releaseNotes(release));
  for (const name of files) console.log(`made: ${join(out, name)}`);
  for (const step of pushingSteps(release, files, helm.path)) {
    console.log(`${dryRun ? 'would run' : 'runs'}: ${shellText(step)}`);
    if (!dryRun) mustRun(step);
  }
  console.log(dryRun ? 'dry run: nothing was pushed' : `released weir ${version}`);
}

const options = scriptFlags(flags);
const folder = mkdtempSync(join(tmpdir(), 'weir-release-'));
try {
  makeRelease(options, folder);
} catch (error) {
  if (!(error instanceof ReleaseError)) throw error;
  console.error(`release: ${error.message}`);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
