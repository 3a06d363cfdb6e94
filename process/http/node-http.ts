/**
 * What the programs use of `node:http`. Node evaluates every export of a built-in module that an ES module imports, and one of this
 * module's is a getter that loads undici: a tenth of a program's start, and memory that stays. `getBuiltinModule` evaluates none.
 * https://nodejs.org/api/process.html#processgetbuiltinmoduleid
 */
export const { Agent, createServer, request, STATUS_CODES } = process.getBuiltinModule('node:http');
