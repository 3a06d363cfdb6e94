import { clusterNodeCases } from './cases/cluster-faults.ts';
import { faultSuite } from './fault-suite.ts';

faultSuite('a limiter under load whose Redis Cluster loses a node', clusterNodeCases);
