/** The JSON Schemas: what readers take they take, what is a mistake they reject, and each field has an example that is one. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Ajv, type ValidateFunction } from 'ajv';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { schemaCommand, schemaKinds } from '../../cli/schema/schema-command.ts';
import { readCallersFile } from '../../limiter/callers/callers-file.ts';
import { packagedFiles } from '../../process/files/package-file.ts';
import { readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { readRuleFiles } from '../../rules/reader/read-rule-files.ts';
import { manifestValue, ruleFileValue } from '../../rules/write-rules.ts';
import { documentPaths, projectRoot, readDocument } from '../support/documents.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { caseCount } from '../support/property-cases.ts';
import { acceptedSpecs, rejectedSpecs } from '../support/rejected-specs.ts';
import { anyRules } from '../support/rule-arbitraries.ts';
import { runCommand } from '../support/run-command.ts';

type Schema = Record<string, unknown>;
type Kind = (typeof schemaKinds)[number];

const schemas = Object.fromEntries(
  schemaKinds.map((name) => [
    name,
    JSON.parse(readFileSync(join(projectRoot, `schemas/${name}.json`), 'utf8')) as Schema,
  ]),
) as Record<Kind, Schema>;
const ajv = new Ajv({ allErrors: false, strict: false, validateFormats: false });
const validators = Object.fromEntries(
  schemaKinds.map((name) => [name, ajv.compile({ ...schemas[name], $id: name })]),
) as Record<Kind, ValidateFunction>;

/** Undefined where a value is valid. */
function problem(kind: Kind, value: unknown): string | undefined {
  const isValid = validators[kind];
  return isValid(value) ? undefined : ajv.errorsText(isValid.errors);
}

/** YAML in the files of examples and in documents, with where it stands. */
const texts = [
  ...globSync('examples/**/*.{yaml,yml}', { cwd: projectRoot }).map((place) => ({
    place,
    text: readDocument(place),
  })),
  ...documentPaths().flatMap((document) =>
    fencedBlocks(readDocument(document))
      .filter(({ language }) => language === 'yaml')
      .map(({ text, line }) => ({ place: `${document}:${line}`, text })),
  ),
];
const ruleTexts = texts.filter(({ text }) => /^domain:/m.test(text) && !/^overrides:/m.test(text));

/** Readers take null for 0 here, which nobody means. */
const takenForZero = ['requests_per_unit', 'burst'];

const escapedUnit = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;

/** All fields that a rule file has but those of metadata, with what holds them. */
function slotsOf(value: unknown): { holder: Record<string, unknown>; name: string }[] {
  if (typeof value !== 'object' || value === null) return [];
  if (Array.isArray(value)) return value.flatMap(slotsOf);
  const holder = value as Record<string, unknown>;
  return Object.entries(holder).flatMap(([name, one]) => [
    { holder, name },
    ...(name === 'metadata' ? [] : slotsOf(one)),
  ]);
}

/** All properties of a schema, with their pointers. */
function fieldsOf(schema: Schema, pointer = ''): { pointer: string; field: Schema }[] {
  return Object.entries(schema).flatMap(([word, value]) => {
    if (typeof value !== 'object' || value === null || /^(?:examples|enum|default|required)$/.test(word))
      return [];
    const at = `${pointer}/${word.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    const found = fieldsOf(value as Schema, at);
    if (!/^(?:properties|definitions)$/.test(word)) return found;
    // Conditions name fields without saying anything of them.
    if (
      /\/(?:anyOf|oneOf|allOf|not)\b/.test(at.replace(/\/(?:any|all)Of\/\d+\/(?=items|properties\/uri)/g, ''))
    )
      return found;
    const own = Object.entries(value as Record<string, Schema>).map(([name, field]) => ({
      pointer: `${at}/${name}`,
      field,
    }));
    return [...(word === 'properties' ? own : []), ...found];
  });
}

describe.each(schemaKinds)('the schema of %s', (kind) => {
  const fields = fieldsOf(schemas[kind]);

  it('has a description and an example of every field, which is valid', () => {
    expect(fields.length).toBeGreaterThan(5);
    for (const { pointer, field } of fields) {
      expect([pointer, String(field['description']).length > 10]).toEqual([pointer, true]);
      const examples = field['examples'] as unknown[];
      expect([pointer, examples?.length]).toEqual([pointer, 1]);
      const isValid = ajv.compile({ $ref: `${kind}#${pointer}` });
      expect([pointer, isValid(examples[0]), isValid.errors ?? []]).toEqual([pointer, true, []]);
    }
  });

  it('is printed, and carried by every package', async () => {
    const { status, stdout } = await runCommand(schemaCommand, [kind]);
    expect([status, JSON.parse(stdout)]).toEqual([0, schemas[kind]]);
    expect(packagedFiles).toContain(`schemas/${kind}.json`);
  });
});

