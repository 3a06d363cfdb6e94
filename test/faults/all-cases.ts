import { clusterNodeCases, clusterSlotCases } from './cases/cluster-faults.ts';
import { failureModeCases } from './cases/failure-modes.ts';
import { longKeyCases } from './cases/long-keys.ts';
import { memcachedKilledCases } from './cases/memcached-killed.ts';
import { redisCertificateCases } from './cases/redis-certificate.ts';
import { leaseCases, redisKilledCases } from './cases/redis-killed.ts';
import { redisNetworkCases } from './cases/redis-network.ts';
import { redisRejectsCases } from './cases/redis-rejects.ts';
import { sentinelFailoverCases } from './cases/sentinel-failover.ts';
import type { FaultCase } from './fault-case.ts';

/** In the order of the table. Every file of `cases/` is in it. */
export const allCases: readonly FaultCase[] = [
  ...redisKilledCases,
  ...leaseCases,
  ...redisNetworkCases,
  ...redisRejectsCases,
  ...longKeyCases,
  ...redisCertificateCases,
  ...failureModeCases,
  ...sentinelFailoverCases,
  ...clusterNodeCases,
  ...clusterSlotCases,
  ...memcachedKilledCases,
];
