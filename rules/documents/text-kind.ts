/** The three spellings of rules. A text is told apart before it is read, so that its mistakes are those of its kind. */
export type TextKind = 'rule-file' | 'manifests' | 'resources';

const objectField = /^["']?(?:apiVersion|kind)["']?[ \t]*:/m;
const objectFieldInJson = /"(?:apiVersion|kind)"\s*:/;
const resourceFieldInJson = /"(?:@type|typeUrl|type_url|resources)"\s*:/;

/**
 * `manifests` for Kubernetes objects of any kind, `resources` for JSON of xDS (a resource with its `@type`, or a
 * discovery response), and `rule-file` for everything else.
 */
export function textKind(text: string): TextKind {
  if (!/^\uFEFF?\s*[{[]/.test(text)) return objectField.test(text) ? 'manifests' : 'rule-file';
  if (objectFieldInJson.test(text)) return 'manifests';
  return resourceFieldInJson.test(text) ? 'resources' : 'rule-file';
}
