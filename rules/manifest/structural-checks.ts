/**
 * The checks in words of JSON Schema, for editors and for the levels of rules below the first. The API server's messages name the
 * words, as "must validate one and only one schema (oneOf)", and rarely the mistake.
 */
import { ownLimitFields } from '../language/tables.ts';
import { burstAlgorithms, calendarAlgorithms, leasedAlgorithms } from './enum-words.ts';
import type { RuleChecks } from './rule-checks.ts';

const counted = { properties: { unlimited: { enum: [false] } } };
const windowSpellings = [
  { required: ['unit', 'requestsPerUnit'], ...counted },
  { required: ['window', 'requestsPerUnit'], ...counted, not: { required: ['unitMultiplier'] } },
  {
    required: ['calendar', 'requestsPerUnit'],
    properties: { ...counted.properties, algorithm: { enum: calendarAlgorithms } },
    not: { required: ['unitMultiplier'] },
  },
];
const burstOfBuckets = [
  { not: { required: ['burst'] } },
  { required: ['algorithm'], properties: { algorithm: { enum: burstAlgorithms } } },
];

/** The number 0 needs no pattern: there is no other one. */
const noLease = { pattern: '^0[0.]*%?$' };

/** What a lease may stand beside. */
const leasable = [
  { not: { required: ['lease'] } },
  { required: ['rateLimits'], properties: { lease: noLease } },
  { required: ['rateLimit'], properties: { lease: noLease, rateLimit: counted } },
  {
    required: ['rateLimit'],
    properties: {
      rateLimit: { properties: { ...counted.properties, algorithm: { enum: leasedAlgorithms } } },
    },
  },
];

/** What reserve may stand beside. */
const reservable = [
  { not: { required: ['reserve'] } },
  { required: ['rateLimits'] },
  { required: ['rateLimit'], properties: { rateLimit: counted } },
];

export const structuralChecks: RuleChecks = {
  descriptor: {
    not: { required: ['rateLimit', 'rateLimits'] },
    anyOf: [
      { properties: { shareThreshold: { enum: [false] } } },
      { properties: { value: { pattern: '[*]' } }, required: ['value'] },
      { properties: { key: { pattern: '[*]' } } },
    ],
    allOf: [{ anyOf: leasable }, { anyOf: reservable }],
  },
  rateLimit: {
    oneOf: [...windowSpellings, { required: ['unlimited'], properties: { unlimited: { enum: [true] } } }],
    // Apart from oneOf, because the API server then names the one field that is too many.
    anyOf: [counted, { properties: { unit: { maxLength: 0 } } }],
    allOf: [
      { anyOf: [counted, { not: { anyOf: ownLimitFields.map((name) => ({ required: [name] })) } }] },
      { anyOf: burstOfBuckets },
    ],
  },
  limitOfSeveral: { oneOf: windowSpellings, anyOf: burstOfBuckets },
  unlimitedOfSeveral: { enum: [false] },
};
