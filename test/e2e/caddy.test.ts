/** The recipe in examples/caddy, with Caddy. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun, readDocument } from '../support/documents.ts';
import { readExample } from '../support/example-cases.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { caddyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { listening } from '../support/listening.ts';
import { replaced } from '../support/replaced.ts';
import { proxyRecipeSuite, type RecipePorts, type RecipeVariant, rawStatus } from './proxy-recipe.suite.ts';

const patient = { 'timeout 100ms': 'timeout 20s', 'timeout 250ms': 'timeout 20s' };

describeWithServer('the recipe for Caddy', caddyProgram, (caddy) => {
  const folder = mkdtempSync(join(tmpdir(), 'weir-caddy-'));
  let started = 0;
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(join(folder, 'www'));
  writeFileSync(join(folder, 'www/index.html'), 'file index.html\n');

  async function run(text: string, port: number): Promise<ChildProgram> {
    const path = join(folder, `Caddyfile-${started++}`);
    writeFileSync(path, text);
    // Caddy keeps state in its user's folders.
    const env = { PATH: process.env['PATH'], XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
    const args = ['run', '--config', path, '--adapter', 'caddyfile'];
    return listening(new ChildProgram({ command: caddy, args, env }), port);
  }

  async function start(
    { proxy, limiter, service }: RecipePorts,
    variant: RecipeVariant,
  ): Promise<ChildProgram> {
    const ports = {
      ':10000': `:${proxy}`,
      ':8080': `:${limiter}`,
      '_proxy 127.0.0.1:10001': `_proxy 127.0.0.1:${service}`,
      'http://:10001': `http://:${await freePort()}`,
      'vars weir asked\n\t\treverse': `vars weir asked
		handle /files/* {
			root * ${folder}/www
			try_files {path} /index.html
			file_server
		}
		reverse`,
    };
    const changes: Record<RecipeVariant, Record<string, string>> = {
      'as it stands': {},
      patient,
      'fail closed': {
        ...patient,
        'vars weir undecided # fail open': 'error 503',
        [`reverse_proxy 127.0.0.1:${service} # fail open`]: 'respond 503',
      },
    };
    const text = readExample('caddy', 'Caddyfile');
    return run(replaced(text, { ...ports, ...changes[variant] }), proxy);
  }

  const commands = commandsToRun('examples/caddy/README.md');
  proxyRecipeSuite({ commands, start, closedStatus: 503 }, (stage) => {
    it('does not ask with headers that are too long for the limiter', async () => {
      const head = `GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: ${'a'.repeat(300_000)}\r\n`;
      const ask = () => rawStatus(stage.ports.proxy, head, stage.newClient());
      expect(await stage.counted(ask)).toMatchObject({ result: 431, questions: 0, served: 0 });
    });

    it('asks once with try_files', async () => {
      const { result, questions } = await stage.counted(() => stage.ask('/files/none'));
      expect(result).toMatchObject({ status: 200, body: 'file index.html\n' });
      expect(questions).toBe(1);
    });

    it('limits with the short form, too, and lets nothing pass without a limiter', async () => {
      const [short] = fencedBlocks(readDocument('examples/caddy/README.md')).filter(
        ({ language }) => language === 'caddyfile',
      );
      const [port, shortText] = [await freePort(), short?.text ?? ''];
      const at = (limiter: number): string =>
        `{\n\tadmin off\n\tauto_https off\n}\n${replaced(shortText, {
          ':10000': `:${port}`,
          ':8080': `:${limiter}`,
          ':10001': `:${stage.ports.service}`,
        })}`;
      const answers: HttpAnswer[] = [];
      const from = stage.newClient();
      const asking = await run(at(stage.ports.limiter), port);
      try {
        for (let i = 0; i < 11; i++) answers.push(await httpAsk(port, '/', { from }));
      } finally {
        await asking.stop();
      }
      expect(answers[0]).toMatchObject({ status: 200, body: 'service 200\n' });
      const refused = answers.find(({ status }) => status !== 200);
      expect(refused).toMatchObject({ status: 429, headers: { 'ratelimit-limit': '5' } });
      expect(refused?.headers).toHaveProperty('retry-after');
      expect(refused?.headers).not.toHaveProperty('x-weir-refused');
      const alone = await run(at(await freePort()), port);
      try {
        expect((await httpAsk(port, '/')).status).toBe(502);
      } finally {
        await alone.stop();
      }
    }, 60_000);
  });
});
