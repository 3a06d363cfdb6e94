import { describe, expect, it, onTestFinished } from 'vitest';
import type { RuleSource } from '../../../rules/model.ts';
import type { Override } from '../../../rules/override.ts';
import {
  encodeOverride,
  encodeResource,
  rateLimitConfigTypeUrl as typeUrl,
} from '../../../rules/reader/resource.ts';
import { AdsServer } from '../../../test/support/ads-server.ts';
import { limit, rule, source } from '../../../test/support/rule-builder.ts';
import { WatchedXdsSource } from '../../../test/support/watched-xds-source.ts';

function rules(domain: string, requestsPerUnit: number): RuleSource {
  return source(domain, [rule({ key: 'k', rateLimit: limit({ requestsPerUnit }) })], `team/${domain}`);
}

function over(name: string, traits: Partial<Override> = {}): Uint8Array {
  return encodeOverride({
    ...{ id: name, source: 'object', name, domain: 'd', match: [{ key: 'k', value: 'v' }], limit: '' },
    ...{ effect: { kind: 'block' }, createdMs: 1, endsMs: undefined, reason: 'r', by: '', ...traits },
  });
}
const wrong = over('team/wrong', { match: [] });
const words = 'match: must have 1 to 32 entries, and has 0';

async function startServer(incremental: boolean) {
  const server = await AdsServer.start({ incremental });
  onTestFinished(() => server.stop());
  return { server, watched: await WatchedXdsSource.start({ port: server.port, incremental }) };
}

describe('overrides of the state of the world', () => {
  const any = (value: Uint8Array) => ({ typeUrl, value });
  const d = any(encodeResource(rules('d', 10)));

  it('are laid over rules, which are not loaded again when one comes or goes', async () => {
    const { server, watched } = await startServer(false);
    const stream = await server.stream();
    await stream.request();
    const send = async (version: string, ...resources: { typeUrl: string; value: Uint8Array }[]) => {
      stream.respond({ version, resources });
      return stream.request();
    };
    expect(await send('1', d, any(over('team/a')))).toMatchObject({ versionInfo: '1' });
    expect(await send('2', any(over('team/b')), d, any(over('team/a')))).toMatchObject({ versionInfo: '2' });
    expect(await send('3', d)).toMatchObject({ versionInfo: '3' });
    expect(await send('4', d, any(wrong))).toMatchObject({
      versionInfo: '3',
      errorDetail: { message: expect.stringContaining(words) },
    });
    expect(watched.reported).toEqual([
      'connected',
      'over rules: team/a',
      'loaded: 1 sources, 1 domains, 1 rules',
      'over rules: team/b,team/a',
      'over rules: ',
      `refused: override 1: ${words}`,
    ]);
  });
});

describe('overrides of incremental xDS', () => {
  it('come, go and are rejected one by one, and rules are not loaded for them', async () => {
    const { server, watched } = await startServer(true);
    const stream = await server.deltaStream();
    await stream.request();
    stream.respond({
      version: '1',
      resources: { 'team/d': ['1', rules('d', 10)], 'override/team/a': ['1', over('team/a')] },
    });
    expect((await stream.request()).errorDetail).toBeUndefined();
    stream.respond({
      version: '2',
      resources: { 'override/team/b': ['1', over('team/b')], 'override/team/a': ['2', wrong] },
    });
    expect(await stream.request()).toMatchObject({
      errorDetail: { message: expect.stringContaining(words) },
    });
    stream.respond({ version: '3', removed: ['override/team/a', 'override/team/b'] });
    expect((await stream.request()).errorDetail).toBeUndefined();
    expect(watched.rules).toEqual(['d.k 10']);
    // One that is rejected leaves what was in force under its name.
    expect(watched.reported).toEqual([
      'connected',
      'over rules: team/a',
      'loaded: 1 sources, 1 domains, 1 rules',
      expect.stringMatching(/^over rules: (team\/a,team\/b|team\/b,team\/a)$/),
      `refused: override/team/a: ${words}`,
      'over rules: ',
    ]);
  });

  it('are claimed with the rules when a stream begins again', async () => {
    const { server } = await startServer(true);
    const first = await server.deltaStream();
    await first.request();
    first.respond({
      version: '1',
      resources: { 'team/d': ['1', rules('d', 10)], 'override/team/a': ['7', over('team/a')] },
    });
    await first.request();
    first.end();
    const second = await server.deltaStream();
    expect((await second.request()).initialResourceVersions).toEqual({
      'team/d': '1',
      'override/team/a': '7',
    });
  });
});
