import type { Mistake } from './mistake.ts';

/** In limits of rule files. */
export const limitMistakes: readonly Mistake[] = [
  {
    name: 'a fraction of a request',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 0.5 }
`,
    answer: `rules.yaml:4:52: error: 'requests_per_unit' must be a whole number, found 0.5 [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: 0.5 }
    |                                                    ^^^
  hint: write a whole number from 0 to 9007199254740991, without fraction and exponent; for a fraction use a longer unit
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number in quotes',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: "5" }
`,
    answer: `rules.yaml:4:52: error: 'requests_per_unit' must be a whole number, found "5" [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: "5" }
    |                                                    ^^^
  hint: write requests_per_unit: 5, without quotes
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number with a letter',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 1k }
`,
    answer: `rules.yaml:4:52: error: 'requests_per_unit' must be a whole number, found 1k [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: 1k }
    |                                                    ^^
  hint: write requests_per_unit: 1000
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number with a separator',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 1,000 }
`,
    answer: `rules.yaml:4:54: error: the name of a field must be a text, found 000 [key-not-a-string]
  4 |     rate_limit: { unit: minute, requests_per_unit: 1,000 }
    |                                                      ^^^
  hint: write numbers without separators: 1000
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number below zero',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: -1 }
`,
    answer: `rules.yaml:4:52: error: 'requests_per_unit' must be a whole number, found -1 [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: -1 }
    |                                                    ^^
  hint: write a whole number from 0 to 9007199254740991, without fraction and exponent; for no limit write unlimited: true
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'units in the plural',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minutes, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:25: error: unknown unit 'minutes' [invalid-unit]
  4 |     rate_limit: { unit: minutes, requests_per_unit: 5 }
    |                         ^^^^^^^
  hint: did you mean minute?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a unit in short',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: m, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:25: error: unknown unit 'm' [invalid-unit]
  4 |     rate_limit: { unit: m, requests_per_unit: 5 }
    |                         ^
  hint: did you mean minute?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a length for a unit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: 10s, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:25: error: unknown unit '10s' [invalid-unit]
  4 |     rate_limit: { unit: 10s, requests_per_unit: 5 }
    |                         ^^^
  hint: write this duration as window: 10s in place of unit
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit without a unit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
      requests_per_unit: 5
`,
    answer: `rules.yaml:4:5: error: the limit has no unit [invalid-unit]
  4 |     rate_limit:
    |     ^^^^^^^^^^
  hint: write unit: minute, or window: 5m for other windows
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit without a number',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
      unit: minute
`,
    answer: `rules.yaml:4:5: error: a limit of 0 makes every request over limit [limit-of-zero]
  4 |     rate_limit:
    |     ^^^^^^^^^^
  hint: without requests_per_unit a limit is 0: write it, even to block all requests
failed: 1 error: 1 file
`,
  },
  {
    name: 'a limit that is empty',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
  - key: user
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:10: error: the rule has no limit, no rules below it, and takes no requests from other rules: it has no effect [no-effect]
  3 |   - key: plan
    |          ^^^^
  hint: give it a rate_limit or descriptors, or remove it
failed: 1 error: 1 file
`,
  },
  {
    name: 'a number for a limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: 5
`,
    answer: `rules.yaml:4:17: error: 'rate_limit' must be a mapping, found 5 [wrong-type]
  4 |     rate_limit: 5
    |                 ^
  hint: write a mapping: rate_limit: { unit: minute, requests_per_unit: 5 }
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit in words',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: 5/minute
`,
    answer: `rules.yaml:4:17: error: 'rate_limit' must be a mapping, found 5/minute [wrong-type]
  4 |     rate_limit: 5/minute
    |                 ^^^^^^^^
  hint: write a mapping: rate_limit: { unit: minute, requests_per_unit: 5 }
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'burst in a fixed window',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5, burst: 10 }
`,
    answer: `rules.yaml:4:55: error: burst works only with algorithm token_bucket [burst-without-bucket]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5, burst: 10 }
    |                                                       ^^^^^
  hint: write algorithm: token_bucket, or remove burst
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'burst beside a limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
    burst: 10
`,
    answer: `rules.yaml:5:5: error: key 'burst' belongs to rate_limit [misplaced-key]
  5 |     burst: 10
    |     ^^^^^
  hint: put burst below rate_limit, indented, with algorithm: token_bucket
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a list of values',
    text: `domain: shop
descriptors:
  - key: plan
    value: [gold, silver]
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: 'value' must be a text, found a list [wrong-type]
  4 |     value: [gold, silver]
    |            ^^^^^^^^^^^^^^
  hint: a rule has one value: write a rule for each, or a pattern with *
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'values for value',
    text: `domain: shop
