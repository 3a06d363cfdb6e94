import { readEnvoyConfiguration } from '../../rules/proxy/envoy-configuration.ts';
import { reviewEnvoy } from '../../rules/proxy/envoy-review.ts';
import { LineIndex } from '../../rules/yaml/places.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { hintOf, readGiven } from '../shared/flags.ts';
import { type RuleInput, standardInput } from '../shared/read-input.ts';
import { type CheckedInput, type CheckOptions, linesOfTexts } from './check-input.ts';
import { count, findingOf, type LinesOf } from './check-report.ts';

/**
 * Holds the files of `--envoy` against all rules that were read. Rules with errors are compared with nothing: what is missing
 * of them would look like a mistake of the Envoy. @throws UsageError for a file that cannot be read
 */
export function checkEnvoy(
  paths: readonly string[],
  inputs: readonly RuleInput[],
  { allowed, strictness }: Pick<CheckOptions, 'allowed' | 'strictness'>,
): CheckedInput {
  const files = paths.map((path) => ({ path: path === '-' ? standardInput : path, text: textOf(path) }));
  const areRulesGood = inputs.every(({ errorCount }) => errorCount === 0);
  const sources = inputs.flatMap((input) => input.sources);
  const configuration = readEnvoyConfiguration(files);
  const review = areRulesGood && sources.length > 0 ? reviewEnvoy(configuration, sources, hintOf) : undefined;
  const linesOf = linesOfAll(files, inputs);
  const findings = (review?.findings ?? []).map(({ severity, hint, file, ...found }) =>
    findingOf(strictness === 'strict' ? 'error' : severity, { ...found, source: file }, hint, linesOf),
  );
  const kept = findings.filter(({ code }) => !allowed.has(code));
  const errors = kept.filter(({ severity }) => severity === 'error');
  return {
    path: paths.join(', '),
    files: files.map(({ path }) => path),
    domains: 0,
    rules: 0,
    callersFiles: [],
    skipped: [],
    otherFiles: [],
    findings: kept,
    errors,
    errorCount: errors.length,
    warnings: kept.filter(({ severity }) => severity === 'warning'),
    isUnreadable: false,
    allowed: findings.length - kept.length,
    summary: `${count(paths.length, 'file')} of the proxy${summaryOf(review, errors.length > 0)}`,
  };
}

function summaryOf(review: { isOpen: boolean } | undefined, isFailed: boolean): string {
  if (review === undefined) return ', not compared: there are no rules, or errors in them';
  if (isFailed) return '';
  if (!review.isOpen) return ': descriptors and rules fit together';
  return ': all descriptors match rules; routes that are not in there may ask for others';
}

function textOf(path: string): string {
  const bytes = readGiven(`--envoy ${path}`, path === '-' ? 0 : path);
  const text = decodeYaml(bytes);
  return typeof text === 'string' ? text : bytes.toString('utf8');
}

function linesOfAll(files: readonly { path: string; text: string }[], inputs: readonly RuleInput[]): LinesOf {
  const own = new Map<string, LineIndex>();
  const ofRules = inputs.map(linesOfTexts);
  return (path) => {
    const file = files.find((one) => one.path === path);
    if (file === undefined) return ofRules.map((linesOf) => linesOf(path)).find((one) => one !== undefined);
    const lines = own.get(path) ?? new LineIndex(file.text);
    own.set(path, lines);
    return lines;
  };
}
