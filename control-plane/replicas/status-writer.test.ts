import { expect, it } from 'vitest';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject } from '../../test/support/config-object-builder.ts';
import { type ApiAnswer, ScriptedApi } from '../../test/support/scripted-api.ts';
import type { ConfigObject } from '../model/config-object.ts';
import { StatusWriter } from './status-writer.ts';

const object = configObject({ name: 'shop', namespace: 'team', resourceVersion: '7' });
const status = { observedGeneration: 1, conditions: [] };

/** What a write came to, and what the server got. */
async function write(answer: ApiAnswer, written: ConfigObject = object) {
  const { api, client } = await ScriptedApi.start();
  api.answer = () => answer;
  const outcome = await new StatusWriter({ client }).write({ object: written, status });
  return { outcome, request: api.writes[0] };
}

it('applies the status over one version of the object, and says which version came of it', async () => {
  const { outcome, request } = await write({
    status: 200,
    body: { metadata: { resourceVersion: '8' } },
  });
  expect(outcome).toEqual({ is: 'written', version: '8' });
  expect(request?.method).toBe('PATCH');
  expect(request?.path).toBe(
    '/apis/ratelimit.weir.dev/v1alpha1/namespaces/team/ratelimitconfigs/shop/status',
  );
  expect([...request!.query]).toEqual([
    ['fieldManager', 'weir-control-plane'],
    ['force', 'true'],
  ]);
  expect(request?.body).toEqual({
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { namespace: 'team', name: 'shop', resourceVersion: '7' },
    status,
  });
});

it('writes the status of an override to the override', async () => {
  const { request } = await write({ status: 200 }, { ...object, kind: overrideKind });
  expect(request?.path).toMatch(/\/ratelimitoverrides\/shop\/status$/);
  expect(request?.body['kind']).toBe('RateLimitOverride');
});

it.each([
  [401, 'failed'],
  [403, 'refused'],
  [404, 'gone'],
  [408, 'failed'],
  [409, 'outdated'],
  [410, 'refused'],
  [422, 'refused'],
  [429, 'failed'],
  [500, 'failed'],
  [503, 'failed'],
])('takes an answer of %i for %s', async (code, is) => {
  const { outcome } = await write({ status: code, message: 'no' });
  expect(outcome.is).toBe(is);
});

it('takes a lost answer for a failure, to be tried again', async () => {
  const { outcome } = await write('lost');
  expect(outcome.is).toBe('failed');
});
