// `npm run control-plane`: a control plane without a cluster, with the manifests in examples/. Plain JavaScript, see bin/weir.js.
import { refuseOldNode } from '../bin/node-version.js';

refuseOldNode();
const { startControlPlaneDemo } = await import('./demo-control-plane.ts');
await startControlPlaneDemo();
