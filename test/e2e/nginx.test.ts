/** The recipe in examples/nginx, with nginx. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun } from '../support/documents.ts';
import { readExample } from '../support/example-cases.ts';
import { nginxProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { listening } from '../support/listening.ts';
import { replaced } from '../support/replaced.ts';
import { proxyRecipeSuite, type RecipePorts, type RecipeVariant, rawStatus } from './proxy-recipe.suite.ts';

const patient = { 'timeout 100ms;': 'timeout 20s;', 'timeout 250ms;': 'timeout 20s;' };

describeWithServer('the recipe for nginx', nginxProgram, (nginx) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-nginx-'));
  // Workers of a master that root started are another user's.
  chmodSync(folder, 0o755);
  let started = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Locations in which nginx goes on in another one, without asking again. */
  const moreLocations = `
  location /files/ { alias ${folder}/www/; }
  location /try { root ${folder}/www; try_files $uri $uri/ /files/index.html; }
  location /named { root ${folder}/www; try_files $uri @named; }
  location @named { proxy_pass http://service; }
  location /missing { root ${folder}/www; error_page 404 /files/404.html; }
  location /intercepted { proxy_pass http://service/status/500; proxy_intercept_errors on; error_page 500 /files/404.html; }
  location /rewritten { rewrite ^/rewritten(.*)$ /else$1 last; }
  location /denied { deny all; }
  location /forbidden { return 403; }
`;

  async function start(
    { proxy, limiter, service }: RecipePorts,
    variant: RecipeVariant,
  ): Promise<ChildProgram> {
    const home = join(folder, String(started++));
    mkdirSync(home);
    const ports = {
      'server 127.0.0.1:8080': `server 127.0.0.1:${limiter}`,
      'server 127.0.0.1:10001': `server 127.0.0.1:${service}`,
      'listen 127.0.0.1:10000;': `listen 127.0.0.1:${proxy};${moreLocations}`,
    };
    const changes: Record<RecipeVariant, Record<string, string>> = {
      'as it stands': {},
      patient,
      'fail closed': { ...patient, 'return 204; # fail open': 'return 500;' },
    };
    writeFileSync(
      join(home, 'weir.conf'),
      replaced(readExample('nginx', 'weir.conf'), { ...ports, ...changes[variant] }),
    );
    const elsewhere = { '/tmp/': `${home}/`, ':10001;': `:${await freePort()};` };
    writeFileSync(join(home, 'nginx.conf'), replaced(readExample('nginx', 'nginx.conf'), elsewhere));
    const args = ['-e', 'stderr', '-c', join(home, 'nginx.conf')];
    return listening(new ChildProgram({ command: nginx, args }), proxy);
  }

  mkdirSync(join(folder, 'www/try/folder'), { recursive: true });
  for (const file of ['index.html', '404.html', 'try/folder/index.html'])
    writeFileSync(join(folder, 'www', file), `file ${file}\n`);

  const commands = commandsToRun('examples/nginx/README.md');
  proxyRecipeSuite({ commands, start, closedStatus: 500 }, (stage) => {
    it.each([
      ['index', '/files/', 200, 'file index.html\n'],
      ['try_files', '/try/none', 200, 'file index.html\n'],
      ['try_files and index', '/try/folder/', 200, 'file try/folder/index.html\n'],
      ['try_files to a name', '/named/none', 200, 'service 200\n'],
      ['error_page', '/missing/none', 404, 'file 404.html\n'],
      ["error_page for the service's error", '/intercepted', 500, 'file 404.html\n'],
      ['rewrite', '/rewritten/a', 200, 'service 200\n'],
    ])('asks once with %s', async (_, path, status, body) => {
      const { result, questions } = await stage.counted(() => stage.ask(path));
      expect(result).toMatchObject({ status, body });
      expect(questions).toBe(1);
      // Those with an error_page of their own have the other lines of the server.
      expect(result.headers).toMatchObject({ 'ratelimit-limit': '5', 'ratelimit-remaining': '4' });
    });

    it.each(['/denied', '/forbidden'])('leaves its own 403 alone: %s', async (path) => {
      const { status, headers } = await stage.ask(path);
      expect(status).toBe(403);
      expect(headers).not.toHaveProperty('retry-after');
    });

    it('asks for a client that names no host', async () => {
      const from = stage.newClient();
      const ask = () => rawStatus(stage.ports.proxy, 'GET /files/ HTTP/1.0\r\n', from);
      expect(await stage.counted(ask)).toMatchObject({ result: 200, questions: 1 });
    });

    it('does not answer the question of a client', async () => {
      expect((await stage.ask('/_weir')).status).toBe(404);
    });
  });
});
