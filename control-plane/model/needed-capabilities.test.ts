import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Algorithm, algorithmNames } from '../../rules/algorithms/registry.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import {
  calendarFields,
  domainFields,
  type FieldRows,
  limitFields,
  reserveFields,
  ruleFields,
} from '../../rules/language/fields.ts';
import { enumName } from '../../rules/language/tables.ts';
import { maxUint32 } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { neededCapabilities, neededForOverride } from './supported-rules.ts';

describe('neededCapabilities', () => {
  const month = { unit: 'month', timezone: 'UTC', startsOn: 1 } as const;
  const reserve = { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' } as const;

  it.each([
    ['no limit', {}, []],
    ['a limit that the Go service knows', { rateLimit: limit({ unit: 'week' }) }, []],
    ['no bound', { rateLimit: limit({ unit: '', unlimited: true }) }, []],
    ['fields that may be ignored', { rateLimit: limit({ hitsUnit: 'tokens', warnAt: [50] }), lease: 2 }, []],
    ['a number of 32 bits', { rateLimit: limit({ requestsPerUnit: maxUint32 }) }, []],
    ['several units in a window', { rateLimit: limit({ unitMultiplier: 5 }) }, ['windows']],
    ['two limits', { limits: [limit(), limit({ unit: 'day' })] }, ['windows']],
    ['a sliding window', { rateLimit: limit({ algorithm: Algorithm.SLIDING_WINDOW }) }, ['algorithms']],
    ['a calendar', { rateLimit: limit({ calendar: month }) }, ['calendar']],
    ['reservations', { rateLimit: limit(), reserve }, ['reserve']],
    ['a wide number', { rateLimit: limit({ requestsPerUnit: maxUint32 + 1 }) }, ['wide-numbers']],
    [
      'all of them',
      {
        limits: [
          limit({ calendar: month }),
          limit({ algorithm: Algorithm.TOKEN_BUCKET, burst: maxUint32 + 1, unitMultiplier: 2 }),
        ],
        reserve,
      },
      ['windows', 'algorithms', 'calendar', 'reserve', 'wide-numbers'],
    ],
  ])('of a rule with %s', (_, traits, needed) => {
    const found = rule({ key: 'k', ...traits });
    expect(neededCapabilities([rule({ key: 'plain', rateLimit: limit() }), found])).toEqual(needed);
    expect(neededCapabilities([rule({ key: 'above', descriptors: [found] })])).toEqual(needed);
  });

  it.each<[OverrideEffect, string[]]>([
    [{ kind: 'block' }, ['overrides']],
    [{ kind: 'grant', hits: maxUint32 }, ['overrides']],
    [{ kind: 'grant', hits: maxUint32 + 1 }, ['overrides', 'wide-numbers']],
    [{ kind: 'limit', requestsPerUnit: maxUint32 + 1, unit: undefined }, ['overrides', 'wide-numbers']],
  ])('of an override with %j', (effect, needed) => {
    expect(neededForOverride({ effect } as Override)).toEqual(needed);
  });
});

/** docs/versions.md promises that later fields are ignored: limiters of 0.1.0 report its capabilities and no others. */
describe('the rows of the rule language', () => {
  type Schema = { properties: Record<string, Schema>; items: Schema; enum?: string[] };
  const released = JSON.parse(
    readFileSync(new URL('../../test/released/0.1.0.json', import.meta.url), 'utf8'),
  ) as {
    interfaces: { crds: Record<string, { spec: { versions: { schema: { openAPIV3Schema: Schema } }[] } }> };
  };
  const { spec } = released.interfaces.crds['ratelimit.weir.dev_ratelimitconfigs.yaml']!;
  const config = spec.versions[0]!.schema.openAPIV3Schema.properties['spec']!;
  const ofRule = config.properties['descriptors']!.items.properties;
  const ofLimit = { ...ofRule['rateLimit']!.properties, ...ofRule['rateLimits']!.items.properties };
  const tables: [string, FieldRows, Record<string, Schema>][] = [
    ['a spec', domainFields, config.properties],
    ['a rule', ruleFields, ofRule],
    ['a limit', limitFields, ofLimit],
    ['a calendar', calendarFields, ofLimit['calendar']!.properties],
    ['reserve', reserveFields, ofRule['reserve']!.properties],
  ];

  it.each(tables)('withhold no field of %s that 0.1.0 does not have', (_, rows, fields) => {
    const later = Object.entries(rows).filter(([name]) => !(name in fields));
    expect(later.filter(([, { ifUnknown, ifWide }]) => ifUnknown !== 'ignore' || ifWide)).toEqual([]);
  });

  it('have no algorithm that limiters of 0.1.0 would get and do not know', () => {
    const words = ofLimit['algorithm']!.enum!;
    expect(algorithmNames.map(enumName).filter((name) => !words.includes(name))).toEqual([]);
  });

  it('need every capability but that of overrides', () => {
    const rows = tables.flatMap(([, table]) => Object.values(table));
    const withheld = rows.flatMap(({ ifUnknown, ifWide }) => [ifUnknown, ifWide]);
    const needed = withheld.flatMap((one) => (typeof one === 'object' ? [one.withhold] : []));
    expect(capabilities.filter((one) => !needed.includes(one))).toEqual(['overrides']);
  });
});
