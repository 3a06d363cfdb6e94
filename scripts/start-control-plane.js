// `npm run control-plane`: a control plane without a cluster, with the manifests in examples/. Plain JavaScript, see bin/program.js.
import { refuseOldNode } from '../bin/program.js';

refuseOldNode();
const { startControlPlaneDemo } = await import('./demo-control-plane.ts');
await startControlPlaneDemo();
