/**
 * The exports of `node:http` that the programs use. When an ES module imports a built-in module, Node evaluates all of its exports.
 * One export of `node:http` is a getter that loads undici, which takes a tenth of a program's start and 4 MB of memory.
 * `getBuiltinModule` evaluates no export.
 * https://nodejs.org/api/process.html#processgetbuiltinmoduleid
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');
