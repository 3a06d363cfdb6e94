/** The files in examples/traefik, as far as they can be held to something without Traefik. */
import { readFileSync } from 'node:fs';
import { Ajv } from 'ajv';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

import { foreignModules } from '../support/definitions.ts';
import { startDocumentedLimiter } from '../support/document-limiter.ts';
import { commandsToRun, projectRoot } from '../support/documents.ts';
import { readExample } from '../support/example-cases.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';

interface Dynamic {
  http: {
    routers: Record<string, { entryPoints: string[]; middlewares: string[]; service: string }>;
    middlewares: {
      weir: { forwardAuth: { address: string; authRequestHeaders: string[] } };
      'without-rule': { headers: { customResponseHeaders: Record<string, string> } };
    };
    services: Record<string, unknown>;
  };
}

const dynamic = parse(readExample('traefik', 'dynamic.yaml')) as Dynamic;
const { forwardAuth } = dynamic.http.middlewares.weir;

describe('the files for Traefik', () => {
  it('fit each other', () => {
    const fixed = parse(readExample('traefik', 'traefik.yaml'));
    expect(readFileSync(`${projectRoot}/${fixed.providers.file.filename}`, 'utf8')).toBe(
      readExample('traefik', 'dynamic.yaml'),
    );
    for (const { entryPoints, middlewares, service } of Object.values(dynamic.http.routers)) {
      expect(entryPoints.every((name) => name in fixed.entryPoints)).toBe(true);
      expect(middlewares.every((name) => name in dynamic.http.middlewares)).toBe(true);
      expect(dynamic.http.services).toHaveProperty(service);
    }
  });

  it('has options of ForwardAuth that Traefik knows', () => {
    const found = foreignModules('traefik');
    if ('missing' in found) {
      // As of a server that is missing.
      expect(process.env['CI'], found.missing).not.toBe('true');
      return;
    }
    const definition = parse(readFileSync(found.modules[0]!.files[0]!, 'utf8'));
    const schema = definition.spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.forwardAuth;
    const validate = new Ajv({ strict: false, logger: false }).compile({
      ...schema,
      additionalProperties: false,
    });
    validate(forwardAuth);
    expect(validate.errors).toBeNull();
    expect(validate({ ...forwardAuth, authRequestHeader: ['X-Plan'] })).toBe(false);
  });

  it('has the limiter decide by what Traefik sends', async () => {
    const limiter = await startDocumentedLimiter(commandsToRun('examples/traefik/README.md'));
    // As pkg/middlewares/auth/forward.go of Traefik 3.7 writes them.
    const headers = {
      ...{ 'X-Forwarded-For': '203.0.113.7', 'X-Forwarded-Method': 'GET', 'X-Forwarded-Uri': '/search?q=a' },
      ...{ 'X-Forwarded-Host': 'shop.example', 'X-Forwarded-Proto': 'http', 'X-Forwarded-Port': '10000' },
      [forwardAuth.authRequestHeaders[0]!]: 'gold',
    };
    try {
      const answers: HttpAnswer[] = [];
      const path = new URL(forwardAuth.address).pathname;
      for (let i = 0; i < 11; i++) answers.push(await httpAsk(limiter.ports.http, path, { headers }));
      expect(answers[0]).toMatchObject({ status: 200, headers: { 'ratelimit-limit': '5' } });
      const refused = answers.find(({ status }) => status !== 200);
      expect(refused).toMatchObject({ status: 429, headers: { 'ratelimit-remaining': '0' } });
      expect(Number(refused?.headers['retry-after'])).toBeGreaterThan(0);
      // Removed on the way back by the middleware before the one that rejects.
      expect(refused?.headers).toHaveProperty('x-weir-refused');
      expect(dynamic.http.routers['shop']!.middlewares).toEqual(['without-rule', 'weir']);
      const { customResponseHeaders } = dynamic.http.middlewares['without-rule'].headers;
      expect(customResponseHeaders).toEqual({ 'X-Weir-Refused': '' });
    } finally {
      await limiter.stop();
    }
  }, 60_000);
});
