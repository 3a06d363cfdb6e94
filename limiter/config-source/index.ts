/** Where rules come from: files on disk, watched and loaded in a thread of their own. */
export {
  type ConfigListener,
  type ConfigSource,
  ConfigSourceError,
  type ConfigSourceErrorCode,
  type LoadedRules,
} from './config-source.ts';
export type { RuntimePaths } from './file/file-layout.ts';
export {
  defaultFileSourceLimits,
  FileConfigSource,
  type FileConfigSourceOptions,
  type FileSourceLimits,
} from './file/file-source.ts';
export { type RuleFolderReading, readRuleFolder } from './file/rule-folder.ts';
