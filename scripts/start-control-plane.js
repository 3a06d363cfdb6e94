// `npm run control-plane`: a control plane without a cluster, with the manifests in examples/. Plain JavaScript, see bin/program.js.
import { exitOnOldNode } from '../bin/program.js';

exitOnOldNode();
const { startControlPlaneDemo } = await import('./demo-control-plane.ts');
await startControlPlaneDemo();
