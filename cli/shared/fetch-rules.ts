import { systemErrorReason } from '../../process/log/error-text.ts';
import { readRuleTexts } from '../../rules/documents/read-rule-texts.ts';
import type { LoadedSource } from '../../rules/loaded-source.ts';
import type { JsonObject } from '../../rules/model.ts';
import { yamlText } from '../../rules/write/yaml-text.ts';
import { UsageError } from './flags.ts';
import { type InputOptions, type RuleInput, readInput } from './read-input.ts';

const timeoutMs = 30_000;

/** Reads an argument that may also be the address of a running limiter's debug listener. @throws UsageError */
export async function readInputOrUrl(path: string, options: InputOptions): Promise<RuleInput> {
  if (!/^https?:\/\//.test(path)) return readInput(path, options);
  const url = URL.parse(path);
  if (url === null) throw new UsageError(`"${path}" is no URL`);
  if (url.pathname === '/') url.pathname = '/rlconfig';
  url.searchParams.set('format', 'json');
  const files = ruleFiles(await fetched(url), url);
  // As YAML, which unlike JSON has no raw control characters.
  const texts = files.map((file) => ({ path, text: yamlText(file) }));
  const reading = readRuleTexts(texts, { mergeDomains: true });
  return {
    ...reading,
    sources: reading.sources.map(withoutPlaces),
    path,
    texts,
    otherFiles: [],
    callersFiles: [],
  };
}

/** What a limiter says has no lines that anybody could look up. */
function withoutPlaces(loaded: LoadedSource): LoadedSource {
  return { ...loaded, placeOf: () => undefined };
}

async function fetched(url: URL): Promise<string> {
  try {
    const response = await fetch(url, { redirect: 'error', signal: AbortSignal.timeout(timeoutMs) });
    if (response.ok) return await response.text();
    throw new UsageError(`${url.origin} answered ${response.status}`);
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const first: unknown = cause instanceof AggregateError ? cause.errors[0] : cause;
    throw new UsageError(`${url.origin}: ${systemErrorReason(first)}`, { cause: error });
  }
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
