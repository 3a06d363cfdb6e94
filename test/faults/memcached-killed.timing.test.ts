import { memcachedKilledCases } from './cases/memcached-killed.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load of whose two memcached one fails', memcachedKilledCases);
