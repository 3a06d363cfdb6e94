import type { Mistake } from './mistake.ts';

/** In YAML, before anything is a rule. */
export const yamlMistakes: readonly Mistake[] = [
  {
    name: 'tabs for indentation',
    text: `domain: shop
descriptors:
\t- key: plan
\t  rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:1: error: a tab indents the line [syntax]
  3 | \t- key: plan
    | ^
  hint: YAML allows only spaces for indentation: replace the tabs by spaces
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a tab below spaces',
    text: `domain: shop
descriptors:
  - key: plan
\t  value: gold
`,
    answer: `rules.yaml:4:1: error: a tab indents the line [syntax]
  4 | \t  value: gold
    | ^^^
  hint: YAML allows only spaces for indentation: replace the tabs by spaces
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no space behind the colon of a key',
    text: `domain: shop
descriptors:
  - key:plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:5: error: a space is missing after the colon [syntax]
  3 |   - key:plan
    |     ^^^^^^^^
  hint: write "key: plan"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no space behind the colon of a limit',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit:
      unit:minute
      requests_per_unit: 5
`,
    answer: `rules.yaml:5:7: error: a space is missing after the colon [syntax]
  5 |       unit:minute
    |       ^^^^^^^^^^^
  hint: write "unit: minute"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'no space behind a dash',
    text: `domain: shop
descriptors:
  -key: plan
   rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:3: error: a space is missing after the dash [syntax]
  3 |   -key: plan
    |   ^^^^
  hint: write "- key:"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'the second rule without its dash',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
  key: user
  rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:5:3: error: a rule without its dash [syntax]
  5 |   key: user
    |   ^^^
  hint: each rule begins with a dash: "- key:"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a limit that is not indented',
    text: `domain: shop
descriptors:
  - key: plan
  rate_limit:
    unit: minute
    requests_per_unit: 5
`,
    answer: `rules.yaml:4:3: error: 'rate_limit' is in the column of the list's dashes, but has no dash [syntax]
  4 |   rate_limit:
    |   ^^^^^^^^^^
  hint: indent it like the first field of its rule, after the dash
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a field one column too far',
    text: `domain: shop
descriptors:
  - key: plan
     value: gold
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:6: error: the line is indented deeper than the complete line above it [syntax]
  4 |      value: gold
    |      ^^^^^
  hint: all fields of a mapping begin in the same column: indent this line like its neighbors
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a star without quotes',
    text: `domain: shop
descriptors:
  - key: path
    value: *
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: * begins an alias in YAML [syntax]
  4 |     value: *
    |            ^
  hint: put it into quotes: value: "*"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a pattern without quotes',
    text: `domain: shop
descriptors:
  - key: path
    value: */images
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: * begins an alias in YAML [syntax]
  4 |     value: */images
    |            ^^^^^^^^
  hint: put it into quotes: value: "*/images"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a value that begins with @',
    text: `domain: shop
descriptors:
  - key: user
    value: @me
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: @ cannot begin a text in YAML [syntax]
  4 |     value: @me
    |            ^^^
  hint: put it into quotes: value: "@me"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a value with a colon',
    text: `domain: shop
descriptors:
  - key: user
    value: a: b
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:4:12: error: a text with a colon and a space in it [syntax]
  4 |     value: a: b
    |            ^^^^
  hint: put it into quotes: value: "a: b"
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a template that is not rendered',
    text: `domain: {{ .Values.domain }}
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:1:9: error: this is a template that is not rendered [key-not-a-string]
  1 | domain: {{ .Values.domain }}
    |         ^^^^^^^^^^^^^^^^^^^^
  hint: check the rendered chart: helm template <chart> | weir check -
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a template around rules',
    text: `domain: shop
descriptors:
{{- range .Values.rules }}
  - key: {{ .key }}
{{- end }}
`,
    answer: `rules.yaml:3:1: error: this is a template that is not rendered [syntax]
  3 | {{- range .Values.rules }}
    | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: check the rendered chart: helm template <chart> | weir check -
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a quote that is not closed',
    text: `domain: "shop
descriptors:
  - key: plan
`,
    answer: `rules.yaml:1:9: error: found unexpected end of stream [syntax]
  1 | domain: "shop
    |         ^^^^^
  hint: the quote that begins here is not closed: write the closing quote at the end of the text
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a brace that is not closed',
    text: `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5
  - key: user
`,
    answer: `rules.yaml:4:17: error: { is not closed, or has a missing comma [syntax]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5
    |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write } at its end, or the missing comma
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a merge that is not resolved',
    text: `domain: shop
descriptors:
<<<<<<< HEAD
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
=======
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 6 }
>>>>>>> more
`,
    answer: `rules.yaml:3:1: error: a merge conflict is not resolved [syntax]
  3 | <<<<<<< HEAD
    | ^^^^^^^^^^^^
  hint: keep one of the two sides, and remove the lines <<<<<<<, ======= and >>>>>>>
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'an alias within the value of its anchor',
    text: `domain: shop
descriptors: &all
  - key: plan
    descriptors: *all
`,
    answer: `rules.yaml:4:19: error: anchor 'all' value contains itself [syntax]
  4 |     descriptors: *all
    |                   ^^^
  hint: an alias cannot be inside the value of its anchor: use it after that value
failed: 1 error: 1 file; rules.yaml is not reviewed further until you correct the errors
`,
  },
];
