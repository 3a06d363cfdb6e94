import type { Mistake } from './mistake.ts';

/** In objects of Kubernetes. */
export const manifestMistakes: readonly Mistake[] = [
  {
    name: 'snake_case in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:9:7: error: unknown field 'rate_limit' [unknown-key]
  9 |       rate_limit: { unit: minute, requests_per_unit: 5 }
    |       ^^^^^^^^^^
  hint: did you mean rateLimit?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'snake_case in a limit of a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:9:34: error: unknown field 'requests_per_unit' [unknown-key]
  9 |       rateLimit: { unit: minute, requests_per_unit: 5 }
    |                                  ^^^^^^^^^^^^^^^^^
  hint: did you mean requestsPerUnit?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'domain beside metadata',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
domain: shop
spec:
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:5:1: error: unknown field 'domain' [unknown-key]
  5 | domain: shop
    | ^^^^^^
  hint: domain belongs below "spec:", indented
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'shadowMode inside the limit of a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requestsPerUnit: 5, shadowMode: true }
`,
    answer: `rules.yaml:9:54: error: field 'shadowMode' has no meaning here, it belongs to a descriptor [unknown-key]
  9 |       rateLimit: { unit: minute, requestsPerUnit: 5, shadowMode: true }
    |                                                      ^^^^^^^^^^
  hint: move shadowMode out of rateLimit, to the same level
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number as a value in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: status
      value: 100
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:14: error: 'value' must be a string, found 100 [wrong-type]
  9 |       value: 100
    |              ^^^
  hint: put it into quotes: value: "100"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number in quotes in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, unitMultiplier: "5", requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:50: error: 'unitMultiplier' must be a whole number, found the text '5' [wrong-type]
  9 |       rateLimit: { unit: minute, unitMultiplier: "5", requestsPerUnit: 5 }
    |                                                  ^^^
  hint: write unitMultiplier: 5, without quotes
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit without a number in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit:
        unit: minute
`,
    answer: `rules.yaml:9:7: error: 'requestsPerUnit' is required (0 blocks everything) [wrong-type]
  9 |       rateLimit:
    |       ^^^^^^^^^
  hint: write requestsPerUnit: 5
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a boolean as a value in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: beta
      value: yes
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:14: error: 'value' must be a string, found true [wrong-type]
  9 |       value: yes
    |              ^^^
  hint: put it into quotes: value: "yes"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a list of values in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      value: [gold, silver]
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:14: error: 'value' must be a string, found a list [wrong-type]
  9 |       value: [gold, silver]
    |              ^^^^^^^^^^^^^^
  hint: a rule has one value: write a rule for each, or a pattern with *
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'rules without dashes in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    key: plan
    rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:7:3: error: 'descriptors' must be a list, found an object [wrong-type]
  7 |   descriptors:
    |   ^^^^^^^^^^^
  hint: each element of descriptors begins with a dash
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'units in the plural in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minutes, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:26: error: unknown unit 'minutes' [invalid-unit]
  9 |       rateLimit: { unit: minutes, requestsPerUnit: 5 }
    |                          ^^^^^^^
  hint: did you mean minute?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a unit beside the limit of a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      unit: minute
      requestsPerUnit: 5
`,
    answer: `rules.yaml:9:7: error: field 'unit' has no meaning here, it belongs to rateLimit [unknown-key]
  9 |       unit: minute
    |       ^^^^
  hint: put unit below rateLimit, indented
rules.yaml:10:7: error: field 'requestsPerUnit' has no meaning here, it belongs to rateLimit [unknown-key]
  10 |       requestsPerUnit: 5
     |       ^^^^^^^^^^^^^^^
  hint: put requestsPerUnit below rateLimit, indented
failed: 2 errors: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit that is empty in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit:
`,
    answer: `rules.yaml:9:7: error: 'rateLimit' must be an object, found null [wrong-type]
  9 |       rateLimit:
    |       ^^^^^^^^^
  hint: write a mapping: rateLimit: { unit: minute, requestsPerUnit: 5 }
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit as a list in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit:
        - unit: minute
          requestsPerUnit: 5
`,
    answer: `rules.yaml:9:7: error: 'rateLimit' must be an object, found a list [wrong-type]
  9 |       rateLimit:
    |       ^^^^^^^^^
  hint: write one limit without a dash; write several in rateLimits
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a field twice in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      value: gold
      value: silver
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:10:7: error: duplicated mapping key [syntax]
  10 |       value: silver
     |       ^^^^^
  hint: remove one of the two
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a tab in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
\t  rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:1: error: a tab indents the line [syntax]
  9 | \t  rateLimit: { unit: minute, requestsPerUnit: 5 }
    | ^^^
  hint: YAML allows only spaces for indentation: replace the tabs by spaces
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a star without quotes in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      value: *
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:14: error: * begins an alias in YAML [syntax]
  9 |       value: *
    |              ^
  hint: put it into quotes: value: "*"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an algorithm in the spelling of rule files',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requestsPerUnit: 5, algorithm: token_bucket }
`,
    answer: `rules.yaml:9:65: error: unknown algorithm 'token_bucket': there are FixedWindow, SlidingWindow and TokenBucket [invalid-algorithm]
  9 |       rateLimit: { unit: minute, requestsPerUnit: 5, algorithm: token_bucket }
    |                                                                 ^^^^^^^^^^^^
  hint: did you mean TokenBucket?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no spec',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
`,
    answer: `rules.yaml:1:1: error: 'spec' is required [wrong-type]
  1 | apiVersion: ratelimit.weir.dev/v1alpha1
    | ^^^^^^^^^^
  hint: write spec: with domain and descriptors below it
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no name',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
spec:
  domain: shop
  descriptors: []
`,
    answer: `rules.yaml:1:1: error: 'metadata.name' is required [wrong-type]
  1 | apiVersion: ratelimit.weir.dev/v1alpha1
    | ^^^^^^^^^^
  hint: write metadata: with name: <name> below it
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'another apiVersion',
    text: `apiVersion: ratelimit.weir.dev/v1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
`,
    answer: `rules.yaml:1:13: error: 'apiVersion' must be ratelimit.weir.dev/v1alpha1, found ratelimit.weir.dev/v1 [wrong-type]
  1 | apiVersion: ratelimit.weir.dev/v1
    |             ^^^^^^^^^^^^^^^^^^^^^
  hint: write apiVersion: ratelimit.weir.dev/v1alpha1
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'another kind',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimit
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
`,
    answer: `rules.yaml:2:7: error: 'kind' must be RateLimitConfig or RateLimitOverride, found RateLimit [wrong-type]
  2 | kind: RateLimit
    |       ^^^^^^^^^
  hint: write kind: RateLimitConfig, or the kind of the object
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an object of another project',
    text: `apiVersion: networking.istio.io/v1
kind: EnvoyFilter
metadata:
  name: limits
`,
    answer: `rules.yaml: warning: contains no rules: nothing was checked of 1 object [no-rules]
  hint: rules are RateLimitConfigs, or rule files in ConfigMaps
ok with 1 warning: 1 file, 0 domains, 0 rules; 1 other object skipped (networking.istio.io/v1 EnvoyFilter)
`,
  },
  {
    name: 'a kind without apiVersion',
    text: `kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
`,
    answer: `rules.yaml:1:1: error: 'apiVersion' is required [wrong-type]
  1 | kind: RateLimitConfig
    | ^^^^
  hint: write apiVersion: ratelimit.weir.dev/v1alpha1
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a name that is none',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: Shop_Limits
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:4:9: error: 'metadata.name' must be a DNS name (lower case letters, digits, '-' and '.', at most 253 characters), found "Shop_Limits" [wrong-type]
  4 |   name: Shop_Limits
    |         ^^^^^^^^^^^
  hint: write name: shop-limits
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an unknown field in a manifest',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      description: for all
      rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:9:7: error: unknown field 'description' [unknown-key]
  9 |       description: for all
    |       ^^^^^^^^^^^
  hint: known here: key, value, rateLimit, rateLimits, descriptors, lease, reserve, assign, shadowMode, quotaMode, detailedMetric, valueToMetric, shareThreshold, hideIdentity, metadata
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a ConfigMap without rules',
    text: `apiVersion: v1
kind: ConfigMap
metadata:
  name: limits
data:
  app.properties: a=b
`,
    answer: `rules.yaml: warning: contains no rules: nothing was checked of 1 object [no-rules]
  hint: rules are RateLimitConfigs, or rule files in ConfigMaps
ok with 1 warning: 1 file, 0 domains, 0 rules; 1 other object skipped (v1 ConfigMap)
`,
  },
  {
    name: 'a ConfigMap with a mistake',
    text: `apiVersion: v1
kind: ConfigMap
metadata:
  name: limits
data:
  shop.yaml: |
    domain: shop
    descriptors:
      - key: plan
        rate_limit: { unit: minutes, requests_per_unit: 5 }
`,
    answer: `rules.yaml ConfigMap limits/shop.yaml:4:25: error: unknown unit 'minutes' [invalid-unit]
  4 |     rate_limit: { unit: minutes, requests_per_unit: 5 }
    |                         ^^^^^^^
  hint: did you mean minute?
failed: 1 error: 2 files; rules.yaml ConfigMap limits/shop.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an override that says nothing of what it does',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitOverride
metadata: { name: more }
spec:
  domain: shop
`,
    answer: `rules.yaml:4:1: error: 'match' is required [wrong-type]
  4 | spec:
    | ^^^^
  hint: write the entries that it applies to: match: [{ key: remote_address, value: 203.0.113.7 }]
rules.yaml:4:1: error: 'reason' is required [wrong-type]
  4 | spec:
    | ^^^^
  hint: write a reason for people who find it: reason: batch import, INC-4711
rules.yaml:5:3: error: 'spec' must have exactly one of requestsPerUnit, unlimited, shadow, block, grant, found none [wrong-type]
  5 |   domain: shop
    |   ^^^^^^
  hint: write requestsPerUnit: 100, or another effect, but only one
rules.yaml:5:3: error: 'spec' must have exactly one of expiresAt, for, permanent, found none [wrong-type]
  5 |   domain: shop
    |   ^^^^^^
  hint: write for: 2h, or expiresAt: with a time, or permanent: true
failed: 4 errors: 1 file
`,
  },
  {
    name: 'an override with the limit of the command line',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitOverride
metadata: { name: more }
spec:
  domain: shop
  match: [{ key: remote_address, value: 203.0.113.7 }]
  limit: 100
  for: 2h
  reason: sale
`,
    answer: `rules.yaml:5:3: error: 'spec' must have exactly one of requestsPerUnit, unlimited, shadow, block, grant, found none [wrong-type]
  5 |   domain: shop
    |   ^^^^^^
  hint: write requestsPerUnit: 100, or another effect, but only one
rules.yaml:7:10: error: 'limit' must be a string, found 100 [wrong-type]
  7 |   limit: 100
    |          ^^^
  hint: write requestsPerUnit: 100; limit names one of the rateLimits of a rule
failed: 2 errors: 1 file
`,
  },
  {
    name: 'a merge of something else than a mapping',
    text: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: shop }
spec:
  domain: shop
  descriptors:
    - <<: plan
      key: plan
`,
    answer: `rules.yaml:7:11: error: map merge requires map or sequence of maps as the value [syntax]
  7 |     - <<: plan
    |           ^^^^
  hint: << takes the alias of a mapping, or a list of such aliases: "<<: *name"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
];
