import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { conditionOf, installPrerequisites, startReplica, startXdsLimiter } from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { eventually } from '../support/eventually.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { signedToken } from '../support/service-account-token.ts';

const audience = 'weir-control-plane';
const namespace = 'weir-system';

describeWithApiServer('limiters that identify themselves by their service account', (api) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-identity-'));
  let replica: ControlPlaneProcess;
  let uid: string;

  beforeAll(async () => {
    installPrerequisites(api());
    api().createServiceAccount('limiter', namespace);
    const path = 'jsonpath={.metadata.uid}';
    uid = api().mustKubectl(['get', 'serviceaccount', 'limiter', '-n', namespace, '-o', path]);
    api().apply(rateLimitConfigText({ name: 'shop', domain: 'shop', requests: 5 }));
    const fleets = `system:serviceaccount:${namespace}:limiter=default`;
    replica = await startReplica(api(), 'control-plane-0', {
      XDS_HOST: '0.0.0.0',
      XDS_CLIENT_FLEETS: fleets,
    });
  });

  afterAll(async () => {
    await replica?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** As the API server would make it, but for less than its ten minutes. */
  const tokenFor = (seconds: number): string => {
    const now = Math.floor(Date.now() / 1000);
    return signedToken(
      {
        aud: [audience],
        exp: now + seconds,
        iat: now,
        nbf: now,
        iss: 'https://kubernetes.default.svc',
        sub: `system:serviceaccount:${namespace}:limiter`,
        'kubernetes.io': { namespace, serviceaccount: { name: 'limiter', uid } },
      },
      api().accountKey,
    );
  };

  async function start(name: string, token: string): Promise<{ limiter: LimiterProcess; file: string }> {
    const file = join(folder, name);
    writeFileSync(file, token);
    const limiter = await startXdsLimiter(replica.ports.xds, name, {
      CONFIG_GRPC_XDS_TOKEN_FILE: file,
      // A stream that broke for another reason would be waited for.
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '60s',
      LOG_LEVEL: 'debug',
      FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    });
    onTestFinished(async () => void (await limiter.stop()));
    return { limiter, file };
  }

  it('continues over the end of a token, without a word and without leaving the counts', async () => {
    const seconds = 8;
    const { limiter, file } = await start('limiter-0', tokenFor(seconds));
    await eventually(() => expect(conditionOf(api(), 'shop', 'Programmed')).toBe('True AllLimiters'));
    writeFileSync(file, tokenFor(600));
    const connections = () => replica.program.output.match(/A limiter connected/g)?.length;
    await eventually(() => expect(connections()).toBe(2), { timeoutMs: (seconds + 10) * 1000 });
    api().apply(rateLimitConfigText({ name: 'shop', domain: 'shop', requests: 7 }));
    api().mustKubectl(['wait', '--for=condition=Ready', 'rlc/shop', '--timeout=20s']);
    expect(limiter.program.output).not.toMatch(/level=error|lost|Lost/);
    expect(limiter.program.output).not.toContain(tokenFor(1).split('.')[0]);
  }, 60_000);

  it('is rejected with a token that was made for another audience', async () => {
    const token = api().accountToken('limiter', { namespace, audience: 'another' });
    const { limiter } = await start('limiter-1', token);
    await limiter.program.printed(/the token is not for the audience/);
    await replica.program.printed(/msg="Rejected a stream"/);
  });
});
