#!/usr/bin/env node
// What kubectl runs as "kubectl weir".
import { runProgram } from './program.js';

await runProgram('kubectl weir');
