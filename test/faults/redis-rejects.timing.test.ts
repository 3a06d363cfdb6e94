import { redisRejectsCases } from './cases/redis-rejects.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load that Redis refuses', redisRejectsCases);
