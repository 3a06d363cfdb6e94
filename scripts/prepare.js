// What npm runs after "npm ci" and "npm install" in a clone, and not where the package is installed: says in one line that npm's own
// Node is too old. .npmrc keeps npm from saying so in five lines for each of many packages. Plain JavaScript, see bin/program.js.
import { isTooOld, wantedNode } from '../bin/program.js';

// The Node of this process is the one that was just installed, if it was.
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
