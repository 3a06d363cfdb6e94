import { readRuleTexts } from '../../rules/documents/read-rule-texts.ts';
import type { JsonObject } from '../../rules/model.ts';
import { yamlText } from '../../rules/write/yaml-text.ts';
import { UsageError } from './flags.ts';
import { fetchGiven } from './given-text.ts';
import { type InputOptions, type RuleInput, readInput } from './read-input.ts';

const timeoutMs = 30_000;

/** Reads an argument that may also be the address of a running limiter's debug listener. @throws UsageError */
export async function readInputOrUrl(path: string, options: InputOptions): Promise<RuleInput> {
  if (!/^https?:\/\//.test(path)) return readInput(path, options);
  const url = URL.parse(path);
  if (url === null) throw new UsageError(`"${path}" is no URL`);
  if (url.pathname === '/') url.pathname = '/rlconfig';
  url.searchParams.set('format', 'json');
  const files = ruleFiles(await fetchGiven(url, { timeoutMs }, (response) => response.text()), url);
  // As YAML, which unlike JSON has no raw control characters.
  const texts = files.map((file) => ({ path, text: yamlText(file) }));
  const reading = readRuleTexts(texts, { mergeDomains: true });
  return {
    ...reading,
    // What a limiter says has no lines that anybody could look up.
    sources: reading.sources.map((loaded) => ({ ...loaded, placeOf: () => undefined })),
    path,
    texts,
    otherFiles: [],
    callersFiles: [],
  };
}

function ruleFiles(text: string, url: URL): JsonObject[] {
  try {
    const files: unknown = JSON.parse(text);
    if (Array.isArray(files)) return files as JsonObject[];
  } catch {
    // Said below: a limiter that does not know the format answers with its usual lines.
  }
  throw new UsageError(`${url.origin}${url.pathname} lists no rules as JSON: only a limiter of Weir does`);
}
