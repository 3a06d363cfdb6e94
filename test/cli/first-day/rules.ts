import type { Mistake } from './mistake.ts';

/** In rule files. */
export const ruleMistakes: readonly Mistake[] = [
  {
    name: 'a rule without its dash',
    text: `domain: shop
descriptors:
  key: plan
  rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:2:1: error: 'descriptors' must be a list of rules, found a mapping [wrong-type]
  2 | descriptors:
    | ^^^^^^^^^^^
  hint: put a dash before each rule: "- key:"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'the second rule without its dash, indented as the first',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
    key: user
    rate_limit: { unit: hour, requests_per_unit: 5 }
`,
    answer: `rules.yaml:5:5: error: key 'key' is repeated, the last one counts [duplicate-key]
  5 |     key: user
    |     ^^^
  hint: each rule begins with a dash: "- key:"
rules.yaml:6:5: error: key 'rate_limit' is repeated, the last one counts [duplicate-key]
  6 |     rate_limit: { unit: hour, requests_per_unit: 5 }
    |     ^^^^^^^^^^
  hint: remove one; write several limits of a rule in rate_limits
failed: 2 errors: 1 file
`,
  },
  {
    name: 'two documents',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
---
domain: mail
descriptors:
  - key: tenant
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:5:1: error: only the first document of a rule file is read, this one has no effect [unread-document]
  5 | ---
    | ^^^
  hint: write each domain into its own file
failed: 1 error: 1 file
`,
  },
  {
    name: 'no domain',
    text: `descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:1:1: error: the file has no domain [empty-domain]
  1 | descriptors:
    | ^^^^^^^^^^^
  hint: the first line of a rule file is "domain: <name>"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an empty file',
    text: ``,
    answer: `rules.yaml:1:1: error: the file is empty: it has no domain [empty-domain]
  1 | 
    | ^
  hint: the first line of a rule file is "domain: <name>"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a file of comments',
    text: `# domain: shop
`,
    answer: `rules.yaml:2:1: error: the file is empty: it has no domain [empty-domain]
  2 | 
    | ^
  hint: the first line of a rule file is "domain: <name>"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a list at the top',
    text: `- key: plan
  rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:1:1: error: a rule file must be a mapping, found a list [wrong-type]
  1 | - key: plan
    | ^^^^^
  hint: a rule file is a mapping: "domain: <name>", then "descriptors:"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no key',
    text: `domain: shop
descriptors:
  - value: gold
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:5: error: the rule has no key [empty-key]
  3 |   - value: gold
    |     ^^^^^
  hint: each rule needs "key:", the key of the request's entry
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a mistyped key',
    text: `domain: shop
descriptors:
  - kye: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:5: error: unknown key 'kye' [unknown-key]
  3 |   - kye: plan
    |     ^^^
  hint: did you mean key?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a field that nothing is near to',
    text: `domain: shop
descriptors:
  - key: plan
    description: for all
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:5: error: unknown key 'description' [unknown-key]
  4 |     description: for all
    |     ^^^^^^^^^^^
  hint: known here: key, value, rate_limit, rate_limits, descriptors, lease, reserve, assign, shadow_mode, quota_mode, detailed_metric, value_to_metric, share_threshold, hide_identity, metadata
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a field twice',
    text: `domain: shop
descriptors:
  - key: plan
    value: gold
    value: silver
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:5:5: error: key 'value' is repeated, the last one counts [duplicate-key]
  5 |     value: silver
    |     ^^^^^
  hint: remove one of the two
failed: 1 error: 1 file
`,
  },
  {
    name: 'a rule twice',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: plan
    rate_limit: { unit: hour, requests_per_unit: 50 }
`,
    answer: `rules.yaml:5:10: error: an earlier rule exists 'shop.plan' [duplicate-descriptor]
  5 |   - key: plan
    |          ^^^^
  hint: remove one: a level has only one rule for a key and value, joined by _; write several limits of a rule in rate_limits
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a rule that limits nothing',
    text: `domain: shop
descriptors:
  - key: plan
`,
    answer: `rules.yaml:3:10: error: the rule has no limit, no rules below it, and takes no requests from other rules: it has no effect [no-effect]
  3 |   - key: plan
    |          ^^^^
  hint: give it a rate_limit or descriptors, or remove it
failed: 1 error: 1 file
`,
  },
  {
    name: 'camelCase in a rule file',
    text: `domain: shop
descriptors:
  - key: plan
    rateLimit: { unit: minute, requestsPerUnit: 5 }
`,
    answer: `rules.yaml:4:5: error: unknown key 'rateLimit' [unknown-key]
  4 |     rateLimit: { unit: minute, requestsPerUnit: 5 }
    |     ^^^^^^^^^
  hint: did you mean rate_limit?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'PascalCase in a rule file',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { Unit: minute, RequestsPerUnit: 5 }
`,
    answer: `rules.yaml:4:19: error: unknown key 'Unit' [unknown-key]
  4 |     rate_limit: { Unit: minute, RequestsPerUnit: 5 }
    |                   ^^^^
  hint: did you mean unit?
rules.yaml:4:33: error: unknown key 'RequestsPerUnit' [unknown-key]
  4 |     rate_limit: { Unit: minute, RequestsPerUnit: 5 }
    |                                 ^^^^^^^^^^^^^^^
  hint: did you mean requests_per_unit?
failed: 2 errors: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a number as a value',
    text: `domain: shop
descriptors:
  - key: status
    value: 1.10
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: 'value' must be a text, found 1.10 [wrong-type]
  4 |     value: 1.10
    |            ^^^^
  hint: put it into quotes to make it a text: value: "1.10"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a boolean as a key',
    text: `domain: shop
descriptors:
  - key: plan
    on: true
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:5: error: the name of a field must be a text, found on [key-not-a-string]
  4 |     on: true
    |     ^^
  hint: YAML takes on for true or false: no field has that name
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a star for a regular expression',
    text: `domain: shop
descriptors:
  - key: path
    value: ^/api/.*$
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: warning: '^/api/.*$' has dots: its statistics in 'shop' get 1 more level of names [dotted-metric]
  4 |     value: ^/api/.*$
    |            ^^^^^^^^^
  hint: mappings that count levels miss them; SANITIZE_DESCRIPTOR_METRIC_DOTS=true writes _ instead
rules.yaml:4:12: warning: '^/api/.*$' looks like a regular expression but is compared literally [literal-pattern]
  4 |     value: ^/api/.*$
    |            ^^^^^^^^^
  hint: * stands for any text, and all other characters for themselves
ok with 2 warnings: 1 file, 1 domain, 1 rule
`,
  },
  {
    name: 'a range of addresses',
    text: `domain: shop
descriptors:
  - key: remote_address
    value: 10.0.0.0/8
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: warning: '10.0.0.0/8' looks like a range of addresses but is compared literally [literal-pattern]
  4 |     value: 10.0.0.0/8
    |            ^^^^^^^^^^
  hint: each request has a single address; to limit ranges, use Envoy's masked_remote_address and a rule with that key
ok with 1 warning: 1 file, 1 domain, 1 rule
`,
  },
  {
    name: 'the wider pattern first',
    text: `domain: shop
descriptors:
  - key: path
    value: /api*
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: path
    value: /api/images*
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:7:12: error: 'path_/api/images*' never takes effect: 'path_/api*' comes before it and matches all its values (line 3) [shadowed-wildcard]
  7 |     value: /api/images*
    |            ^^^^^^^^^^^^
  hint: the first matching pattern applies: write the narrower one first
failed: 1 error: 1 file
`,
  },
  {
    name: 'replaces with a text',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5, replaces: per_client }
`,
    answer: `rules.yaml:4:65: error: 'replaces' must be a list of mappings, found per_client [wrong-type]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5, replaces: per_client }
    |                                                                 ^^^^^^^^^^
  hint: replaces is a list of mappings: [{ name: <name of a limit> }]
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'replaces of no name',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: per_client }] }
`,
    answer: `rules.yaml:4:74: error: replaces 'per_client', and no limit in the domain 'shop' has that name [replaces-nothing]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5, replaces: [{ name: per_client }] }
    |                                                                          ^^^^^^^^^^
  hint: names of limits are unique within their domain, and case-sensitive
failed: 1 error: 1 file
`,
  },
  {
    name: 'an algorithm of another spelling',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5, algorithm: leaky_bucket }
`,
    answer: `rules.yaml:4:66: error: unknown algorithm 'leaky_bucket': there are fixed_window, sliding_window and token_bucket [invalid-algorithm]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5, algorithm: leaky_bucket }
    |                                                                  ^^^^^^^^^^^^
  hint: write one of fixed_window, sliding_window, token_bucket
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: "Envoy's configuration",
    text: `static_resources:
  listeners:
    - name: http
admin:
  address: 0.0.0.0
`,
    answer: `rules.yaml:1:1: error: unknown key 'static_resources' [unknown-key]
  1 | static_resources:
    | ^^^^^^^^^^^^^^^^
  hint: this is Envoy's configuration: weir check --envoy <file> <rules> compares it with rules
rules.yaml:4:1: error: unknown key 'admin' [unknown-key]
  4 | admin:
    | ^^^^^
  hint: this is Envoy's configuration: weir check --envoy <file> <rules> compares it with rules
failed: 2 errors: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'windows and a byte order mark',
    text: `\ufeffdomain: shop\r
descriptors:\r
  - key: plan\r
    rate_limit: { unit: minuet, requests_per_unit: 5 }\r
`,
    answer: `rules.yaml:4:25: error: unknown unit 'minuet' [invalid-unit]
  4 |     rate_limit: { unit: minuet, requests_per_unit: 5 }
    |                         ^^^^^^
  hint: did you mean minute?
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'actions of Envoy',
    text: `domain: shop
rate_limits:
  - actions:
      - remote_address: {}
`,
    answer: `rules.yaml:2:1: error: key 'rate_limits' belongs to a descriptor [misplaced-key]
  2 | rate_limits:
    | ^^^^^^^^^^^
  hint: put rate_limits into a rule, below "- key:"
rules.yaml:3:5: error: unknown key 'actions' [unknown-key]
  3 |   - actions:
    |     ^^^^^^^
  hint: actions belong into the routes of Envoy; a rule has the key and the value that they send
failed: 2 errors: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
];
