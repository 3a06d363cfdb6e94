import { redisCertificateCases } from './cases/redis-certificate.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load whose Redis shows a bad certificate', redisCertificateCases);
