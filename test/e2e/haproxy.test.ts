/** The recipe in examples/haproxy, with HAProxy. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun } from '../support/documents.ts';
import { readExample } from '../support/example-cases.ts';
import { haproxyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { listening } from '../support/listening.ts';
import { replaced } from '../support/replaced.ts';
import { proxyRecipeSuite, type RecipePorts, type RecipeVariant } from './proxy-recipe.suite.ts';

const patient = {
  'timeout connect 100ms': 'timeout connect 20s',
  'timeout server 250ms': 'timeout server 20s',
};

describeWithServer('the recipe for HAProxy', haproxyProgram, (haproxy) => {
  const folders: string[] = [];
  afterAll(() => {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true });
  });

  async function start(
    { proxy, limiter, service }: RecipePorts,
    variant: RecipeVariant,
  ): Promise<ChildProgram> {
    const folder = mkdtempSync(join(tmpdir(), 'weir-haproxy-'));
    folders.push(folder);
    const socket = { 'abns@weir': `abns@weir-${proxy}` };
    writeFileSync(join(folder, 'weir.lua'), replaced(readExample('haproxy', 'weir.lua'), socket));
    const ports = {
      'bind 127.0.0.1:10000': `bind 127.0.0.1:${proxy}`,
      'weir 127.0.0.1:8080': `weir 127.0.0.1:${limiter}`,
      'service 127.0.0.1:10001': `service 127.0.0.1:${service}`,
      'bind 127.0.0.1:10001': `bind 127.0.0.1:${await freePort()}`,
    };
    const changes: Record<RecipeVariant, Record<string, string>> = {
      'as it stands': {},
      patient,
      'fail closed': { ...patient, '# fail closed: ': '' },
    };
    // Or it tries a service that is away three times more.
    const hurry = { 'timeout connect 5s': 'timeout connect 5s\n  retries 0' };
    const path = join(folder, 'haproxy.cfg');
    const text = readExample('haproxy', 'haproxy.cfg');
    writeFileSync(path, replaced(text, { ...ports, ...socket, ...hurry, ...changes[variant] }));
    return listening(new ChildProgram({ command: haproxy, args: ['-db', '-f', path] }), proxy);
  }

  const commands = commandsToRun('examples/haproxy/README.md');
  proxyRecipeSuite({ commands, start, closedStatus: 503 });
});