descriptors:
  - key: plan
    values: [gold, silver]
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:5: error: unknown key 'values' [unknown-key]
  4 |     values: [gold, silver]
    |     ^^^^^^
  hint: did you mean value?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'rate_limit as a list',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
      - unit: minute
        requests_per_unit: 5
`,
    answer: `rules.yaml:4:5: error: 'rate_limit' must be a mapping, found a list [wrong-type]
  4 |     rate_limit:
    |     ^^^^^^^^^^
  hint: write one limit without a dash; write several in rate_limits
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'rate_limits as a mapping',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limits:
      unit: minute
      requests_per_unit: 5
`,
    answer: `rules.yaml:4:5: error: 'rate_limits' must be a list of limits, found a mapping [wrong-type]
  4 |     rate_limits:
    |     ^^^^^^^^^^^
  hint: write rate_limit for one limit; rate_limits is a list of 2 to 8 of them
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'one of rate_limits alone',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limits:
      - unit: minute
        requests_per_unit: 5
`,
    answer: `rules.yaml:4:5: error: rate_limits must have 2 to 8 limits, found 1 [invalid-limits]
  4 |     rate_limits:
    |     ^^^^^^^^^^^
  hint: write rate_limit for one limit, rate_limits for several
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'descriptor for descriptors',
    text: `domain: shop
descriptor:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:2:1: error: unknown key 'descriptor' [unknown-key]
  2 | descriptor:
    | ^^^^^^^^^^
  hint: did you mean descriptors?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'descriptors below the limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
      unit: minute
      requests_per_unit: 5
      descriptors:
        - key: user
`,
    answer: `rules.yaml:7:7: error: key 'descriptors' has no effect here, it belongs to the top level or a descriptor [misplaced-key]
  7 |       descriptors:
    |       ^^^^^^^^^^^
  hint: move descriptors out of rate_limit, to the same level
failed: 1 error: 1 file
`,
  },
  {
    name: 'shadow_mode inside the limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5, shadow_mode: true }
`,
    answer: `rules.yaml:4:55: error: key 'shadow_mode' has no effect here, it belongs to a descriptor [misplaced-key]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5, shadow_mode: true }
    |                                                       ^^^^^^^^^^^
  hint: move shadow_mode out of rate_limit, to the same level
failed: 1 error: 1 file
`,
  },
  {
    name: 'a unit without a limit',
    text: `domain: shop
descriptors:
  - key: plan
    unit: minute
    requests_per_unit: 5
`,
    answer: `rules.yaml:4:5: error: key 'unit' has no effect here, it belongs to rate_limit [misplaced-key]
  4 |     unit: minute
    |     ^^^^
  hint: put unit below rate_limit, indented
rules.yaml:5:5: error: key 'requests_per_unit' has no effect here, it belongs to rate_limit [misplaced-key]
  5 |     requests_per_unit: 5
    |     ^^^^^^^^^^^^^^^^^
  hint: put requests_per_unit below rate_limit, indented
failed: 2 errors: 1 file
`,
  },
  {
    name: 'shadow_mode in words',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
    shadow_mode: "yes"
`,
    answer: `rules.yaml:5:18: error: 'shadow_mode' must be true or false, found "yes" [wrong-type]
  5 |     shadow_mode: "yes"
    |                  ^^^^^
  hint: write true or false, without quotes
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'unlimited with a limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unlimited: true, unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:36: error: 'unit' has no meaning beside unlimited [unit-when-unlimited]
  4 |     rate_limit: { unlimited: true, unit: minute, requests_per_unit: 5 }
    |                                    ^^^^
  hint: remove it, or remove unlimited
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'more requests than can be counted',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 50000000000000000 }
`,
    answer: `rules.yaml:4:52: error: requests_per_unit can be at most 9007199254740991 (2^53 - 1), found 50000000000000000 [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: 50000000000000000 }
    |                                                    ^^^^^^^^^^^^^^^^^
  hint: write a whole number from 0 to 9007199254740991, without fraction and exponent; for no limit write unlimited: true
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a window and a unit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { window: 1h30m, unit: hour, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:27: error: window replaces unit and unit_multiplier, found unit beside it [invalid-window]
  4 |     rate_limit: { window: 1h30m, unit: hour, requests_per_unit: 5 }
    |                           ^^^^^
  hint: leave unit out, or window
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'minutes of a window without their letter',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { window: 1h30, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:27: error: the window '1h30' is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y [invalid-window]
  4 |     rate_limit: { window: 1h30, requests_per_unit: 5 }
    |                           ^^^^
  hint: did you mean 1h30m?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a window in words',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { window: 5 min, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:27: error: the window '5 min' is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y [invalid-window]
  4 |     rate_limit: { window: 5 min, requests_per_unit: 5 }
    |                           ^^^^^
  hint: write window: 5m
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
];
