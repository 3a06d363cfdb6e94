import { clusterSlotCases } from './cases/cluster-faults.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load whose Redis Cluster moves slots', clusterSlotCases);
