import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import type { ApiServer } from './api-server.ts';
import type { PoolQuestion } from './api-servers/api-server-pool.ts';
import { PooledApiServer } from './api-servers/pooled-api-server.ts';
import { apiServerProgram, etcdProgram, findServer, kubectlProgram } from './find-server.ts';
import { type OwnApiServer, startApiServer } from './own-api-server.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** Chosen: a guard against hangs. The start itself has a bound that scales with the machine's load. */
const hookTimeoutMs = 10 * 60_000;

/**
 * A suite with an API server for itself that has the state of one just started, and our kinds: no objects, kinds or rights of other
 * suites. Other suites use the same server before and after, so versions of objects do not start low, and it cannot be stopped. Where
 * a program is missing the suite is skipped, with the reason in its name; with CI=true it fails instead.
 */
export function describeWithApiServer(name: string, suite: (api: () => ApiServer) => void): void {
  describeWithPooledServer({ suite: name, kinds: true }, suite);
}

/** As `describeWithApiServer`, without our kinds: for a suite that is about their installation. */
export function describeWithBareApiServer(name: string, suite: (api: () => ApiServer) => void): void {
  describeWithPooledServer({ suite: name, kinds: false }, suite);
}

function describeWithPooledServer(question: PoolQuestion, suite: (api: () => ApiServer) => void): void {
  describeWithPrograms(question.suite, () => {
    let server: PooledApiServer | undefined;
    beforeAll(async () => {
      server = await PooledApiServer.take(question);
    }, hookTimeoutMs);
    afterAll(async () => {
      await server?.release();
    }, hookTimeoutMs);
    suite(() => server as ApiServer);
  });
}

/**
 * As `describeWithApiServer`, for a suite whose clients lose their server: they reach it over this proxy. Takes a tenth of the processor
 * time that the end and another start of a server of its own take.
 */
export function describeWithDistantApiServer(
  name: string,
  suite: (api: () => ApiServer, network: () => TcpProxy) => void,
): void {
  describeWithApiServer(name, (api) => {
    let network: TcpProxy | undefined;
    beforeAll(async () => {
      network = await TcpProxy.to(Number(new URL(api().url).port));
      api().reachOver(network.port);
    });
    afterEach(() => network?.heal());
    afterAll(() => network?.close());
    suite(api, () => network as TcpProxy);
  });
}

/** As `describeWithApiServer`, for a suite that stops its server or looks into its etcd: no other suite uses it. */
export function describeWithOwnApiServer(name: string, suite: (api: () => OwnApiServer) => void): void {
  describeWithPrograms(name, () => {
    let server: OwnApiServer | undefined;
    beforeAll(async () => {
      server = await startApiServer();
    }, hookTimeoutMs);
    // A test that failed while it had stopped the server leaves it to the next one as it found it.
    afterEach(async () => {
      if (server?.serverRuns === false) await server.startServer();
    }, hookTimeoutMs);
    afterAll(async () => {
      await server?.stop();
    });
    suite(() => server as OwnApiServer);
  });
}

/** Without a server: for a suite that starts its own. */
export function describeWithPrograms(name: string, suite: () => void): void {
  const missing = [etcdProgram, apiServerProgram, kubectlProgram].flatMap((program) => {
    const found = findServer(program);
    return 'missing' in found ? [found.missing] : [];
  });
  if (missing.length === 0) {
    describe(name, suite);
  } else if (process.env['CI'] === 'true') {
    it(`${name}: has its servers`, () => {
      throw new Error(missing.join('; '));
    });
  } else {
    describe.skip(`${name} (${missing.join('; ')})`, () => it('runs', () => {}));
  }
}
