import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { grpcurlProgram, opensslProgram } from '../support/find-server.ts';
import { type ServedLimiter, serveLimiter } from './served-limiter.ts';

const protoFolder = fileURLToPath(new URL('../../proto', import.meta.url));
const service = 'envoy.service.ratelimit.v3.RateLimitService';
const method = `${service}/ShouldRateLimit`;
const withProto = ['-import-path', protoFolder, '-proto', 'envoy/service/ratelimit/v3/rls.proto'];
const request = (value: string): string =>
  JSON.stringify({ domain: 'conformance', descriptors: [{ entries: [{ key: 'client', value }] }] });

interface Printed {
  code: number;
  stdout: string;
  stderr: string;
}

describeWithServer('grpcurl', grpcurlProgram, (grpcurl) => {
  describeWithServer('with TLS and without', opensslProgram, (openssl) => {
    const ask = ({ caFile, port }: ServedLimiter, ...args: string[]): Promise<Printed> => {
      const security = caFile === undefined ? ['-plaintext'] : ['-cacert', caFile];
      const [flags, words] = [args.slice(0, -1), args.slice(-1)];
      return new Promise((resolve) => {
        const all = [...security, '-max-time', '20', ...flags, `localhost:${port}`, ...words];
        execFile(grpcurl, all, (error, stdout, stderr) =>
          resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
        );
      });
    };
    const codesOf = async (served: ServedLimiter, ...flags: string[]): Promise<string[]> => {
      const codes: string[] = [];
      for (let i = 0; i < 4; i++) {
        const { stdout, stderr } = await ask(served, ...flags, method);
        if (stdout === '') throw new Error(stderr);
        codes.push((JSON.parse(stdout) as { overallCode: string }).overallCode);
      }
      return codes;
    };
    const upToTheLimit = ['OK', 'OK', 'OK', 'OVER_LIMIT'];

    it.each([false, true])('needs no proto files with GRPC_REFLECTION=true (TLS: %s)', async (tls) => {
      const env = { GRPC_REFLECTION: 'true' };
      const served = await serveLimiter({ openssl: tls ? openssl : undefined, env });
      try {
        const listed = (await ask(served, 'list')).stdout.trim().split('\n');
        expect(listed).toEqual(expect.arrayContaining([service, 'grpc.health.v1.Health']));
        expect(await codesOf(served, '-d', request('reflected'))).toEqual(upToTheLimit);
        expect(JSON.parse((await ask(served, 'grpc.health.v1.Health/Check')).stdout)).toEqual({
          status: 'SERVING',
        });
      } finally {
        await served.stop();
      }
    });

    it('takes the commands of docs/grpc-listener.md', async () => {
      const guide = readFileSync(new URL('../../docs/grpc-listener.md', import.meta.url), 'utf8');
      const commands = /```\n(grpcurl .*?)```/s.exec(guide)?.[1] as string;
      const served = await serveLimiter({ env: { GRPC_REFLECTION: 'true' } });
      try {
        const here = commands
          .replaceAll('localhost:8081', `localhost:${served.port}`)
          .replaceAll(/^grpcurl/gm, `"${grpcurl}"`);
        const { stdout } = await promisify(execFile)('sh', ['-ec', here]);
        expect(stdout).toMatch(/^envoy\.service\.ratelimit\.v3\.RateLimitService$/m);
        expect(stdout).toMatch(/rpc ShouldRateLimit/);
        expect(stdout).toMatch(/"overallCode": "OK"/);
        expect(stdout).toMatch(/"status": "SERVING"/);
      } finally {
        await served.stop();
      }
    }, 60_000);

    it.each([false, true])(
      'needs them without, and reads what a rejection says (TLS: %s)',
      async (tls) => {
        const served = await serveLimiter({ openssl: tls ? openssl : undefined });
        try {
          const list = await ask(served, 'list');
          expect(list.code).not.toBe(0);
          expect(list.stderr).toContain('server does not support the reflection API');
          expect(await codesOf(served, ...withProto, '-d', request('proto'))).toEqual(upToTheLimit);
          const refused = await ask(served, ...withProto, '-d', '{}', method);
          expect(refused.stderr).toContain('Message: rate limit domain must not be empty');
        } finally {
          await served.stop();
        }
      },
      60_000,
    );
  });
});
