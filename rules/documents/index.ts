/** Rules from texts of any spelling: rule files, manifests, and resources of xDS as JSON. */
export type { LoadedObject, LoadedSource } from './loaded-source.ts';
export { unreadDocuments } from './read-rule-file-texts.ts';
export { type RuleText, readRuleTexts, type SkippedObject, type TextsReading } from './read-rule-texts.ts';
export { type TextKind, textKind } from './text-kind.ts';
