/** One of the programs in examples/clients. Each night clients.nightly.test.ts tries those in other frameworks and languages. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { clients, limits } from './clients.suite.ts';

describe('the client for Express', () => {
  limits('express', () => ({ command: process.execPath, args: ['server.js'], listens: /listens on (\d+)/ }));
});

it.each([
  'express/limit.js',
  'fastify/limit.js',
  'fastapi/limit.py',
  'go/limit.go',
  'spring/src/main/java/shop/Limit.java',
])('%s has at most 70 lines of code', (path) => {
  const lines = readFileSync(join(clients, path), 'utf8').split('\n');
  const code = lines.filter((line) => !/^\s*($|\/\/|\/?\*|#|""")/.test(line));
  expect(code.length).toBeLessThanOrEqual(70);
});
