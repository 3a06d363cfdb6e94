/** Rules as text: rule files and manifests. The third spelling, resources of xDS, is written by `rules/xds`. */
export { type ManifestIdentity, manifestValue } from '../write/manifest-value.ts';
export { ruleFileValue } from '../write/rule-file-value.ts';
export { yamlText } from '../write/yaml-text.ts';
