import { createAuthority, overwritePair } from '../../support/certificates.ts';
import { opensslProgram, redisProgram } from '../../support/find-server.ts';
import { freePort } from '../../support/free-port.ts';
import { startRedis } from '../../support/redis-server.ts';
import { tlsArguments } from '../../support/redis-tls-server.ts';
import { countersInRedis } from '../counters-in-redis.ts';
import { type CasePlace, type FaultCase, type StoreInDanger, slowestMs } from '../fault-case.ts';
import { keepsEverything } from './redis-killed.ts';

/** A Redis under TLS whose files are exchanged for those of a certificate that has ended, and back. */
async function certificateEnds({ folder, program }: CasePlace): Promise<StoreInDanger> {
  const authority = createAuthority(program(opensslProgram), folder, 'authority');
  const issue = (name: string, days: number) =>
    authority.issue({ name, alternativeNames: 'IP:127.0.0.1', days });
  const [used, good, ended] = [issue('used', 2), issue('good', 2), issue('ended', -1)];
  const tlsPort = await freePort();
  const tls = ['--tls-port', String(tlsPort), ...tlsArguments({ authority, pair: used })];
  const server = await startRedis({ path: program(redisProgram), args: [...tls, ...keepsEverything] });
  return {
    env: { REDIS_URL: `127.0.0.1:${tlsPort}`, REDIS_TLS: 'true', REDIS_TLS_CACERT: authority.caFile },
    act: async ({ outage }) => {
      await server.kill('SIGKILL');
      overwritePair(ended, used);
      await server.start();
      await outage();
      await server.kill('SIGKILL');
      overwritePair(good, used);
      await server.start();
    },
    held: () => countersInRedis({ port: server.port }),
    stop: () => server.stop(),
  };
}

const expired: FaultCase = {
  name: 'redis-certificate-expired',
  what: 'Redis is killed and started again with a certificate that has expired, then with a good one',
  needs: [redisProgram, opensslProgram],
  bounds: { slowestMs, minErrors: 1, minOpened: 1 },
  prepare: certificateEnds,
};

export const redisCertificateCases: readonly FaultCase[] = [expired];
