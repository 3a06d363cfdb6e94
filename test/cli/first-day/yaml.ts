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
  hint: YAML is indented by spaces alone: write spaces for tabs
failed: 1 error: 1 file
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
  hint: YAML is indented by spaces alone: write spaces for tabs
failed: 1 error: 1 file
`,
  },
  {
    name: 'no space behind the colon of a key',
    text: `domain: shop
descriptors:
  - key:plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:5: error: there is no space behind the colon [syntax]
  3 |   - key:plan
    |     ^^^^^^^^
  hint: write "key: plan"
failed: 1 error: 1 file
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
    answer: `rules.yaml:5:7: error: there is no space behind the colon [syntax]
  5 |       unit:minute
    |       ^^^^^^^^^^^
  hint: write "unit: minute"
failed: 1 error: 1 file
`,
  },
  {
    name: 'no space behind a dash',
    text: `domain: shop
descriptors:
  -key: plan
   rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:3:3: error: there is no space behind the dash [syntax]
  3 |   -key: plan
    |   ^^^^
  hint: write "- key:"
failed: 1 error: 1 file
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
failed: 1 error: 1 file
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
    answer: `rules.yaml:4:3: error: 'rate_limit' stands beside the dashes of the list, and begins with none [syntax]
  4 |   rate_limit:
    |   ^^^^^^^^^^
  hint: indent it as the first field of its rule, which stands behind the dash
failed: 1 error: 1 file
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
    answer: `rules.yaml:4:6: error: the line is indented deeper than the one above, which is complete [syntax]
  4 |      value: gold
    |      ^^^^^
  hint: fields of one mapping begin in one column: indent this line as its neighbors
failed: 1 error: 1 file
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
failed: 1 error: 1 file
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
failed: 1 error: 1 file
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
failed: 1 error: 1 file
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
failed: 1 error: 1 file
`,
  },
  {
    name: 'a template that is not rendered',
    text: `domain: {{ .Values.domain }}
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    answer: `rules.yaml:1:9: error: a template stands here, which nothing has filled in [key-not-a-string]
  1 | domain: {{ .Values.domain }}
    |         ^^^^^^^^^^^^^^^^^^^^
  hint: check what is rendered: helm template <chart> | weir check -
failed: 1 error: 1 file
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
    answer: `rules.yaml:3:1: error: a template stands here, which nothing has filled in [syntax]
  3 | {{- range .Values.rules }}
    | ^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: check what is rendered: helm template <chart> | weir check -
failed: 1 error: 1 file
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
  hint: the quote that begins here is not closed: write the other one where the text ends
failed: 1 error: 1 file
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
    answer: `rules.yaml:4:17: error: { is not closed, or a comma is missing in it [syntax]
  4 |     rate_limit: { unit: minute, requests_per_unit: 5
    |                 ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  hint: write } where it ends, or the comma that is missing
failed: 1 error: 1 file
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
    answer: `rules.yaml:3:1: error: a conflict of a merge is not resolved [syntax]
  3 | <<<<<<< HEAD
    | ^^^^^^^^^^^^
  hint: keep one of the two sides, and take the lines <<<<<<<, ======= and >>>>>>> out
failed: 1 error: 1 file
`,
  },
];
