import { describe, expect, it } from 'vitest';
import { overrideKind } from '../../rules/language/kinds.ts';
import { configObject } from '../../test/support/config-object-builder.ts';
import type { ConfigObject } from './config-object.ts';
import { areReached, watchKey, withVersionsOf } from './object-versions.ts';

describe('versions of objects', () => {
  const [all, overrides, ofTeam] = [watchKey(undefined), watchKey(overrideKind), watchKey(undefined, 'team')];

  it('are those of the newest object of each watch', () => {
    const at = (resourceVersion: string, traits: Partial<ConfigObject> = {}): ConfigObject =>
      configObject({ name: 'limits', namespace: 'team', resourceVersion, ...traits });
    const objects = [at('9'), at('10'), at('8', { namespace: 'other' }), at('7', { kind: overrideKind })];
    const read = (watches: object) =>
      withVersionsOf(objects, { versions: { [all]: '20' }, watches: { ...watches } });
    expect(read({ [all]: '30', [overrides]: '30' })).toEqual({ [all]: '10', [overrides]: '7' });
    expect(read({ [ofTeam]: '30' })).toEqual({ [all]: '8', [overrides]: '7', [ofTeam]: '10' });
    const none = { versions: { [all]: '1' }, watches: {} };
    const { resourceVersion: _, ...unversioned } = at('1');
    expect(withVersionsOf([unversioned], none)).toBe(none.versions);
  });

  it.each([
    [{}, {}, true],
    [{ [all]: '1' }, {}, true],
    [{}, { [all]: '1' }, false],
    [{ [all]: '9' }, { [all]: '10' }, false],
    [{ [all]: '10', [overrides]: '1' }, { [all]: '10' }, true],
    [{ [all]: '10' }, { [all]: '10', [overrides]: '1' }, false],
  ])('%j reach %j: %s', (versions, required, expected) => {
    expect(areReached(versions, required)).toBe(expected);
  });
});
