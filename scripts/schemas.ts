/**
 * Writes the JSON Schemas of all files that people write, for editors. They come from the rows of rules and overrides, and from the
 * fields that the readers of callers files and profiles know. With `--check`, it writes nothing and fails if a committed file is out of
 * date.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { z } from 'zod';
import { schemaKinds } from '../cli/schema/schema-command.ts';
import { fleetSpecModel } from '../control-plane/model/object-models.ts';
import {
  type callerFields,
  callerName,
  excessAnswers,
  maxCallers,
  maxInList,
  rightsByName,
} from '../limiter/callers/callers-file.ts';
import { nameKinds } from '../limiter/callers/certificate-patterns.ts';
import { maxRequestsPerSecond } from '../limiter/callers/request-rates.ts';
import { apiVersion, fleetKind, kind, overrideKind } from '../rules/language/kinds.ts';
import { effectFields, endFields, ownLimitFields, ruleFileName } from '../rules/language/tables.ts';
import { wholeNumberPattern } from '../rules/model.ts';
import { actionFields, headerTests, queryTests, stringTests } from '../rules/proxy/read-actions.ts';
import {
  maxProfiles,
  maxTrustedHops,
  originalHeaders,
  type profileFields,
  profileName,
} from '../rules/proxy/read-profiles.ts';
import { exampleOf } from './schema-examples.ts';
import { overrideSpecSchema, ruleFileWord, ruleFileWords, type Schema, specSchema } from './spec-schema.ts';

type Fields = Record<string, Schema>;

const text = (description: string, more: Schema = {}): Schema => ({ description, type: 'string', ...more });
const flag = (description: string): Schema => ({ description, type: 'boolean' });
const whole = (description: string, minimum: number, maximum: number): Schema => {
  return { description, type: 'integer', minimum, maximum };
};
const object = (description: string, properties: Fields, more: Schema = {}): Schema => {
  return { description, type: 'object', properties, additionalProperties: false, ...more };
};
const listOf = (description: string, items: Schema, more: Schema = {}): Schema => {
  return { description, type: 'array', items, ...more };
};
const required = (...names: string[]): Schema => ({ required: names });
const anyOf = (names: readonly string[]): Schema => ({ anyOf: names.map((name) => required(name)) });

/** Returns a model's schema without keywords that only the API server reads. */
function ofModel(model: z.ZodType): Schema {
  const { $schema: _, ...schema } = z.toJSONSchema(model, {
    target: 'draft-7',
    io: 'input',
    unrepresentable: 'any',
  });
  return cleaned(schema);
}

function cleaned(schema: Schema): Schema {
  const allowed = Object.entries(schema).filter(
    ([word, value]) => !word.startsWith('x-kubernetes-') && !(word === 'format' && value === 'int64'),
  );
  const result = Object.fromEntries(allowed.map(([word, value]) => [word, cleanedWord(word, value)]));
  if (result['nullable'] === true) {
    const { nullable: _, ...value } = result;
    return { anyOf: [value, { type: 'null' }], description: value['description'] };
  }
  // Editors need the types, and the API server needs its own keyword for them.
  if (schema['x-kubernetes-int-or-string'] === true) {
    delete result['anyOf'];
    result['type'] = ['integer', 'string'];
  }
  // The schema of the API server leaves this check to the control plane.
  if ((result['oneOf'] as Schema[] | undefined)?.some(isOfUnit)) result['not'] = required('unit', 'window');
  const isClosed = result['type'] !== 'object' || result['properties'] === undefined;
  return isClosed || 'additionalProperties' in result ? result : { ...result, additionalProperties: false };
}

function isOfUnit({ required: names }: Schema): boolean {
  return (names as string[]).includes('unit');
}

function cleanedWord(word: string, value: unknown): unknown {
  if (word === 'pattern')
    return (value as string).replace(/\(\?i:([^)]*)\)/, (_, words: string) => `(${inAnyCase(words)})`);
  return mapSchemas(word, value, cleaned);
}

/** Some editors do not support `(?i:...)`. */
function inAnyCase(words: string): string {
  return words.replace(/[a-z]/g, (letter) => `[${letter}${letter.toUpperCase()}]`);
}

