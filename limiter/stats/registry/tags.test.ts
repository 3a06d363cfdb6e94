import { describe, expect, it } from 'vitest';
import { StatsRegistry } from './stats-registry.ts';
import { orderedTags, tagsSuffix } from './tags.ts';

describe('orderedTags', () => {
  it('sorts by key, drops what is empty, and lets the later one of two stay', () => {
    const tags = orderedTags(
      [
        ['b', '1'],
        ['', 'x'],
        ['y', ''],
      ],
      [
        ['a', '2'],
        ['b', '3'],
      ],
    );
    expect(tags).toEqual([
      ['a', '2'],
      ['b', '3'],
    ]);
  });
});

describe('tagsSuffix', () => {
  it('replaces what ends a segment, a name or a line in values', () => {
    const suffix = tagsSuffix([
      ['a', '1'],
      ['b', '2.x:y|z\n'],
    ]);
    expect(suffix).toBe('.__a=1.__b=2_x_y_z_');
  });
});

describe('names with tags', () => {
  const registry = new StatsRegistry({
    extraTags: [
      ['dc', 'eu.1'],
      ['az', 'b'],
    ],
  });
  const metric = registry.ruleMetric('d.k', false);
  const tagged = registry.counter('c', [['code', 'miss']]);

  it('have EXTRA_TAGS behind the whole name, sorted', () => {
    expect(registry.nameOf(metric.slot)).toBe('ratelimit.service.rate_limit.d.k.total_hits.__az=b.__dc=eu_1');
    expect(registry.extraTagsSuffix).toBe('.__az=b.__dc=eu_1');
  });

  it('have tags of their own among them', () => {
    expect(registry.nameOf(tagged)).toBe('c.__az=b.__code=miss.__dc=eu_1');
  });

  it('can be had apart from them, values as they were given', () => {
    expect(registry.plainNameOf(tagged)).toBe('c');
    expect(registry.tagsOf(tagged)).toEqual([
      ['az', 'b'],
      ['code', 'miss'],
      ['dc', 'eu.1'],
    ]);
    expect(registry.tagsOf(metric.slot)).toBe(registry.extraTags);
  });

  it('are other statistics if the tags are others', () => {
    expect(registry.counter('c', [['code', 'error']])).not.toBe(tagged);
    expect(registry.counter('c', [['code', 'miss']])).toBe(tagged);
  });

  it('change with what an info says, as a new generation that is 1', () => {
    const infos = new StatsRegistry();
    const left: number[] = [];
    infos.onLeave((slot, count) => left.push(slot, count));
    const set = infos.info('rules', [['version', '1']]);
    const before = infos.generationOf(0);
    set([['version', '2']]);
    expect([...infos.statsLines()]).toEqual(['rules.__version=2: 1']);
    expect(infos.generationOf(0)).not.toBe(before);
    expect(left).toEqual([0, 1]);
  });
});
