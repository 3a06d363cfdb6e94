import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Kind } from '../../scripts/cost-of-change/names.ts';
import type { Measurement } from '../../scripts/cost-of-change/record.ts';
import { measureCost } from '../../scripts/cost-of-change.ts';

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
    export interface Rule { key: string; hideIdentity: boolean; limits: Limit[]; hidden?: Hidden }
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
  // Another thing with the same names.
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
    export const flags = { namespace: { type: 'string', short: 'n' } } as const;
    export interface ParsedFlags { text(name: string): string | undefined; on(name: string): boolean }`,
  'cli/check/check.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    export const types = { strict: { type: 'boolean' }, 'dry-run': { type: 'boolean' } } as const;
    export const run = (flags: ParsedFlags) => flags.on('strict') && flags.text('namespace');`,
  'cli/check/dry.ts': `
    import type { ParsedFlags } from '../shared/flags.ts';
    export const names = ['dry-run', 'strict'];
    export const dry = (flags: ParsedFlags) => names.filter((name) => flags.on(name));`,
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
      ['GRPC_PORT', ['limiter/log.ts', 'limiter/main.ts', 'limiter/settings/settings.ts']],
      ['PORT', ['limiter/main.ts', 'limiter/settings/settings.ts']],
    ]);
  });

  it('a reason name it where a reason stands', () => {
    expect([...measured.touched.reason]).toEqual([
      ['FleetNotAllowed', ['control-plane/conditions.ts', 'control-plane/decide.ts']],
      ['Settled', ['control-plane/conditions.ts']],
      ['Valid', ['control-plane/accept.ts', 'control-plane/conditions.ts', 'control-plane/decide.ts']],
    ]);
  });

  it('a flag have its row, or read it', () => {
    expect([...measured.touched.flag]).toEqual([
      ['check --dry-run', ['cli/check/check.ts', 'cli/check/dry.ts']],
      ['check --strict', ['cli/check/check.ts']],
      ['shared --namespace', ['cli/check/check.ts', 'cli/shared/flags.ts']],
    ]);
  });

  it('each other in a cycle import types as well', () => {
    expect(measured.cycles.groups).toEqual([['rules/hidden.ts', 'rules/model.ts']]);
  });
});

describe('a project', () => {
  it('without the types of rules is refused, with the place to correct', () => {
    writeFileSync(join(root, 'rules/model.ts'), 'export interface Rule { hideIdentity: boolean }');
    expect(() => measureCost(root, 'tsconfig.json')).toThrow(
      'rules/model.ts has no type Calendar: correct ruleTypes in scripts/cost-of-change/fields.ts',
    );
  });
});
