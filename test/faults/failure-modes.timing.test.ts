import { failureModeCases } from './cases/failure-modes.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('STORE_FAILURE_MODE under load', failureModeCases);
