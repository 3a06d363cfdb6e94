/** Where rules come from: files on disk, watched and loaded in a thread of their own. */
export { type ConfigListener, type ConfigSource, ConfigSourceError } from './config-source.ts';
export { FileConfigSource } from './file/file-source.ts';
export { readRuleFolder } from './file/rule-folder.ts';