/** Applies `change` to all schemas in the value of a keyword. */
function mapSchemas(
  word: string,
  value: unknown,
  change: (schema: Schema, name?: string) => Schema,
): unknown {
  if (word === 'properties' || word === 'patternProperties' || word === 'definitions') {
    return Object.fromEntries(
      Object.entries(value as Fields).map(([name, one]) => [name, change(one, name)]),
    );
  }
  if (Array.isArray(value) && /^(?:any|all|one)Of$/.test(word))
    return value.map((one: Schema) => change(one));
  const isSchema = /^(?:items|not|additionalProperties)$/.test(word);
  return isSchema && typeof value === 'object' ? change(value as Schema) : value;
}

/** Replaces nested rules by a reference to the schema of the second level. Only the API server checks the first level differently. */
function nested(schema: Schema): Schema {
  const properties = schema['properties'] as Fields;
  const descriptors = properties['descriptors']!;
  const first = descriptors['items'] as Schema;
  const rule = (first['properties'] as Fields)['descriptors']!['items'] as Schema;
  const below = {
    ...(rule['properties'] as Fields)['descriptors'],
    items: { $ref: '#/definitions/descriptor' },
  };
  const descriptor = { ...rule, properties: { ...(rule['properties'] as Fields), descriptors: below } };
  return {
    ...schema,
    properties: {
      ...properties,
      descriptors: { ...descriptors, items: { $ref: '#/definitions/descriptor' } },
    },
    definitions: { descriptor },
  };
}

/** Fields of rule files for which null is not the same as a missing field. The resulting value is rejected, or hardly intended. */
const neverNull = [
  'rate_limits',
  'reserve',
  ...ownLimitFields.filter((name) => name !== 'warnAt').map(ruleFileName),
];

/** Allows null for optional fields, because readers of rule files treat null as missing. */
function orNull(schema: Schema): Schema {
  const { enum: values, oneOf } = schema;
  return {
    ...schema,
    type: [schema['type'], 'null'].flat(),
    ...(oneOf === undefined ? {} : { oneOf: [...(oneOf as Schema[]), { type: 'null' }] }),
    ...(values === undefined ? {} : { enum: [...(values as unknown[]), null] }),
  };
}

/** A condition on fields that may be null. */
function conditionOrNull(schema: Schema): Schema {
  const names = (schema['required'] ?? []) as string[];
  const fields = Object.entries((schema['properties'] ?? {}) as Fields).map(
    ([name, one]): [string, Schema] =>
      (one['enum'] as unknown[] | undefined)?.[0] === false ? [name, { enum: [false, null] }] : [name, one],
  );
  if (names.length + fields.length === 0) return schema;
  const properties = Object.fromEntries(fields);
  if (names.length === 0) return { ...schema, properties };
  const written = names.map((name) => [name, { ...properties[name], not: { type: 'null' } }]);
  return { type: 'object', ...schema, properties: { ...properties, ...Object.fromEntries(written) } };
}

/** Removes bounds that rule files do not have: the lengths of texts and lists, except the number of several limits. */
function ofRuleFile(schema: Schema): Schema {
  const { maxLength, ...own } = schema;
  // Only objects may write numbers as texts.
  if (own['pattern'] === wholeNumberPattern) {
    delete own['pattern'];
    delete own['anyOf'];
    own['type'] = 'integer';
  }
  if (own['minItems'] === undefined) delete own['maxItems'];
  const entries = Object.entries(own).map(([word, value]): [string, unknown] => {
    if (word === 'required') return [word, (value as string[]).map(ruleFileName)];
    if (word === 'description') return [word, ruleFileWords(value as string)];
    if (word === 'enum') return [word, (value as unknown[]).map(ruleFileWord)];
    if (word !== 'properties') return [word, mapSchemas(word, value, ofRuleFile)];
    return [
      word,
      Object.fromEntries(
        Object.entries(value as Fields).map(([name, one]) => {
          const field = ofRuleFile(one);
          const isNeeded = (own['required'] as string[] | undefined)?.includes(name) ?? false;
          const isNullable =
            one['description'] !== undefined && !isNeeded && !neverNull.includes(ruleFileName(name));
          return [ruleFileName(name), isNullable ? orNull(field) : field];
        }),
      ),
    ];
  });
  const whole = Object.fromEntries(entries);
  const result = own['description'] === undefined ? conditionOrNull(whole) : whole;
  // A length of 0 is a condition, not a bound: the text is empty.
  if (maxLength === 0) return { ...result, maxLength };
  const isAnyText =
    result['type'] === 'string' && result['pattern'] === undefined && result['enum'] === undefined;
  return isAnyText ? { ...result, type: ['string', 'integer', 'boolean'] } : result;
}

