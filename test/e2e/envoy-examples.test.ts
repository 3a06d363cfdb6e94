/** The Envoy configurations in examples/envoy/ do what they are there for, at other ports and paths. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { startEnvoy } from '../support/envoy.ts';
import { envoyProgram, opensslProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { spawnLimiter } from '../support/limiter-process.ts';
import { replaced } from '../support/replaced.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const example = (name: string): string => readFileSync(`${root}examples/envoy/${name}`, 'utf8');
const rules = { BACKEND_TYPE: 'memory', RUNTIME_ROOT: `${root}examples`, RUNTIME_APPDIRECTORY: 'rules' };

/** What Envoy answers to as many requests as the limit of an address, and as many again: a window may end between. */
async function statuses(envoyPath: string, config: string): Promise<number[]> {
  const [port, servicePort] = [await freePort(), await freePort()];
  const ports = {
    'port_value: 10000 ': `port_value: ${port} `,
    'port_value: 10001 ': `port_value: ${servicePort} `,
  };
  // Left open, a limiter that does not answer would look like one that lets pass.
  const closed = { 'failure_mode_deny: false': 'failure_mode_deny: true', 'timeout: 0.25s': 'timeout: 20s' };
  const envoy = await startEnvoy(envoyPath, replaced(config, { ...ports, ...closed }));
  try {
    const seen: number[] = [];
    for (let i = 0; i < 11; i++) seen.push((await fetch(`http://127.0.0.1:${port}/`)).status);
    return seen;
  } finally {
    await envoy.stop();
  }
}

const expectLimited = (seen: number[]): void => {
  expect(seen.slice(0, 5)).toEqual([200, 200, 200, 200, 200]);
  expect(seen).toContain(429);
  expect(new Set(seen)).toEqual(new Set([200, 429]));
};

describe('the examples for Envoy', () => {
  it.each([['envoy-tls.yaml'], ['envoy-unix-socket.yaml']])('%s differs in the cluster alone', (name) => {
    const common = (text: string): string =>
      text.slice(text.indexOf('static_resources:'), text.indexOf('    - name: weir\n'));
    expect(common(example(name))).toBe(common(example('envoy.yaml')));
  });

  describeWithServer('with Envoy', envoyProgram, (envoyPath) => {
    it('asks over a Unix socket', async () => {
      const path = join(temporaryFolder(), 'grpc.sock');
      const limiter = spawnLimiter({ env: { ...rules, GRPC_UDS: path } });
      try {
        await limiter.printed(/Listening for gRPC on/);
        const config = replaced(example('envoy-unix-socket.yaml'), { '/run/weir/grpc.sock': path });
        expectLimited(await statuses(envoyPath, config));
      } finally {
        await limiter.stop();
      }
    }, 60_000);

    describeWithServer('and openssl', opensslProgram, () => {
      it('asks over TLS with the files that docs/grpc-listener.md makes, and accepts no other name', async () => {
        const folder = temporaryFolder();
        const guide = readFileSync(`${root}docs/grpc-listener.md`, 'utf8');
        const commands = /```sh\n(mkdir tls .*?)```/s.exec(guide)?.[1] as string;
        execFileSync('sh', ['-ec', commands], { cwd: folder, stdio: 'pipe' });
        const settings = /```\n(GRPC_SERVER_USE_TLS=true\n.*?)```/s.exec(guide)?.[1] as string;
        const env = Object.fromEntries(
          [...settings.matchAll(/^(GRPC_\w+)=(\S+)/gm)].map(([, name, value]) => [
            name as string,
            (value as string).replace(/^tls\//, `${folder}/tls/`),
          ]),
        );
        const limiter = await startLimiterHere({ env: { ...rules, ...env } });
        try {
          const config = replaced(example('envoy-tls.yaml'), {
            'filename: tls/': `filename: ${folder}/tls/`,
            'port_value: 8081 ': `port_value: ${limiter.ports.grpc} `,
          });
          expectLimited(await statuses(envoyPath, config));
          const otherName = replaced(config, { 'exact: localhost': 'exact: elsewhere' });
          expect(new Set(await statuses(envoyPath, otherName))).toEqual(new Set([500]));
        } finally {
          await limiter.stop();
        }
      }, 90_000);
    });
  });
});
