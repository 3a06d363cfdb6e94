import {
  type ConnectionManager,
  type RateLimitFilter,
  type RouteSite,
  readEnvoyConfiguration,
} from '../../rules/proxy/envoy-configuration.ts';
import { reviewEnvoy } from '../../rules/proxy/envoy-review.ts';
import type { EnvoyPlace } from '../../rules/proxy/proto-json.ts';
import { LineIndex } from '../../rules/yaml/places.ts';
import { decodeYaml } from '../../rules/yaml/text.ts';
import { rejectOutside } from '../shared/contained-files.ts';
import { readArgumentFile, standardInputFile, UsageError } from '../shared/flags.ts';
import { linesOfTexts, type RuleInput, standardInput } from '../shared/read-input.ts';
import type { RuleText } from '../shared/read-rule-texts.ts';
import { count } from '../shared/text.ts';
import { type CheckedInput, type CheckInputOptions, profilesOf, readings } from './check-input.ts';
import { findingOf, type LinesOf } from './check-report.ts';

/**
 * Compares the files of `--envoy` and all profiles with all rules that were read. Rules with errors are not compared, because their
 * missing parts would look like mistakes of the callers. For profiles alone, only requests that match no rule are reported.
 * @throws UsageError for a file that cannot be read
 */
export function checkAskers(
  paths: readonly string[],
  inputs: readonly RuleInput[],
  {
    allowed,
    strictness,
    roots,
  }: Pick<CheckInputOptions, 'allowed' | 'strictness'> & { roots: readonly string[] },
): CheckedInput[] {
  const files = paths.map((path) => ({
    path: path === '-' ? standardInput : path,
    text: textOf(path, roots),
  }));
  const areRulesGood = inputs.every(({ errorCount }) => errorCount === 0);
  const sources = inputs.flatMap((input) => input.sources);
  const configuration = readEnvoyConfiguration(files);
  // Without an Envoy configuration, the other callers are not known.
  const profiles = managersOfProfiles(inputs, files.length > 0);
  if (files.length + profiles.length === 0) return [];
  configuration.managers.push(...profiles);
  const review = areRulesGood && sources.length > 0 ? reviewEnvoy(configuration, sources) : undefined;
  const linesOf = linesOfAll(files, inputs);
  const findings = (review?.findings ?? []).map(({ severity, hint, file, ...found }) =>
    findingOf(strictness === 'strict' ? 'error' : severity, { ...found, source: file }, hint, linesOf),
  );
  const reported = findings.filter(({ code }) => !allowed.has(code));
  const checked = {
    path: paths.join(', '),
    files: files.map(({ path }) => path),
    domains: 0,
    rules: 0,
    callersFiles: [],
    profilesFiles: [],
    skipped: [],
    otherFiles: [],
    findings: reported,
    unlisted: 0,
    isUnreadable: false,
    allowed: findings.length - reported.length,
    unreviewed: [],
  };
  if (paths.length > 0) {
    const isFailed = reported.some(({ severity }) => severity === 'error');
    const fits = summaryOf(review, isFailed);
    return [{ ...checked, summary: `${count(paths.length, 'file')} of the proxy${fits}` }];
  }
  return findings.length === 0 ? [] : [{ ...checked, path: profiles[0]!.sites[0]!.place.file }];
}

/** Turns each profile into a filter with one route. `isAll`: whether these and the given Envoys are all callers. */
function managersOfProfiles(inputs: readonly RuleInput[], isAll: boolean): ConnectionManager[] {
  return inputs.flatMap(({ profilesFiles }) =>
    readings(profilesFiles.filter(isGiven), profilesOf).flatMap(({ path: file, read }) => {
      if (read.problems !== undefined) return [];
      const placeOf = (path: (string | number)[]): EnvoyPlace => ({ file, ...read.placeOf(path) });
      return read.profiles.map(({ name, domain, rateLimits }) => {
        const at = ['profiles', name];
        const place = placeOf(at);
        const own = rateLimits.map((config, index) => {
          const placeOfItem = (...rest: (string | number)[]): EnvoyPlace =>
            placeOf([...at, 'rate_limits', index, ...rest]);
          const placeOfAction = (action: number): EnvoyPlace => placeOfItem('actions', action);
          return { config, place: placeOfItem(), placeOfAction, isEmbedded: true };
        });
        const filter: RateLimitFilter = {
          ...{ name, place, stage: 0, rateLimits: own, service: undefined },
          domain: { text: domain, place: placeOf([...at, 'domain']) },
          ...{ enabledPercent: undefined, enforcedPercent: undefined },
        };
        const none = { own: [], host: [], includesHost: false, perRoutes: [] };
        const site: RouteSite = { isForwarded: true, ...none, place };
        return { filters: [filter], sites: [site], isComplete: isAll, origin: 'manager' as const };
      });
    }),
  );
}

/** The rules for profiles in a rendered chart may be anywhere. */
function isGiven(file: RuleText): boolean {
  return !('container' in file);
}

function summaryOf(review: { isOpen: boolean } | undefined, isFailed: boolean): string {
  if (review === undefined) return ', not compared: there are no rules, or they have errors';
  if (isFailed) return '';
  if (!review.isOpen) return ': descriptors and rules fit together';
  return ': all descriptors match rules; routes that are not in this file may ask for others';
}

function textOf(path: string, roots: readonly string[]): string {
  rejectOutside(`--envoy ${path}`, path, roots);
  const bytes = readArgumentFile(`--envoy ${path}`, path === '-' ? standardInputFile() : path);
  const text = decodeYaml(bytes);
  if (typeof text !== 'string')
    throw new UsageError(`--envoy ${path}: ${text.text}, from character ${text.offset + 1} on`);
  return text;
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
