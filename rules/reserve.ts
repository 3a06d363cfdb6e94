/** The `reserve` of a rule, in any spelling: how marker entries of requests reserve from it. */
import { reserveFields } from './language/fields.ts';
import type { ReserveTerms, Rule, Written } from './model.ts';
import { unknownWord } from './rule-error.ts';
import { secondsFromText } from './window.ts';

/** The largest `ttl`, in seconds: a day. */
const longestTtlSeconds = 86_400;
/** The default `ttl` of `reserve`, in seconds. */
const defaultTtlSeconds = 60;
export const expiries = reserveFields.onExpiry.words;

/** An invalid value is reported with its field, and then counts as not written. */
export function readReserve(
  { ttl, estimate, onExpiry = 'release' }: Written<typeof reserveFields>,
  report: (field: 'ttl' | 'on_expiry', text: string) => void,
): ReserveTerms {
  const ends = expiries.find((one) => one === onExpiry.toLowerCase());
  if (ends === undefined) report('on_expiry', unknownWord('on_expiry', expiries, onExpiry));
  const ttlSeconds = ttl === undefined ? defaultTtlSeconds : secondsOfTtl(ttl);
  if (typeof ttlSeconds === 'string') report('ttl', ttlSeconds);
  return {
    ttlSeconds: typeof ttlSeconds === 'string' ? defaultTtlSeconds : ttlSeconds,
    estimate,
    onExpiry: ends ?? 'release',
  };
}

/** Returns 60 for `60s`, or a text that describes the mistake. From 1 second to a day. */
function secondsOfTtl(text: string): number | string {
  const seconds = secondsFromText(text);
  if (typeof seconds === 'string') return `the ttl '${text}' ${seconds}`;
  return seconds <= longestTtlSeconds
    ? seconds
    : `the ttl '${text}' is ${seconds} seconds, and a reservation lasts at most ${longestTtlSeconds} (24h)`;
}

/** Returns why requests cannot reserve from a rule. Undefined if they can. */
export function reserveProblem({ reserve, limits }: Pick<Rule, 'reserve' | 'limits'>): string | undefined {
  if (reserve === undefined) return undefined;
  if (limits.length === 0) return 'reserve needs a rate_limit beside it';
  return limits[0]!.unlimited ? 'should not specify reserve when unlimited' : undefined;
}

/** `held for 60s, 2000 if a request has no amount, given back if no request commits`. */
export function reserveWords({ ttlSeconds, estimate, onExpiry }: ReserveTerms): string {
  const amount = estimate === undefined ? '' : `, ${estimate} if a request has no amount`;
  const end = onExpiry === 'release' ? 'given back' : 'charged';
  return `held for ${ttlSeconds}s${amount}, ${end} if no request commits`;
}

/** Returns one text for each field, for lists of rules. */
export function reserveTexts({ ttlSeconds, estimate, onExpiry }: ReserveTerms): string[] {
  const amount = estimate === undefined ? [] : [`estimate=${estimate}`];
  return [`ttl=${ttlSeconds}s`, ...amount, `on_expiry=${onExpiry}`];
}

/** The fields as they are written, with words as the dialect spells them. */
export function writtenReserve(
  { ttlSeconds, estimate, onExpiry }: ReserveTerms,
  word: (word: string) => string,
): Written<typeof reserveFields> {
  return {
    ttl: `${ttlSeconds}s`,
    estimate,
    onExpiry: onExpiry === 'release' ? undefined : word(onExpiry),
  };
}
