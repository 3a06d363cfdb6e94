import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { startEnvoy } from '../support/envoy.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const shop = 'examples/rules/shop.yaml';
const fits = /(?:^|\n)ok.* of the proxy: descriptors and rules fit together\n$/;

function checkOf(envoy: string, input: string, ...rules: string[]): ReturnType<typeof runWeir> {
  return runWeir(['check', '--envoy', envoy, ...rules], { input });
}

describe('weir check --envoy', () => {
  it.each(['envoy', 'envoy-tls', 'envoy-unix-socket'])(
    'finds nothing wrong with examples/envoy/%s.yaml',
    (name) => {
      const { status, stdout, stderr } = checkOf(`examples/envoy/${name}.yaml`, '', shop);
      expect(stdout).toMatch(fits);
      expect(stderr).toBe('');
      expect(status).toBe(0);
    },
  );

  it.each([
    ...['per-client-address', 'per-path-and-method', 'per-tenant', 'login-throttling', 'llm-tokens'],
    ...['shadow-rollout', 'concurrency'],
  ])('finds nothing wrong with examples/%s', (name) => {
    const { status, stdout } = checkOf(`examples/${name}/envoy.yaml`, '', `examples/${name}/rules`);
    expect(stdout).toMatch(fits);
    expect(status).toBe(0);
  });

  it('finds nothing wrong with the teams of docs/teams.md', () => {
    const folder = temporaryFolder();
    const [envoy, manifests] = fencedBlocks(readFileSync('docs/teams.md', 'utf8')).filter(
      ({ language }) => language === 'yaml',
    );
    for (const [name, block] of Object.entries({ envoy, manifests }))
      writeFileSync(join(folder, `${name}.yaml`), block!.text);
    const { status, stdout } = checkOf(join(folder, 'envoy.yaml'), '', join(folder, 'manifests.yaml'));
    expect(stdout).toMatch(fits);
    expect(status).toBe(0);
  });

  it.each(['rate_limits', 'filter', 'bootstrap', 'istio'])(
    'finds nothing wrong with what weir envoy writes as %s',
    (output) => {
      const written = runWeir(['envoy', shop, '--output', output]).stdout;
      const { status, stdout } = checkOf('-', written, shop);
      expect(stdout).toMatch(fits);
      expect(status).toBe(0);
    },
  );

  it('finds nothing wrong with what weir envoy writes for rules with reserve', () => {
    const rules = 'examples/llm-tokens/rules';
    const { stdout: written } = runWeir(['envoy', rules, '--output', 'filter']);
    expect(written).toContain('# FILL IN: a filter that sets cost in the dynamic metadata weir');
    const { status, stdout } = checkOf('-', written, rules);
    expect(stdout).toMatch(fits);
    expect(status).toBe(0);
    // Without its rule an entry of a marker is one as any other.
    const plain = readFileSync(`${rules}/llm-tokens.yaml`, 'utf8').replaceAll(/^ *reserve:.*\n/gm, '');
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'rules.yaml'), plain);
    expect(checkOf('-', written, folder).stdout).toContain(
      'no rule matches the descriptor (user, reservation_id)',
    );
  });

  it.each(['caddy', 'haproxy', 'nginx', 'traefik'])('reads the profile of examples/%s', (name) => {
    const path = `examples/${name}/profiles.yaml`;
    const { status, stdout } = checkOf(path, '', shop);
    expect(stdout).toMatch(fits);
    expect(status).toBe(0);
    const profile = readFileSync(path, 'utf8');
    const bad = checkOf('-', profile.replace('domain: shop', 'domain: shpo'), shop);
    expect(bad.stdout).toContain(
      'error: no rules have the domain "shpo": nothing is limited; did you mean "shop"?',
    );
    const other = checkOf('-', profile.replace('descriptor_key: plan', 'descriptor_key: tier'), shop);
    expect(other.stdout).toContain('no rule matches the descriptor (path, tier) [unmatched-descriptor]\n');
  });

  it('says what limits nothing, and where', () => {
    const folder = temporaryFolder();
    const path = join(folder, 'envoy.yaml');
    const good = readFileSync('examples/envoy/envoy.yaml', 'utf8');
    writeFileSync(path, good.replace('descriptor_key: plan', 'descriptor_key: tier'));
    const { status, stdout } = checkOf(path, '', shop);
    expect(stdout).toContain(
      `${path}:48:39: error: this limits nothing: no rule matches the descriptor (path, tier) [unmatched-descriptor]\n`,
    );
    expect(stdout).toContain('hint: "tier" is not one of the keys there: plan\n');
    expect(stdout).toContain(
      `${shop}:15:9: error: no descriptor (path, plan) of the domain "shop" reaches this rule, nor 1 more of these keys [unreached-rule]\n`,
    );
    expect(stdout).toContain('failed: 2 errors: ');
    expect(stdout).not.toMatch(fits);
    expect(status).toBe(1);
  });

  it('suggests a domain, and reads the parts of an Envoy from several files', () => {
    const folder = temporaryFolder();
    const [filter, routes] = runWeir(['envoy', shop, '-o', 'istio']).stdout.split('---\n');
    writeFileSync(join(folder, 'filter.yaml'), filter!.replace('domain: shop', 'domain: shpo'));
    writeFileSync(join(folder, 'routes.yaml'), routes!);
    const parts = [join(folder, 'filter.yaml'), '--envoy', join(folder, 'routes.yaml')] as const;
    const { status, stdout } = runWeir(['check', '--envoy', ...parts, shop]);
    expect(stdout).toContain('filter.yaml:27:21: error: no rules');
    expect(stdout).toContain(
      'no rules have the domain "shpo": nothing is limited; did you mean "shop"? [domain-without-rules]\n',
    );
    expect(status).toBe(1);
    const alone = runWeir(['check', '--envoy', join(folder, 'routes.yaml'), shop]);
    expect(alone.stdout).toContain('the input has no rate limit filter');
    expect(alone.status).toBe(0);
  });

  it.each(['', '{}', 'domain: shop\n'])('does not accept as fitting what is no Envoy: %j', (text) => {
    const { status, stdout } = checkOf('-', text, shop);
    expect(stdout).toContain(
      '<stdin>:1:1: error: nothing to compare: the input has neither a rate limit filter',
    );
    expect(stdout).not.toMatch(fits);
    expect(status).toBe(1);
  });

  it('prints findings as other forms, and waives kinds of them', () => {
    const written = runWeir(['envoy', shop, '-o', 'rate_limits']).stdout.replace(/key: path/g, 'key: way');
    const { status, stdout } = runWeir(['check', '--envoy', '-', shop, '-o', 'json'], { input: written });
    const { findings } = JSON.parse(stdout) as { findings: { code: string; file: string }[] };
    expect(new Set(findings.map(({ code, file }) => `${code} ${file}`))).toEqual(
      new Set(['unmatched-descriptor <stdin>', `unreached-rule ${shop}`]),
    );
    expect(status).toBe(1);
    const waived = runWeir(
      ['check', '--envoy', '-', shop, '--allow', 'unreached-rule,unmatched-descriptor', '-o', 'sarif'],
      { input: written },
    );
    expect(JSON.parse(waived.stdout)).toMatchObject({ runs: [{ results: [] }] });
    expect(waived.status).toBe(0);
  });

  it('compares nothing with rules that have errors, and names a file that is not there', () => {
    const bad = runWeir(['check', '--envoy', 'examples/envoy/envoy.yaml', '-'], {
      input: 'domain: shop\nx: 1\n',
    });
    expect(bad.stdout).toContain(
      '1 file of the proxy, not compared: there are no rules, or they have errors\n',
    );
    expect(bad.status).toBe(1);
    const missing = runWeir(['check', '--envoy', 'nowhere.yaml', shop]);
    expect(missing.stderr).toBe(
      'weir: --envoy nowhere.yaml: no such file or directory\n"weir check --help" describes its arguments.\n',
    );
    expect(missing.status).toBe(2);
  });

  describeWithServer('with Envoy', envoyProgram, (envoyPath) => {
    it('reads the dump of a running Envoy', async () => {
      const [admin, port, servicePort] = [await freePort(), await freePort(), await freePort()];
      const config = parse(runWeir(['envoy', shop, '-o', 'bootstrap']).stdout) as {
        admin?: object;
        static_resources: { listeners: { address: { socket_address: { port_value: number } } }[] };
      };
      config.admin = { address: { socket_address: { address: '127.0.0.1', port_value: admin } } };
      for (const [index, one] of [port, servicePort].entries())
        config.static_resources.listeners[index]!.address.socket_address.port_value = one;
      const envoy = await startEnvoy(envoyPath, config);
      try {
        const { body } = await httpAsk(admin, '/config_dump');
        const good = checkOf('-', body, shop);
        expect(good.stdout).toMatch(fits);
        expect(good.status).toBe(0);
        const bad = checkOf(
          '-',
          body.replaceAll('"descriptor_key": "plan"', '"descriptor_key": "tier"'),
          shop,
        );
        expect(bad.stdout).toContain('no rule matches the descriptor (path, tier) ');
        expect(bad.stdout).toContain('failed: 2 errors: ');
      } finally {
        await envoy.stop();
      }
    }, 60_000);
  });
});
