// npm runs this file after "npm ci" and "npm install" in a clone, and not where the package is installed. It reports in one line if npm's
// own Node is too old. .npmrc prevents npm from printing five lines about this for each of many packages. Plain JavaScript, see
// bin/program.js.
import { isTooOld, wantedNode } from '../bin/program.js';

// This process runs on the Node that was just installed, if it was installed.
const own = process.versions.node;
const [, ofNpm = own] = /\bnode\/v(\S+)/.exec(process.env.npm_config_user_agent) ?? [];
if (isTooOld(own))
  console.error(
    `Weir needs Node ${wantedNode} or newer, and this is Node ${ofNpm}: install it, or run "npm ci" without --omit=dev.`,
  );
else if (isTooOld(ofNpm))
  console.error(
    `Weir needs Node ${wantedNode} or newer, and this is Node ${ofNpm}: npm has installed Node ${own} for npm start, npm run and bin/weir.`,
  );
