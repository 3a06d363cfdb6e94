import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Kind } from '../../scripts/cost-of-change/names.ts';
import type { Measurement } from '../../scripts/cost-of-change/record.ts';
import { measureCommit, measureCost } from '../../scripts/cost-of-change.ts';

const project: Record<string, string> = {
  'tsconfig.json': JSON.stringify({
    compilerOptions: {
      target: 'esnext',
      module: 'nodenext',
      strict: true,
      allowJs: true,
      noEmit: true,
      types: [],
    },
    include: ['**/*.ts', '**/*.js'],
  }),
  'package.json': '{ "type": "module" }',
  'rules/model.ts': `
    import type { Hidden } from './hidden.ts';
    interface Shown { key: string; hideIdentity: boolean; hidden?: Hidden }
    export interface Rule extends Shown { limits: Limit[] }
    export interface Limit { unit: string; requestsPerUnit: number; algorithm: number }
    export interface Calendar { unit: string; startsOn: number }
    export interface ReserveTerms { ttlSeconds: number; onExpiry: string }
    export const Algorithm = { FIXED_WINDOW: 0, TOKEN_BUCKET: 2 } as const;`,
  // The type passes the field on under its name.
  'rules/hidden.ts': `
    import type { Rule } from './model.ts';
    export interface Hidden { hideIdentity: boolean }
    export const isShown = ({ hideIdentity }: Rule): Hidden => ({ hideIdentity });`,
  // Computed access to rows of a table.
  'rules/table.ts': `
    import type { Limit, Rule } from './model.ts';
    export const rows = [{ spelling: 'hide_identity', property: 'hideIdentity' }] as const;
    export const flagsOf = (rule: Rule) => rows.map(({ property }) => rule[property]);
    export type Counted = Pick<Limit, 'unit'>;`,
  'rules/computed.ts': `
    import type { Rule } from './model.ts';
    import { rows } from './table.ts';
    export const all = (rule: Rule) => rows.filter(({ property }) => rule[property]);`,
  // A comment, a message and a variable: hideIdentity
  'rules/prose.ts': `
    /** As hideIdentity says. */
    const hideIdentity = 'hide_identity must be true or false';
    export const text = hideIdentity;`,
  'rules/pattern.ts': `export const isFlag = (name: string) => /^(?:hide_identity|unlimited)$/.test(name);`,
  'rules/window.ts': `
    import { Algorithm, type Limit } from './model.ts';
    import type { Counted } from './table.ts';
    export const words = (limit: Counted) => limit.unit;
    export const isBucket = ({ algorithm }: Limit) => algorithm === Algorithm.TOKEN_BUCKET;`,
  'rules/count.ts': `
    import type { Rule } from './model.ts';
    export const countOf = (rule: Rule) => rule.limits.length;`,
  'rules/match.ts': `
    import type { Limit, Rule } from './model.ts';
    export interface Match extends Omit<Rule, 'limits'> { limits: Limit[] }`,
  'rules/matched.ts': `
    import type { Match } from './match.ts';
    export const isLimited = (match: Match) => match.limits.length > 0;`,
  'rules/pick.ts': `
    import type { Rule } from './model.ts';
    export type Limited = Pick<Rule, 'limits'>;`,
  // Other things with the same names.
  'process/body.ts': 'export const isLarge = (body: { limits: number }) => body.limits > 1;',
  'process/pacing.ts': `
    export class TokenBucket { unit = 'ms'; key = ''; ttlSeconds = 1 }
    export const unitOf = (bucket: TokenBucket) => bucket.unit;`,
  'process/pace.test.ts': `import { rule } from '../rules/model.ts'; export const x = { hideIdentity: true };`,
  'limiter/stores/token-bucket.ts': 'export const take = (tokens: number) => tokens - 1;',
  'limiter/stores/count.ts': `import { take } from './token-bucket.ts'; export const count = take;`,
  'limiter/settings/settings.ts': `
    export const rows = {
      grpcPort: { name: 'GRPC_PORT', kind: Number, default: 8081, summary: 'Port.' },
      port: { name: 'PORT', kind: Number, default: 8080, summary: 'Port.', needs: [{ name: 'GRPC_PORT' }] },
    };
    export type Settings = { readonly [Key in keyof typeof rows]: (typeof rows)[Key]['default'] };`,
  'limiter/main.ts': `
    import type { Settings } from './settings/settings.ts';
    export const start = ({ port, ...others }: Settings) => [port, others.grpcPort];`,
  'limiter/log.ts': `
    export const lines = { port: 1, text: 'GRPC_PORT is taken' };
    export const named = ['GRPC_PORT', 'PORT'];`,
  'limiter/environment.ts': `
    declare const env: Record<string, string | undefined>;
    export const isGiven = () => env['GRPC_PORT'] !== undefined;`,
  'limiter/environment-member.ts': `
    declare const env: { GRPC_PORT?: string };
    export const given = () => env.GRPC_PORT;`,
  'control-plane/conditions.ts': `
    export const reasons = { Valid: { of: 1 }, FleetNotAllowed: { of: 1 } } as const satisfies object;
    export const newCondition = (type: string, reason: keyof typeof reasons) => ({ type, reason });
    export const settled = { type: 'Valid', status: 'True', reason: 'Settled' };`,
  'control-plane/decide.ts': `
    import { reasons } from './conditions.ts';
    export const refuse = () => reasons.FleetNotAllowed;
    export const isValid = (reason: string) => reason === 'Valid';`,
  'control-plane/accept.ts': `
    import { newCondition } from './conditions.ts';
    export const accepted = newCondition('Accepted', 'Valid');`,
  'control-plane/types.ts': `export const types = { type: 'Valid', other: 'Settled' };`,
  'cli/shared/flags.ts': `
    export const help = \`  -n, --namespace <name>  its namespace\\n\`;
    export interface ParsedFlags { text(name: string): string | undefined; on(name: string): boolean }`,
  'cli/check/check.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    import { help } from '../shared/flags.ts';
    export const text = \`Usage: weir check [--strict]
       weir check --dry-run

\${help}  --strict  warnings are errors
\`;
    export const run = (flags: ParsedFlags) => flags.on('strict') && flags.text('namespace');`,
  'cli/check/dry.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    export const names = ['dry-run', 'strict'];
    export const dry = (flags: ParsedFlags) => names.filter((name) => flags.on(name));`,
  'cli/check/given.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    export const isStrict = (given: ParsedFlags | undefined) => given?.on('strict');`,
  'cli/check/destructured.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    export const isStrict = ({ on }: ParsedFlags) => on('strict');`,
  'cli/check/passed.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    const either = (name: string, given: ParsedFlags) => given.on(name);
    export const isStrict = (given: ParsedFlags) => either('strict', given);`,
  'cli/check/other.ts': `
    export const isStrict = (flags: Set<string>) => flags.has('strict');`,
  'console/rules.js': `export const shown = (rule) => (rule.hideIdentity ? 'hidden' : rule.key);`,
};

let root: string;
let measured: Measurement;

beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), 'weir-cost-'));
  for (const [path, text] of Object.entries(project)) {
    mkdirSync(join(root, dirname(path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  measured = measureCost(root, 'tsconfig.json');
});
afterAll(() => rmSync(root, { recursive: true }));

const filesOf = (kind: Kind, name: string) => measured.touched[kind].get(name);

describe('the files that touch', () => {
  it('a field name it as a property, a string or in a pattern; computed access is its table’s', () => {
    expect(filesOf('field', 'hideIdentity')).toEqual([
      'console/rules.js',
      'rules/hidden.ts',
      'rules/model.ts',
      'rules/pattern.ts',
      'rules/table.ts',
    ]);
  });

  it('a field of one word refer to the property of a type of rules', () => {
    expect(filesOf('field', 'unit')).toEqual(['rules/model.ts', 'rules/table.ts', 'rules/window.ts']);
    expect(filesOf('field', 'key')).toEqual(['rules/model.ts']);
    expect(filesOf('field', 'ttlSeconds')).toEqual(['rules/model.ts']);
  });

  it('the only field that a type of rules declares itself refer to it', () => {
    const files = ['count', 'match', 'matched', 'model', 'pick'].map((name) => `rules/${name}.ts`);
    expect(filesOf('field', 'limits')).toEqual(files);
  });

  it('an algorithm name its constant, or are named after it, or import such a file', () => {
    expect([...measured.touched.algorithm]).toEqual([
      ['FIXED_WINDOW', ['rules/model.ts']],
      [
        'TOKEN_BUCKET',
        ['limiter/stores/count.ts', 'limiter/stores/token-bucket.ts', 'rules/model.ts', 'rules/window.ts'],
      ],
    ]);
  });

  it('a setting refer to the property of its row, or name its variable', () => {
    expect([...measured.touched.setting]).toEqual([
      [
        'GRPC_PORT',
        [
          'limiter/environment-member.ts',
          'limiter/environment.ts',
          'limiter/log.ts',
          'limiter/main.ts',
          'limiter/settings/settings.ts',
        ],
      ],
      ['PORT', ['limiter/main.ts', 'limiter/settings/settings.ts']],
    ]);
  });

  it('a reason name it in the place of a reason', () => {
    expect([...measured.touched.reason]).toEqual([
      ['FleetNotAllowed', ['control-plane/conditions.ts', 'control-plane/decide.ts']],
      ['Settled', ['control-plane/conditions.ts']],
      ['Valid', ['control-plane/accept.ts', 'control-plane/conditions.ts', 'control-plane/decide.ts']],
    ]);
  });

  it('a flag have its row, or read it', () => {
    expect([...measured.touched.flag]).toEqual([
      ['check --dry-run', ['cli/check/check.ts', 'cli/check/dry.ts']],
      [
        'check --strict',
        ['cli/check/check.ts', 'cli/check/destructured.ts', 'cli/check/given.ts', 'cli/check/passed.ts'],
      ],
      ['shared --namespace', ['cli/check/check.ts', 'cli/shared/flags.ts']],
    ]);
  });

  it('each other in a cycle import types as well', () => {
    expect(measured.cycles.groups).toEqual([['rules/hidden.ts', 'rules/model.ts']]);
  });
});

describe('a project', () => {
  it('of a commit is counted without later files', () => {
    const identity = ['-c', 'user.name=a', '-c', 'user.email=a@example.com', '-c', 'commit.gpgsign=false'];
    const git = (...args: string[]) =>
      execFileSync('git', [...identity, ...args], { cwd: root, stdio: 'pipe' });
    git('init', '--quiet', '--initial-branch', 'main');
    git('add', '.');
    git('commit', '--quiet', '--message', 'first');
    const later = join(root, 'rules/later.ts');
    writeFileSync(later, project['rules/count.ts']!);
    expect(measureCost(root, 'tsconfig.json').touched.field.get('limits')).toContain('rules/later.ts');
    expect(measureCommit(root, 'HEAD', 'tsconfig.json')).toEqual(measured);
  });

  it('without the types of rules is rejected, with the place to correct', () => {
    writeFileSync(join(root, 'rules/model.ts'), 'export interface Rule { hideIdentity: boolean }');
    expect(() => measureCost(root, 'tsconfig.json')).toThrow(
      'rules/model.ts has no type Calendar: correct ruleTypes in scripts/cost-of-change/fields.ts',
    );
  });
});
