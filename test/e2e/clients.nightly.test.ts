/** The programs in examples/clients that clients.test.ts leaves to the night: they take three times as long to start or to compile. */
import { join } from 'node:path';
import { describe } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { fastApiProgram, goProgram, springProgram } from '../support/find-server.ts';
import { compile, limits } from './clients.suite.ts';

describe('the client for Fastify', () => {
  limits('fastify', () => ({ command: process.execPath, args: ['server.js'], listens: /listens on (\d+)/ }));
});

describeWithServer('the client for FastAPI', fastApiProgram, (command) => {
  limits('fastapi', () => ({
    command,
    args: ['-m', 'uvicorn', 'server:app', '--host', '127.0.0.1', '--port', '0'],
    listens: /running on http:\/\/127\.0\.0\.1:(\d+)/,
  }));
});

describeWithServer('the client for Go', goProgram, (go) => {
  limits('go', (compiled) => {
    const command = join(compiled, 'shop');
    compile(go, ['build', '-o', command, '.'], 'go');
    return { command, args: [], listens: /listens on (\d+)/ };
  });
});

describeWithServer('the client for Spring', springProgram, (command) => {
  limits('spring', (compiled) => {
    const sources = ['Limit', 'Shop'].map((name) => `src/main/java/shop/${name}.java`);
    compile(command, ['javac', '-d', compiled, ...sources], 'spring');
    // Starts sooner when it compiles less.
    const args = ['java', '-XX:TieredStopAtLevel=1', 'shop.Shop'];
    return { command, args, listens: /started on port (\d+)/ };
  });
});
