import { execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type StartedProgram, startProgram } from '../../scripts/started-program.ts';
import { type ImageFiles, imageInMemory, makeImageFiles } from '../support/image-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const portOf = (program: StartedProgram, what: string): number =>
  Number(new RegExp(`Listening for ${what} on '[^']*:(\\d+)'`).exec(program.output())?.[1]);
const httpPort = (program: StartedProgram): number => portOf(program, 'HTTP');

async function ask(port: number): Promise<number> {
  const descriptors = [{ entries: [{ key: 'remote_address', value: '203.0.113.7' }] }];
  const body = JSON.stringify({ domain: 'shop', descriptors });
  return (await fetch(`http://127.0.0.1:${port}/json`, { method: 'POST', body })).status;
}

describe('the files of the image', () => {
  let image: ImageFiles;
  const examples = () => ({ RUNTIME_ROOT: join(image.root, 'app', 'examples') });

  beforeAll(() => {
    image = makeImageFiles();
  }, 300_000);

  afterAll(() => image?.remove());

  it('are Node, the package with its production dependencies, and two programs', () => {
    expect(readdirSync(image.root).sort()).toEqual(['app', 'bin', 'nodejs']);
    expect(readdirSync(join(image.root, 'bin')).sort()).toEqual(['ratelimit', 'weir']);
    const packages = readdirSync(join(image.root, 'app', 'node_modules'));
    expect(packages).toContain('pino');
    for (const name of ['typescript', 'vitest', '@biomejs', 'node', 'fast-check', 'ioredis']) {
      expect(packages).not.toContain(name);
    }
    const files = readdirSync(join(image.root, 'app'), { recursive: true, encoding: 'utf8' });
    expect(files.filter((name) => /\.ts$|\.map$/.test(name))).toEqual([]);
    expect(files).toContain('docs/openapi.json');
  });

  it('have programs that name Node by its path, without env', () => {
    for (const name of ['weir', 'ratelimit']) {
      const [first] = readFileSync(join(image.root, 'bin', name), 'utf8').split('\n');
      expect(first).toBe(`#!${join(image.root, 'nodejs', 'bin', 'node')}`);
    }
  });

  it('bring the libraries that Node needs besides the C library', () => {
    const { env, root } = image;
    const listing = execFileSync('ldd', [join(root, 'nodejs', 'bin', 'node')], { env, encoding: 'utf8' });
    const elsewhere = [...listing.matchAll(/^\s*(\S+) => (\/\S+) /gm)]
      .filter(([, , path]) => !path?.startsWith(`${root}/`))
      .map(([, name]) => name as string);
    expect(elsewhere.filter((name) => !/^lib(c|m|dl|pthread|rt)\.so\.\d+$/.test(name))).toEqual([]);
  });

  it('answer as /bin/ratelimit without arguments, PATH and a folder to write to', async () => {
    const program = await startProgram({
      command: join(image.root, 'bin', 'ratelimit'),
      args: [],
      env: { ...image.env, ...imageInMemory, ...examples() },
      until: /Listening for HTTP/,
    });
    const codes: number[] = [];
    for (let i = 0; i < 12; i++) codes.push(await ask(httpPort(program)));
    expect(codes[0]).toBe(200);
    expect(codes).toContain(429);
    for (const path of ['', '/files/limiter.js', '/node_modules/lit-html/lit-html.js']) {
      const answer = await fetch(`http://127.0.0.1:${portOf(program, 'debug')}/console${path}`);
      expect([path, answer.status]).toEqual([path, 200]);
    }
    expect(await program.stop()).toBe(0);
  });

  it('have the programs of threads where they are looked for', async () => {
    const programs = readdirSync(join(image.root, 'app', 'dist', 'cli'));
    expect(programs).toEqual(
      expect.arrayContaining(['load-worker.js', 'load-resources-worker.js', 'worker-program.js']),
    );
    // Memcache fails open, so that it takes no server.
    const memcache = { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: '127.0.0.1:1', LIMITER_WORKERS: '2' };
    const program = await startProgram({
      command: join(image.root, 'bin', 'ratelimit'),
      args: [],
      env: { ...image.env, ...imageInMemory, ...examples(), ...memcache },
      until: /Listening for HTTP/,
    });
    expect(await ask(httpPort(program))).toBe(200);
    expect(await program.stop()).toBe(0);
  });

  it('have the code of that start compiled already', async () => {
    const log = join(temporaryFolder(), 'cache.log');
    const program = await startProgram({
      command: join(image.root, 'bin', 'ratelimit'),
      args: [],
      env: { ...image.env, ...imageInMemory, ...examples(), NODE_DEBUG_NATIVE: 'COMPILE_CACHE' },
      until: /Listening for HTTP/,
    });
    await program.stop();
    writeFileSync(log, program.output());
    const cached = readFileSync(log, 'utf8').match(/ was accepted/g)?.length ?? 0;
    expect(cached).toBeGreaterThan(30);
  });

  it('run the command line and the control plane', async () => {
    const weir = join(image.root, 'bin', 'weir');
    const { env } = image;
    const { version } = JSON.parse(readFileSync(join(image.root, 'app', 'package.json'), 'utf8')) as {
      version: string;
    };
    expect(String(execFileSync(weir, ['--version'], { env }))).toMatch(`weir ${version} `);
    const checked = spawnSync(weir, ['check', join(image.root, 'app', 'examples', 'rules')], { env });
    expect(checked.status).toBe(0);
    const controlPlane = await startProgram({
      command: weir,
      args: ['control-plane'],
      env: {
        ...env,
        SOURCE: 'DIRECTORY',
        MANIFESTS_DIRECTORY: join(image.root, 'app', 'examples', 'manifests'),
        HOST: '127.0.0.1',
        PORT: '0',
        XDS_HOST: '127.0.0.1',
        XDS_PORT: '0',
        API_HOST: '127.0.0.1',
        API_PORT: '0',
      },
      until: /Listening for xDS/,
    });
    expect(await controlPlane.stop()).toBe(0);
  });
});
