/** Rules as text: rule files and manifests. The third spelling, resources of xDS, is written by `rules/xds`. */
export { type ManifestIdentity, manifestValue } from './manifest-value.ts';
export { ruleFileValue } from './rule-file-value.ts';
export { yamlText } from './yaml-text.ts';