function ruleFileSchema(): Schema {
  const { properties, ...schema } = nested(ofRuleFile(cleaned(specSchema)));
  const { class_name: _, fleet: __, ...own } = properties as Fields;
  return { ...schema, description: 'A rule file: rate limits of one domain.', properties: own };
}

function manifestSchema(ofKind: string, description: string, spec: Schema): Schema {
  const { definitions, ...own } = spec;
  const texts = {
    description: 'Metadata of the object.',
    type: ['object', 'null'],
    additionalProperties: { type: 'string' },
  };
  const metadata = object('Metadata of the object.', {
    name: text('Metadata of the object.', { minLength: 1 }),
    namespace: text('Metadata of the object.', { type: ['string', 'null'] }),
    labels: texts,
    annotations: texts,
  });
  const properties = {
    apiVersion: { description: 'API version of the object.', type: 'string', enum: [apiVersion] },
    kind: { description: 'Kind of the object.', type: 'string', enum: [ofKind] },
    metadata: { ...metadata, additionalProperties: true, required: ['name'] },
    spec: own,
    status: { description: 'Written by the control plane.', type: 'object' },
  };
  const more = {
    required: ['apiVersion', 'kind', 'metadata', 'spec'],
    ...(definitions === undefined ? {} : { definitions }),
  };
  return object(description, properties, more);
}

/** The expressions with which the API server checks an override. */
function overrideSchema(): Schema {
  const one = (names: readonly string[]): Schema => ({ oneOf: names.map((name) => required(name)) });
  const hasGrant = required('grant');
  const ends = {
    anyOf: [
      { ...hasGrant, not: anyOf(endFields) },
      { not: hasGrant, ...one(endFields) },
    ],
  };
  const unit = { anyOf: [{ not: required('unit') }, required('requestsPerUnit')] };
  return { ...cleaned(overrideSpecSchema), allOf: [one(effectFields), ends, unit] };
}

function callersSchema(): Schema {
  const certificate = object(
    'Names in the client certificate; * matches one or more characters within a label or segment. All given names must match.',
    Object.fromEntries(
      nameKinds.map((name) => [name, text(`A ${name} name of the certificate.`, { minLength: 1 })]),
    ),
    { minProperties: 1 },
  );
  const hash = text('SHA-256 of a token, as "weir callers token" prints it.', {
    pattern: '^[0-9a-fA-F]{64}$',
  });
  const orList = (one: Schema): Schema => {
    const { description, ...bare } = one;
    return { description, anyOf: [bare, { type: 'array', items: bare, minItems: 1, maxItems: maxInList }] };
  };
  const fields: Record<(typeof callerFields)[number], Schema> = {
    name: text('Name of the caller in statistics and logs.', { pattern: callerName.source }),
    certificate: orList(certificate),
    token_sha256: orList(hash),
    anonymous: flag(
      'Whether this entry is for callers that match no other entry. It has no certificate or token.',
    ),
    domains: listOf(
      'Domains that the caller may use; * matches any text.',
      { type: ['string', 'integer'] },
      { minItems: 1, maxItems: maxInList },
    ),
    rights: listOf(
      'Rights of the caller. Defaults to ask.',
      { type: 'string', enum: Object.keys(rightsByName) },
      { minItems: 1 },
    ),
    requests_per_second: whole(
      'Requests per second that the caller may send to each limiter.',
      1,
      maxRequestsPerSecond,
    ),
    on_excess: {
      description: 'The answer to a request beyond requests_per_second: an error, or over limit.',
      type: 'string',
      enum: [...excessAnswers],
      default: excessAnswers[0],
    },
  };
  const proofs = ['certificate', 'token_sha256'];
  const entry = object('A caller: how it authenticates, and what it may do.', fields, {
    required: ['domains'],
    dependencies: { on_excess: ['requests_per_second'] },
    anyOf: [
      { required: ['anonymous'], properties: { anonymous: { enum: [true] } }, not: anyOf(proofs) },
      { required: ['name'], properties: { anonymous: { enum: [false] } }, ...anyOf(proofs) },
    ],
  });
  const callers = listOf('The rights of callers to domains.', entry, {
    minItems: 1,
    maxItems: maxCallers,
  });
  return object('A callers file (CALLERS_FILE).', { callers }, { required: ['callers'] });
}

