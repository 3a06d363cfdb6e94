import { describe, expect, it } from 'vitest';
import type { CapabilityThreads } from '../capabilities/capability.ts';
import { Threads } from '../capabilities/messages.ts';
import type { ThreadPart } from '../capabilities/parts.ts';
import { capabilities } from '../settings/capabilities.ts';
import { type LimiterSettings, limiterSettingGroups, parseLimiterSettings } from '../settings/settings.ts';
import type { Store } from '../stores/store.ts';
import { loadCapabilities, ThreadParts } from './capabilities.ts';
import type { LimiterContext } from './context.ts';

function settingsOf(env: Record<string, string>): LimiterSettings {
  const { settings } = parseLimiterSettings(env);
  if (settings === undefined) return expect.fail();
  return settings;
}

/** The context that capabilities pass on without reading it. */
const context = {} as LimiterContext;

function partsOf(...parts: ThreadPart[]): ThreadParts {
  const loaded = parts.map((part, index) => ({
    name: `part-${index}`,
    halves: { thread: () => part } satisfies CapabilityThreads<LimiterSettings>,
  }));
  return new ThreadParts(context, loaded, 0);
}

describe('capabilities', () => {
  it('are loaded if their settings ask for them', async () => {
    const names = async (env: Record<string, string>) =>
      (await loadCapabilities(settingsOf(env))).map(({ name }) => name);
    expect(await names({})).not.toContain('reflection');
    expect(await names({ GRPC_REFLECTION: 'true' })).toContain('reflection');
  });

  it('have their settings once in the documentation, in the table that they name', () => {
    const listed = limiterSettingGroups.flatMap(({ title, settings }) =>
      Object.values(settings).map(({ name }) => `${title}: ${name}`),
    );
    const declared = capabilities.flatMap((one) =>
      'settings' in one
        ? Object.values(one.settings.rows).map(({ name }) => `${one.settings.title}: ${name}`)
        : [],
    );
    expect(declared.filter((name) => listed.filter((other) => other === name).length !== 1)).toEqual([]);
  });
});

describe('the parts of a thread', () => {
  it('wrap the store in the order of their list, the first innermost', () => {
    const named = (name: string, inner: Store): Store =>
      ({ ...inner, name: `${name}(${nameOf(inner)})` }) as Store;
    const nameOf = (store: Store): string => (store as Store & { name: string }).name;
    const parts = partsOf(
      { aroundStore: (store) => named('first', store) },
      { aroundServer: (store, name) => named(name, store) },
      { aroundStore: (store) => named('second', store) },
    );
    const bare = { name: 'redis' } as unknown as Store;
    expect(nameOf(parts.aroundStore(bare))).toBe('second(first(redis))');
    expect(nameOf(parts.aroundServer(bare, 'per_second_store'))).toBe('per_second_store(redis)');
  });

  it('answer the messages of their other half, each its own', async () => {
    const parts = partsOf({ messages: { add: (one: number) => one + 1 } }, {});
    interface Messages {
      add(one: number): number;
    }
    expect(await new Threads(parts.carrier, 'part-0').of<Messages>().ask('add', 2)).toEqual([3]);
    expect(await new Threads(parts.carrier, 'part-1').of<Messages>().ask('add', 2)).toEqual([]);
  });
});
