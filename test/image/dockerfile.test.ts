import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { entries } from '../../scripts/bundle.ts';

const root = join(import.meta.dirname, '../..');
const text = readFileSync(join(root, 'Dockerfile'), 'utf8');
const instructions = text
  .split('\n')
  .filter((line) => line !== '' && !line.startsWith('#'))
  .map((line) => {
    const [word = '', ...rest] = line.split(' ');
    return { word, rest: rest.join(' ') };
  });
const lastStage = instructions.slice(instructions.findLastIndex(({ word }) => word === 'FROM'));
const ofLast = (word: string) => lastStage.filter((one) => one.word === word).map(({ rest }) => rest);

describe('the Dockerfile', () => {
  it('builds with the Node that the project runs on', () => {
    const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
      devDependencies: Record<string, string>;
    };
    expect(instructions[0]).toEqual({
      word: 'FROM',
      rest: `node:${devDependencies['node']}-trixie-slim AS build`,
    });
  });

  it('runs nothing but scripts that exist, and that the tests run as well', () => {
    const runs = instructions.filter(({ word }) => word === 'RUN').map(({ rest }) => rest);
    expect(runs).toEqual([
      'npm ci --ignore-scripts --no-audit --no-fund',
      'node scripts/image-files.ts /',
      'chmod -R a+rX /app /nodejs package.json scripts',
      'chown -R 65532:65532 /app/compile-cache',
      'node scripts/image-warm-up.ts /',
      'chown -R 0:0 /app/compile-cache',
    ]);
    expect(existsSync(join(root, 'scripts/image-files.ts'))).toBe(true);
  });

  it('ends in a stage in which nothing is run, as a user without rights', () => {
    expect(ofLast('FROM')).toEqual(['gcr.io/distroless/base-nossl-debian13:nonroot']);
    expect(ofLast('RUN')).toEqual([]);
    expect(ofLast('USER')).toEqual(['65532:65532']);
    expect(ofLast('ENTRYPOINT')).toEqual(['["/bin/weir"]']);
    expect(ofLast('CMD')).toEqual(['["limiter"]']);
  });

  it('sets the variables with which the tests run what it copies', () => {
    expect(ofLast('ENV')).toEqual([
      'NODE_ENV=production NODE_COMPILE_CACHE=/app/compile-cache LD_LIBRARY_PATH=/nodejs/lib',
    ]);
    expect(ofLast('COPY')).toEqual([
      '--from=build /nodejs/ /nodejs/',
      '--from=build /app/ /app/',
      '--from=build /bin/weir /bin/ratelimit /bin/',
    ]);
  });

  it('sends the builder all that the steps read', () => {
    const sent = readFileSync(join(root, '.dockerignore'), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('!'))
      .map((line) => line.slice(1));
    const { include } = JSON.parse(readFileSync(join(root, 'tsconfig.build.json'), 'utf8')) as {
      include: string[];
    };
    const compiled = include.map((pattern) => pattern.split('/')[0] as string);
    const folders = ['bin', 'crds', 'examples', 'scripts'];
    const files = ['docs/openapi.json', 'package.json', 'LICENSE', 'package-lock.json'];
    for (const name of [...compiled, ...folders, ...files, 'tsconfig.json', 'tsconfig.build.json'])
      expect(sent).toContain(name);
    for (const name of sent) expect(existsSync(join(root, name)), name).toBe(true);
  });
});

describe('the bundle', () => {
  it('has the program of every thread, by its name', () => {
    const programs = globSync('{limiter,control-plane,rules,process}/**/{*-worker,worker-program}.ts', {
      cwd: root,
    });
    expect(programs.length).toBeGreaterThan(3);
    for (const program of programs) expect(entries[basename(program, '.ts')], program).toBe(program);
  });
});
