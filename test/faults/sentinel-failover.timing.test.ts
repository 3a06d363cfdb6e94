import { sentinelFailoverCases } from './cases/sentinel-failover.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load whose sentinels choose another master', sentinelFailoverCases);
