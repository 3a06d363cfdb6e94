import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv } from 'ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { projectRoot } from '../../test/support/documents.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { validateSources } from '../../test/support/rule-builder.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { readSpec } from './manifest-reader.ts';

const ajv = new Ajv({ strict: false });
ajv.addSchema(JSON.parse(readFileSync(join(projectRoot, 'schemas/ratelimitconfig.json'), 'utf8')), 'config');
const fitsSchema = ajv.compile({ $ref: 'config#/properties/spec' });

const text = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 5 }),
  fc.constantFrom('k', 'a*'),
);
const flag = fc.boolean();
const unit = fc.constantFrom('second', 'MINUTE', 'Hour', 'day', 'week', 'month', 'year');
const limit = fc.oneof(
  fc.record({ unlimited: fc.constant(true) }),
  fc.record({ unit, requestsPerUnit: fc.nat() }),
  fc.record({
    unit,
    requestsPerUnit: fc.nat(),
    name: fc.constant('n'),
    replaces: fc.constant([{ name: 'm' }]),
  }),
);

type Descriptor = Record<string, unknown>;

function descriptors(levels: number): fc.Arbitrary<Descriptor[]> {
  const below = levels === 1 ? fc.constant([]) : descriptors(levels - 1);
  const descriptor = fc.record(
    {
      key: text,
      value: fc.oneof(fc.constant(''), text),
      rateLimit: limit,
      shadowMode: flag,
      quotaMode: flag,
      detailedMetric: flag,
      valueToMetric: flag,
      metadata: fc.dictionary(text, fc.jsonValue({ maxDepth: 3 }), { maxKeys: 2 }),
      descriptors: below,
    },
    { requiredKeys: ['key'] },
  );
  const composite = ({ key, value = '' }: Descriptor): string =>
    value === '' ? `${key}` : `${key}_${value}`;
  return fc.uniqueArray(descriptor, { selector: composite, maxLength: 4 });
}

const specs = fc.record(
  { domain: text, fleet: fc.constantFrom('default', 'blue'), descriptors: descriptors(3) },
  { requiredKeys: ['domain'] },
);

function countOf(rules: unknown): number {
  return ((rules ?? []) as Descriptor[]).reduce((sum, { descriptors: below }) => sum + 1 + countOf(below), 0);
}

describe('readSpec, for any valid spec', () => {
  it('accepts it, with rules that validate and load', () => {
    fc.assert(
      fc.property(specs, (spec) => {
        const reading = readSpec(spec, 'n');
        if (!reading.ok) throw new Error(JSON.stringify(reading.errors));
        expect(reading.rules).toBe(countOf(spec.descriptors));
        expect(validateSources([reading.source], { mergeDomains: false })).toEqual([]);
        expect(() => new RuleTable(compileRules([reading.source]))).not.toThrow();
      }),
    );
  });

  it('rejects it with any value in the place of another, whenever the JSON Schema does', () => {
    const values = fc.oneof(
      fc.jsonValue({ maxDepth: 2 }),
      fc.constantFrom(undefined, Number.NaN, '\ud800', 2 ** 32),
    );
    fc.assert(
      fc.property(specs, fc.nat(), values, (given, position, value) => {
        const spec = structuredClone(given);
        const places = placesIn(spec);
        const [container, key] = places[position % places.length]!;
        container[key] = value;
        const reading = readSpec(spec, 'n');
        if (reading.ok) {
          expect([spec, fitsSchema(spec)]).toEqual([spec, true]);
          expect(() => new RuleTable(compileRules([reading.source]))).not.toThrow();
        } else for (const { path } of reading.errors) expect(path[0]).toBe('spec');
      }),
      { numRuns: caseCount(500) },
    );
  });
});

/** All places of values in a document: the object or list that holds each, and its key there. */
function placesIn(value: object): [Record<string, unknown>, string][] {
  const container = value as Record<string, unknown>;
  return Object.entries(container).flatMap(([key, member]) => {
    const below = typeof member === 'object' && member !== null ? placesIn(member) : [];
    return [[container, key] as [Record<string, unknown>, string], ...below];
  });
}
