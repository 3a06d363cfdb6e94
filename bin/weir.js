#!/usr/bin/env node
// Plain JavaScript on purpose: it has to run on a Node too old for the rest, to say so.
import { existsSync } from 'node:fs';

import { refuseOldNode } from './node-version.js';

refuseOldNode();
const source = new URL('../cli/main.ts', import.meta.url);
const { main } = await import(
  existsSync(source) ? source.href : new URL('../dist/cli/main.js', import.meta.url).href
);
await main(process.argv.slice(2));
