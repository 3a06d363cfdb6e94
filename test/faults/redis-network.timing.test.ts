import { redisNetworkCases } from './cases/redis-network.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load whose network to Redis fails', redisNetworkCases);
