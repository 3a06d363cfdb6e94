/** Where rules come from: files on disk, or an xDS server; watched, and loaded in a thread where that takes long. */
export {
  type ConfigListener,
  type ConfigSource,
  ConfigSourceError,
  type LoadedRules,
  type ReviewOutcome,
} from './config-source.ts';
export { FileConfigSource } from './file/file-source.ts';
export { readRuleFolder } from './file/rule-folder.ts';
export type { XdsListener } from './xds/xds-source.ts';