it('weir schema says which there are', async () => {
  expect(await runCommand(schemaCommand, ['rule'])).toMatchObject({ status: 2, stdout: '' });
  expect((await runCommand(schemaCommand, [])).stderr).toContain('rules, profiles, callers, ratelimitconfig');
});

describe('rule files', () => {
  it('of examples and documents are valid', () => {
    expect(ruleTexts.length).toBeGreaterThan(30);
    for (const { place, text } of ruleTexts) {
      const { errors, warnings } = readRuleFiles([{ name: place, text }], { mergeDomains: false });
      if (errors.length + warnings.length === 0)
        expect([place, problem('rules', parse(text))]).toEqual([place, undefined]);
    }
  });

  it('that are written of any rules are valid', () => {
    fc.assert(
      fc.property(anyRules, (descriptors) => {
        expect(problem('rules', ruleFileValue({ domain: 'd', descriptors }))).toBeUndefined();
      }),
      { numRuns: caseCount(100) },
    );
  });

  it.each([
    'descriptors:',
    'descriptors: [{ key: a, value: , rate_limit: , descriptors: , lease: , metadata: , shadow_mode: }]',
    'descriptors: [{ key: a, rate_limit: { unlimited: true, unit: , requests_per_unit: , name: } }]',
    'descriptors: [{ key: a, rate_limit: { unit: , window: 5m, requests_per_unit: 5, unlimited: , replaces: } }]',
  ])('may have fields that are empty: %s', (fields) => {
    const text = `domain: d\n${fields}`;
    expect(readRuleFiles([{ name: 'a', text }], { mergeDomains: false }).errors).toEqual([]);
    expect(problem('rules', parse(text))).toBeUndefined();
  });

  it('may have null if readers take it', () => {
    const seen = new Set<string>();
    fc.assert(
      fc.property(anyRules, fc.nat(), (descriptors, pick) => {
        const value = ruleFileValue({ domain: 'd', descriptors });
        // One field of each name, so that a seed cannot leave out a name that is rare among all fields.
        for (const slots of Map.groupBy(slotsOf(value), ({ name }) => name).values()) {
          const { holder, name } = slots[pick % slots.length]!;
          const was = holder[name];
          holder[name] = null;
          const text = JSON.stringify(value).replace(/[\u007f-\uffff]/g, escapedUnit);
          const { errors } = readRuleFiles([{ name: 'a', text }], { mergeDomains: false });
          const isTaken = errors.length === 0;
          // A schema does not compare rules.
          const isForeign =
            errors.some(({ code }) => code.startsWith('duplicate-')) ||
            (isTaken && takenForZero.includes(name) && holder['unlimited'] !== true);
          if (!isForeign) {
            seen.add(`${name}: ${isTaken}`);
            expect([name, value, problem('rules', value) === undefined]).toEqual([name, value, isTaken]);
          }
          holder[name] = was;
        }
      }),
      { numRuns: caseCount(60) },
    );
    expect([...seen]).toEqual(
      expect.arrayContaining(['value: true', 'rate_limit: true', 'key: false', 'unit: false']),
    );
  });

  const limit = 'rate_limit: { unit: minute, requests_per_unit: 5 }';

  it.each([
    ['descriptors: []'],
    ['domian: d'],
    ['domain: d\ndescriptor: []'],
    ['domain: d\ndescriptors: { key: a }'],
    ['domain: d\ndescriptors: [a]'],
    ['domain: [d]'],
    [`domain: d\ndescriptors: [{ ${limit} }]`],
    [`domain: d\ndescriptors: [{ key: "", ${limit} }]`],
    [`domain: d\ndescriptors: [{ kye: a, ${limit} }]`],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, shadowMode: true }]`],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, value: [a, b] }]`],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, shadow_mode: maybe }]`],
    [`domain: d\ndescriptors: [{ key: a, unit: minute }]`],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { requests_per_unit: 5 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minuet, requests_per_unit: 5 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, request_per_unit: 5 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 0.5 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: -1 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: "5" } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 5, burst: 5 } }]'],
    [
      'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 5, algorithm: SlidingWindow } }]',
    ],
    [
      'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 5, shadow_mode: true } }]',
    ],
    [
      'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, requests_per_unit: 5, descriptors: [] } }]',
    ],
    [
      'domain: d\ndescriptors: [{ key: a, rate_limit: { unit: minute, window: 5m, unit_multiplier: 2, requests_per_unit: 5 } }]',
    ],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { window: 5x, requests_per_unit: 5 } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, unlimited: true } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 5, replaces: [b] } }]'],
    ['domain: d\ndescriptors: [{ key: a, rate_limits: [{ unit: day, requests_per_unit: 5 }] }]'],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, rate_limits: [] }]`],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, share_threshold: true }]`],
    [`domain: d\ndescriptors: [{ key: a, ${limit}, lease: 200% }]`],
    [`domain: d\ndescriptors: [{ key: a, descriptors: [{ kye: b, ${limit} }] }]`],
  ])('with a mistake are not: %s', (text) => {
    expect(problem('rules', parse(text))).toBeDefined();
  });
});

describe('manifests', () => {
  const kinds = ['RateLimitConfig', 'RateLimitFleet', 'RateLimitOverride'] as const;
  const objects = texts.flatMap(({ place, text }) =>
    parseAllDocuments(text)
      .map((document) => document.toJS() as { kind?: string; apiVersion?: string })
      .filter((value) => value?.apiVersion === 'ratelimit.weir.dev/v1alpha1')
      .map((value) => ({
        place,
        value,
        kind: kinds.find((one) => one === value.kind)!.toLowerCase() as Kind,
      })),
  );

  it('of examples and documents are valid', () => {
    expect(new Set(objects.map(({ kind }) => kind)).size).toBe(3);
    for (const { place, value, kind } of objects)
      expect([place, problem(kind, value)]).toEqual([place, undefined]);
  });

  const config = (spec: unknown): object => {
    return {
      apiVersion: 'ratelimit.weir.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'a' },
      spec,
    };
  };

  it('that are written of any rules are valid', () => {
    const identity = { name: 'a', namespace: 'b', labels: {}, fleet: 'default' };
    fc.assert(
      fc.property(anyRules, (descriptors) => {
        const value = manifestValue({ domain: 'd', descriptors }, identity);
        expect(problem('ratelimitconfig', value)).toBeUndefined();
      }),
      { numRuns: caseCount(50) },
    );
  });

  it.each(acceptedSpecs)('have $name', ({ spec }) => {
    expect(problem('ratelimitconfig', config(spec))).toBeUndefined();
  });

  // A schema that refers to itself has no end.
  it.each(
    rejectedSpecs.filter(
      ({ server }) => !/descriptors: Too many: \d+: must have at most 0|levels/.test(server),
    ),
  )('do not have $name', ({ spec }) => {
    expect(problem('ratelimitconfig', config(spec))).toBeDefined();
  });

  it('may have metadata that is null, and fields of the spec with a default alone', () => {
    const metadata = { name: 'a', namespace: null, labels: null, annotations: null };
    const spec = { domain: 'd', fleet: null, className: null };
    expect(problem('ratelimitconfig', { ...config(spec), metadata })).toBeUndefined();
    expect(problem('ratelimitconfig', config({ ...spec, descriptors: null }))).toBeDefined();
  });

  it('have what the API server asks for by expressions', () => {
    const override = (fields: object): string | undefined =>
      problem('ratelimitoverride', {
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitOverride',
        metadata: { name: 'a' },
        spec: { domain: 'd', match: [{ key: 'k', value: '' }], reason: 'r', ...fields },
      });
    const good = [
      { block: true, for: '2h' },
      { grant: 5 },
      { requestsPerUnit: 5, unit: 'day', permanent: true },
    ];
    expect(good.map(override)).toEqual([undefined, undefined, undefined]);
    const bad = [
      {},
      { block: true },
      { for: '2h' },
      { block: true, shadow: true, for: '2h' },
      { grant: 5, for: '2h' },
    ];
    const odd = [
      { block: true, for: '2h', permanent: true },
      { block: true, unit: 'day', for: '2h' },
      { blok: true, for: '2h' },
    ];
    expect([...bad, ...odd].map(override)).not.toContain(undefined);
    const fleet = (spec: object): string | undefined =>
      problem('ratelimitfleet', { ...config(spec), kind: 'RateLimitFleet' });
    expect(fleet({ count: 3 })).toBeUndefined();
    expect(fleet({ count: 3, service: { namespace: 'a', name: 'b' } })).toBeDefined();
    expect(fleet({ counts: 3 })).toBeDefined();
  });
});

const hash = 'a'.repeat(64);
const caller = (fields: string): string => `callers: [{ ${fields} }]`;
const profile = (fields: string): string => `profiles: { shop: { ${fields} } }`;
const actions = (list: string): string => profile(`domain: shop, rate_limits: [{ actions: [${list}] }]`);

describe.each([
  {
    kind: 'callers' as const,
    isGood: (text: string) => readCallersFile(text).problems === undefined,
    good: [
      caller(`name: a, token_sha256: ${hash}, domains: [shop]`),
      caller(
        `name: a, token_sha256: [${hash}], domains: ['*'], rights: [ask, admin], requests_per_second: 5`,
      ),
      caller('name: a, certificate: { dns: a.example }, domains: [shop]'),
      caller('name: a, certificate: [{ dns: a.example }, { cn: a }], domains: [shop]'),
      caller('anonymous: true, domains: [shop]'),
    ],
    bad: [
      'callers: []',
      'caller: []',
      caller('name: a, domains: [shop]'),
      caller(`token_sha256: ${hash}, domains: [shop]`),
      caller(`name: a, token_sha256: ${hash}`),
      caller(`name: a, token_sha256: abc, domains: [shop]`),
      caller(`name: a/b, token_sha256: ${hash}, domains: [shop]`),
      caller(`name: a, token_sha256: ${hash}, domains: shop`),
      caller(`name: a, token_sha256: ${hash}, domains: [shop], rights: [asks]`),
      caller(`name: a, token_sha256: ${hash}, domains: [shop], right: [ask]`),
      caller(`name: a, token_sha256: ${hash}, domains: [shop], requests_per_second: 0`),
      caller(`anonymous: true, token_sha256: ${hash}, domains: [shop]`),
      caller('name: a, certificate: {}, domains: [shop]'),
      caller('name: a, certificate: { san: a }, domains: [shop]'),
    ],
  },
  {
    kind: 'profiles' as const,
    isGood: (text: string) => readProfilesFile(text).problems === undefined,
    good: [
      actions('{ remote_address: {} }'),
      actions('{ remoteAddress: {} }, { masked_remote_address: { v4PrefixMaskLen: 24 } }'),
      actions('{ request_headers: { header_name: ":path", descriptor_key: path, skip_if_absent: true } }'),
      actions('{ requestHeaders: { headerName: x-a, descriptorKey: a } }'),
      actions('{ query_parameters: { query_parameter_name: page, descriptor_key: page } }'),
      actions(
        '{ header_value_match: { descriptor_value: a, headers: [{ name: x, string_match: { prefix: a, ignore_case: true } }] } }',
      ),
      actions(
        '{ header_value_match: { descriptor_value: a, headers: [{ name: x, safe_regex_match: { regex: a } }, { name: y }] } }',
      ),
      actions(
        '{ query_parameter_value_match: { descriptor_value: a, query_parameters: [{ name: x, present_match: true }] } }',
      ),
      profile(
        'domain: shop, refusedStatus: 403, onError: deny, trustedHops: 1, originalRequest: original-url, rate_limits: [{ actions: [{ generic_key: { descriptor_value: a } }] }]',
      ),
    ],
    bad: [
      'profile: {}',
      profile('domain: shop'),
      profile('rate_limits: [{ actions: [{ remote_address: {} }] }]'),
      profile('domain: shop, rate_limits: []'),
      profile('domain: shop, rate_limits: [{}]'),
      actions(''),
      actions('{}'),
      actions('{ remote_adress: {} }'),
      actions('{ remote_address: { a: b } }'),
      actions('{ remote_address: {}, generic_key: { descriptor_value: a } }'),
      actions('{ request_headers: { header_name: x } }'),
      actions('{ generic_key: {} }'),
      actions('{ header_value_match: { descriptor_value: a } }'),
      actions('{ header_value_match: { descriptor_value: a, headers: [{ string_match: { exact: a } }] } }'),
      actions('{ destination_cluster: {} }'),
      profile('domain: shop, refusedStatus: 404, rate_limits: [{ actions: [{ remote_address: {} }] }]'),
      profile('domain: shop, onError: open, rate_limits: [{ actions: [{ remote_address: {} }] }]'),
      profile('domain: shop, trustedHops: -1, rate_limits: [{ actions: [{ remote_address: {} }] }]'),
      profile('domain: shop, stage: 1, rate_limits: [{ actions: [{ remote_address: {} }] }]'),
      'profiles: { "a b": { domain: shop, rate_limits: [{ actions: [{ remote_address: {} }] }] } }',
    ],
  },
])('$kind', ({ kind, isGood, good, bad }) => {
  it('that are good are valid', () => {
    const written = texts
      .filter(({ text }) => new RegExp(`^${kind}:`, 'm').test(text))
      .map(({ text }) => text);
    expect(written.length).toBeGreaterThan(0);
    for (const text of [...good, ...written.filter(isGood)])
      expect([text, isGood(text), problem(kind, parse(text))]).toEqual([text, true, undefined]);
  });

  it.each(bad.map((text) => [text]))('with a mistake are not: %s', (text) => {
    expect([isGood(text), problem(kind, parse(text)) === undefined]).toEqual([false, false]);
  });
});