/** Returns a schema with both spellings of protobuf's JSON. One spelling of each field in `needed` is required. */
function ofEnvoy(
  description: string,
  fields: Fields,
  needed: readonly string[] = [],
  more: Schema = {},
): Schema {
  const camel = (name: string): string =>
    name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  const others = Object.entries(fields).filter(([name]) => camel(name) !== name);
  const both = { ...fields, ...Object.fromEntries(others.map(([name, schema]) => [camel(name), schema])) };
  const conditions = needed.map((name) =>
    camel(name) === name ? required(name) : { oneOf: [required(name), required(camel(name))] },
  );
  return object(description, both, { ...(conditions.length === 0 ? {} : { allOf: conditions }), ...more });
}

function profilesSchema(): Schema {
  const definitions: Fields = {};
  /** Defines a schema, and returns a reference to it. */
  const defined = (name: string, schema: Schema): Schema => {
    definitions[name] = schema;
    return { description: schema['description'], allOf: [{ $ref: `#/definitions/${name}` }] };
  };
  const only = { minProperties: 1, maxProperties: 1 };
  const filled = { minLength: 1 };
  const expression = { regex: text('The expression.', filled) };
  const regex = defined(
    'regex',
    ofEnvoy('A regular expression of RE2, for the whole value.', expression, ['regex']),
  );
  const tests: Fields = {
    exact: text('Text that equals the whole value.'),
    prefix: text('Prefix of the value.', filled),
    suffix: text('Suffix of the value.', filled),
    contains: text('Text that the value contains.', filled),
    safe_regex: regex,
    present: flag('Whether it must be present.'),
    range: ofEnvoy('A range of whole numbers.', {
      start: { description: 'The first of the range.', type: 'integer' },
      end: { description: 'The first number after the range.', type: 'integer' },
    }),
  };
  const stringFields = {
    ...Object.fromEntries(stringTests.map((name) => [name, tests[name]!])),
    ignore_case: flag('Whether to ignore case.'),
  };
  const string = defined('string_match', ofEnvoy('A test of a value.', stringFields));
  const testOf = (name: string): Schema =>
    name === 'string_match' ? string : tests[name.replace(/_match$/, '')]!;
  const matcher = (of: string, names: readonly string[], more: Fields): Schema => {
    const name = { name: text(`Name of the ${of}.`, filled) };
    const fields = { ...name, ...Object.fromEntries(names.map((one) => [one, testOf(one)])), ...more };
    return defined(`${of}_test`, ofEnvoy(`A test of a ${of}.`, fields, ['name']));
  };
  const fieldSchemas: Fields = {
    header_name: text(
      'Name of the header; :method, :path and :authority are those of the original request.',
      filled,
    ),
    query_parameter_name: text('Name of the parameter.', filled),
    descriptor_key: text('Key of the entry.'),
    descriptor_value: text('Value of the entry.', filled),
    skip_if_absent: flag(
      'Whether to omit only the entry, instead of the whole descriptor, if there is no value.',
    ),
    v4_prefix_mask_len: whole('Number of bits in the network prefix of an IPv4 address.', 0, 32),
    v6_prefix_mask_len: whole('Number of bits in the network prefix of an IPv6 address.', 0, 128),
    expect_match: flag('Whether all tests must match, or must not all match.'),
    headers: listOf(
      'Tests of headers.',
      matcher('header', headerTests, {
        invert_match: flag('Whether the test must fail.'),
        treat_missing_header_as_empty: flag('Whether to treat a missing header as an empty one.'),
      }),
      { minItems: 1 },
    ),
    query_parameters: listOf('Tests of parameters.', matcher('parameter', queryTests, {}), { minItems: 1 }),
  };
  const needs = ['header_name', 'query_parameter_name', 'descriptor_value', 'headers', 'query_parameters'];
  const what: Record<string, string> = {
    request_headers: "An entry with a header's value.",
    query_parameters: 'An entry with a parameter of the query.',
    remote_address: "An entry with the client's address.",
    masked_remote_address: "An entry with the network of the client's address.",
    generic_key: 'A constant entry.',
    header_value_match: 'An entry if headers match.',
    query_parameter_value_match: 'An entry if query parameters match.',
  };
  const actions = Object.entries(what).map(([name, description]): [string, Schema] => {
    const names = actionFields[name]!;
    const needed = names.filter(
      (one) =>
        needs.includes(one) ||
        (one === 'descriptor_key' && /^(?:request_headers|query_parameters)$/.test(name)),
    );
    const own = Object.fromEntries(names.map((one) => [one, fieldSchemas[one]!]));
    return [name, defined(name, ofEnvoy(description, own, needed))];
  });
  const action = ofEnvoy('One entry of the descriptor.', Object.fromEntries(actions), [], only);
  const rateLimits = listOf(
    'Rate limits as in a route of Envoy. Each element makes at most one descriptor.',
    defined(
      'rate_limit',
      ofEnvoy(
        'The actions that make one descriptor.',
        { actions: listOf('Actions that make the entries, in order.', action, { minItems: 1 }) },
        ['actions'],
      ),
    ),
    { minItems: 1 },
  );
  const fields: Record<(typeof profileFields)[number], Schema> = {
    domain: text('Domain of the rules.', filled),
    rate_limits: rateLimits,
    refusedStatus: {
      description: 'HTTP status of answers over limit. Defaults to 429.',
      type: 'integer',
      enum: [429, 403],
    },
    onError: text('The answer to a request that cannot be decided. Defaults to allow.', {
      enum: ['allow', 'deny'],
    }),
    trustedHops: whole(
      "Position of the client's address in X-Forwarded-For; 0 is the last one.",
      0,
      maxTrustedHops,
    ),
    originalRequest: text('Headers that describe the original request.', {
      enum: Object.keys(originalHeaders),
    }),
  };
  const profile = object(
    'How requests of a proxy become descriptors.',
    fields,
    required('domain', 'rate_limits'),
  );
  const profiles = {
    description: 'Profiles by name.',
    type: 'object',
    maxProperties: maxProfiles,
    propertyNames: { pattern: profileName.source },
    additionalProperties: profile,
  };
  return object(
    'Profiles of proxies other than Envoy (PROFILES_FILE).',
    { profiles },
    { required: ['profiles'], definitions },
  );
}

