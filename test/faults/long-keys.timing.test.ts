import { longKeyCases } from './cases/long-keys.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load with long keys', longKeyCases);
