/** The certificate of a limiter with several threads: all of them watch its files, and one reports them. */
import { connect as connectTls } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, it, onTestFinished } from 'vitest';

import { createAuthority, overwritePair } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram, redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const running: InProcessLimiter[] = [];
afterEach(() => Promise.all(running.splice(0).map((limiter) => limiter.stop())));

function serialNumber(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ port, host: '127.0.0.1', ALPNProtocols: ['h2'], rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    socket.once('error', reject).once('secureConnect', () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    });
  });
}

describeWithServer('two workers (Redis)', redisProgram, (path) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ path });
  });
  afterAll(() => redis?.stop());

  describeWithServer('with a certificate', opensslProgram, (openssl) => {
    it('both take a new one, and count and log it once', async () => {
      const authority = createAuthority(openssl, temporaryFolder(), 'authority');
      const files = authority.issue({ name: 'server', days: 30 });
      const limiter = await InProcessLimiter.start({
        env: {
          ...{ LIMITER_WORKERS: '2', BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', LOG_LEVEL: 'info' },
          ...{ REDIS_URL: `127.0.0.1:${redis.port}`, RUNTIME_ROOT: temporaryFolder() },
          ...{ GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: files.certFile },
          ...{ GRPC_SERVER_TLS_KEY: files.keyFile, FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' },
        },
      });
      running.push(limiter);
      const figures = async () => {
        const stats = await limiter.stats();
        return ['load_attempts', 'load_failures', 'expires_at_seconds'].map((name) =>
          stats.get(`certs.${name}`),
        );
      };
      const inDays = (days: number) => expect.closeTo(Date.now() / 1000 + days * 86_400, -4);
      expect(await figures()).toEqual([0, 0, inDays(30)]);
      const before = await serialNumber(limiter.ports.grpc);
      overwritePair(authority.issue({ name: 'next', days: 60 }), files);
      // Of many connections each thread has some.
      const serials = () => Promise.all(Array.from({ length: 12 }, () => serialNumber(limiter.ports.grpc)));
      await eventually(async () => expect(await serials()).not.toContain(before), { timeoutMs: 60_000 });
      await eventually(async () => expect(await figures()).toEqual([1, 0, inDays(60)]), {
        timeoutMs: 60_000,
      });
      expect(limiter.lines.filter((line) => line.includes('A new certificate'))).toEqual([
        expect.stringMatching(
          /^level=info msg="A new certificate is in use" listener=gRPC expires="\S+" worker=1$/,
        ),
      ]);
    }, 150_000);
  });
});