/** Adds an example to each field. */
function withExamples(of: string, schema: Schema, parent = ''): Schema {
  const entries = Object.entries(schema).map(([word, value]): [string, unknown] => {
    if (word !== 'properties')
      return [word, mapSchemas(word, value, (one, name = parent) => withExamples(of, one, name))];
    const fields = Object.entries(value as Fields).map(([name, one]): [string, Schema] => {
      // Conditions also have fields, which need no examples.
      if (one['description'] === undefined) return [name, one];
      return [name, { ...withExamples(of, one, name), examples: exampleOf(of, parent, name) }];
    });
    return [word, Object.fromEntries(fields)];
  });
  return Object.fromEntries(entries);
}

const schemas: Record<(typeof schemaKinds)[number], Schema> = {
  rules: ruleFileSchema(),
  profiles: profilesSchema(),
  callers: callersSchema(),
  ratelimitconfig: manifestSchema(kind, 'Rate limits of one domain.', nested(cleaned(specSchema))),
  ratelimitfleet: manifestSchema(fleetKind, 'The limiters that should apply the rules of a fleet.', {
    ...ofModel(fleetSpecModel),
    not: required('service', 'count'),
  }),
  ratelimitoverride: manifestSchema(overrideKind, 'A temporary change of a limit.', overrideSchema()),
};

for (const name of schemaKinds) {
  const target = new URL(`../schemas/${name}.json`, import.meta.url);
  const head = { $schema: 'http://json-schema.org/draft-07/schema#', title: `weir: ${name}` };
  const wanted = `${JSON.stringify({ ...head, ...withExamples(name, schemas[name]) }, undefined, 2)}\n`;
  if (!process.argv.includes('--check')) {
    mkdirSync(new URL('.', target), { recursive: true });
    writeFileSync(target, wanted);
  } else if (!existsSync(target) || readFileSync(target, 'utf8') !== wanted) {
    console.error(`schemas/${name}.json is stale, run "npm run generate"`);
    process.exitCode = 1;
  }
}
