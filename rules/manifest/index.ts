/** RateLimitConfigs as Kubernetes and manifests have them. */
export { bounds, defaultFleet, dnsLabelPattern } from './bounds.ts';
export { type DocumentText, documentTexts } from './document-texts.ts';
export { fieldPath, formatManifestError } from './manifest-error.ts';
export { type ManifestMetadata, namespaceProblem, objectNameProblem } from './manifest-metadata.ts';
export {
  type Manifest,
  type ManifestReading,
  readManifests,
  type SkippedDocument,
} from './read-manifests.ts';
export { type AcceptedSpec, fieldName, type RefusedSpec, readSpec, type SpecReading } from './read-spec.ts';
export { apiVersion, group, kind, listKind, plural, singular, version } from './resource.ts';
export { statusModel } from './status-model.ts';
export { ValuePlaces } from './value-places.ts';
export { readYamlDocument, type YamlDocument } from './yaml-document.ts';
