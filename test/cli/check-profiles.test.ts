/** `weir check` of files of profiles: by themselves, and beside the rules that they are for. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it } from 'vitest';
import { suiteFolder } from '../support/suite-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const folder = suiteFolder();
const rules = join(folder, 'config');
const profiles = join(folder, 'profiles.yaml');
const good = `profiles:
  shop:
    domain: shop
    rate_limits:
      - actions: [{ remote_address: {} }]
`;

beforeAll(() => {
  mkdirSync(rules);
  writeFileSync(
    join(rules, 'shop.yaml'),
    'domain: shop\ndescriptors:\n  - key: remote_address\n    rate_limit: { unit: day, requests_per_unit: 2 }\n  - key: path\n    rate_limit: { unit: day, requests_per_unit: 2 }\n',
  );
});

function check(text: string, ...others: string[]): { status: number | null; stdout: string } {
  writeFileSync(profiles, text);
  const { status, stdout, stderr } = runWeir(['check', profiles, ...others]);
  expect(stderr).toBe('');
  return { status, stdout };
}

it('counts profiles, with or without their rules', () => {
  expect(check(good)).toEqual({ status: 0, stdout: 'ok: file of profiles, 1 profile\n' });
  expect(check(good, rules)).toEqual({
    status: 0,
    stdout: 'ok: 1 file, 1 domain, 2 rules; file of profiles, 1 profile\n',
  });
  expect(JSON.parse(runWeir(['check', profiles, '-o', 'json']).stdout)).toMatchObject({
    errorCount: 0,
    profilesFiles: [{ file: profiles, profiles: 1 }],
  });
});

it('says what is wrong, where, and what was intended', () => {
  expect(check(good.replace('domain:', 'domian:').replace('remote_address', 'remote_adress'))).toEqual({
    status: 1,
    stdout: `${profiles}:3:5: error: a profile has no field "domian": did you mean domain? [profiles]
  3 |     domian: shop
    |     ^^^^^^
${profiles}:5:21: error: actions has no field "remote_adress": did you mean remote_address? [profiles]
  5 |       - actions: [{ remote_adress: {} }]
    |                     ^^^^^^^^^^^^^
failed: 2 errors: 1 file
`,
  });
});

it('says which profiles and descriptors no rule is for', () => {
  const { status, stdout } = check(
    `${good}      - actions: [{ generic_key: { descriptor_value: all } }]
  shops: { domain: shops, rate_limits: [{ actions: [{ remote_address: {} }] }] }
`,
    rules,
  );
  expect(status).toBe(1);
  expect(stdout).toContain(`${profiles}:6:19: error: this limits nothing: no rule matches the descriptor`);
  expect(stdout).toContain('[unmatched-descriptor]');
  expect(stdout).toContain(`${profiles}:7:20: error: no rules have the domain "shops"`);
  expect(stdout).toContain('[domain-without-rules]');
  // Rules that no profile asks for may be for Envoys.
  expect(stdout).not.toContain('unreached-rule');
});

it('takes what profiles ask for as asked for, if an Envoy is given as well', () => {
  const envoy = join(folder, 'envoy.yaml');
  writeFileSync(
    envoy,
    'domain: shop\nrate_limits:\n  - actions: [{ request_headers: { header_name: ":path", descriptor_key: path } }]\n',
  );
  writeFileSync(profiles, good);
  const alone = runWeir(['check', '--envoy', envoy, rules]).stdout;
  const both = runWeir(['check', '--envoy', envoy, rules, profiles]).stdout;
  expect(alone).toContain('[unreached-rule]');
  expect(both).not.toContain('error');
});

it('warns of a file of profiles among rule files, which limiters reject there', () => {
  const misplaced = join(rules, 'profiles.yaml');
  writeFileSync(misplaced, good);
  const { status, stdout } = runWeir(['check', rules]);
  expect(status).toBe(0);
  expect(stdout).toContain(`${misplaced}: warning: is in a folder of rule files`);
  expect(stdout).toContain('[misplaced-file]');
});
