import type { Mistake } from './mistake.ts';

/** Files of a folder together. */
export const folderMistakes: readonly Mistake[] = [
  {
    name: 'JSON with a comma too many',
    text: {
      'rules/shop.json': `{
  "name": "limits",
}
`,
      'rules/mail.yaml': `domain: mail
descriptors:
  - key: tenant
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    },
    answer: `rules/shop.json: warning: is not JSON, and is skipped [unreadable]
  hint: check for an extra comma or a missing quote
ok with 1 warning: 1 file, 1 domain, 1 rule; 1 other JSON file skipped
`,
  },
  {
    name: 'JSON that breaks off',
    text: {
      'rules/shop.json': `{
  "apiVersion": "ratelimit.weir.dev/v1alpha1",
  "kind": 
`,
    },
    answer: `rules/shop.json:1:1: error: { is not closed, or has a missing comma [syntax]
  1 | {
    | ^
  hint: write } at its end, or the missing comma
failed: 1 error: 1 file; rules/shop.json is not reviewed further until you correct the errors
`,
  },
  {
    name: 'JSON of rules in a folder',
    text: {
      'rules/shop.json': `{"domain":"shop","descriptors":[]}`,
      'rules/mail.yaml': `domain: mail
descriptors:
  - key: tenant
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    },
    answer: `rules/shop.json: warning: has rules but is not read: only *.yaml and *.yml are rule files [ignored-file]
  hint: rename it so that it ends in .yaml; the Go service reads files with any name
ok with 1 warning: 1 file, 1 domain, 1 rule; 1 other JSON file skipped
`,
  },
  {
    name: 'a folder without rules',
    text: {
      'rules/README.md': `# Rules
`,
    },
    answer: `rules: error: contains no *.yaml, *.yml or *.json file [unreadable]
  hint: rule files are called *.yaml, and their first line is "domain: <name>"
failed: 1 error: 0 files
`,
  },
  {
    name: 'a folder with a Kustomization',
    text: {
      'rules/kustomization.yaml': `resources:
  - shop.yaml
`,
      'rules/shop.yaml': `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    },
    answer: `rules/kustomization.yaml:1:1: error: unknown key 'resources' [unknown-key]
  1 | resources:
    | ^^^^^^^^^
  hint: a Kustomization has no rules; check its output: kubectl kustomize <folder> | weir check -
failed: 1 error: 2 files; rules/kustomization.yaml is not reviewed further until you correct the errors
`,
  },
  {
    name: 'a folder with a Kustomization of a kind',
    text: {
      'rules/kustomization.yaml': `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
  - shop.yaml
`,
    },
    answer: `rules: warning: contains no rules: nothing was checked of 1 object [no-rules]
  hint: rules are RateLimitConfigs, or rule files in ConfigMaps
ok with 1 warning: 1 file, 0 domains, 0 rules; 1 other object skipped (kustomize.config.k8s.io/v1beta1 Kustomization)
`,
  },
  {
    name: 'a chart that is not rendered',
    text: {
      'rules/Chart.yaml': `apiVersion: v2
name: limits
version: 0.1.0
`,
      'rules/values.yaml': `requests: 5
`,
      'rules/templates/limits.yaml': `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: shop
spec:
  domain: shop
  descriptors:
    - key: plan
      rateLimit: { unit: minute, requestsPerUnit: {{ .Values.requests }} }
`,
    },
    answer: `rules/Chart.yaml:1:1: error: 'kind' is required [wrong-type]
  1 | apiVersion: v2
    | ^^^^^^^^^^
  hint: check the rendered chart: helm template <chart> | weir check -
rules/templates/limits.yaml:9:51: error: this is a template that is not rendered [syntax]
  9 |       rateLimit: { unit: minute, requestsPerUnit: {{ .Values.requests }} }
    |                                                   ^^^^^^^^^^^^^^^^^^^^^^
  hint: check the rendered chart: helm template <chart> | weir check -
rules/values.yaml:1:1: error: unknown key 'requests' [unknown-key]
  1 | requests: 5
    | ^^^^^^^^
  hint: check the rendered chart: helm template <chart> | weir check -
failed: 3 errors: 3 files; rules/Chart.yaml, rules/templates/limits.yaml and rules/values.yaml are not reviewed further until you correct the errors
`,
  },
  {
    name: 'rules under another name',
    text: {
      'rules/shop.conf': `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
      'rules/mail.yaml': `domain: mail
descriptors:
  - key: tenant
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    },
    answer: `rules/shop.conf: warning: has rules but is not read: only *.yaml and *.yml are rule files [ignored-file]
  hint: rename it so that it ends in .yaml; the Go service reads files with any name
ok with 1 warning: 1 file, 1 domain, 1 rule; 1 file with other names skipped
`,
  },
  {
    name: 'one domain in two files',
    text: {
      'rules/a.yaml': `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
      'rules/b.yaml': `domain: shop
descriptors:
  - key: plan
    rate_limit: { unit: minute, requests_per_unit: 5 }
`,
    },
    answer: `rules/b.yaml:1:9: error: domain 'shop' is already in an earlier file [duplicate-domain]
  1 | domain: shop
    |         ^^^^
  hint: with --merge-domain-configs (MERGE_DOMAIN_CONFIG=true) several files may name one domain
failed: 1 error: 2 files; rules/b.yaml is not reviewed further until you correct the errors
`,
  },
];
