import { redisRefusesCases } from './cases/redis-refuses.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load that Redis refuses', redisRefusesCases);
