/**
 * Reports the limit that decided, beyond the headers of the Go service: the rule by its name (RESPONSE_RULE_IDENTITY), and the fields
 * of draft-ietf-httpapi-ratelimit-headers-10 (LIMIT_RESPONSE_HEADERS_STYLE=ietf). The parts that are the same in every answer are
 * written once per limit.
 */
import { algorithmNames, algorithmOf } from '../../rules/algorithms/registry.ts';
import { calendarText } from '../../rules/calendar.ts';
import { unitJson, unitOfHits } from '../../rules/describe.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { burstOf, type JsonObject, type Limit } from '../../rules/model.ts';
import { windowTextOf } from '../../rules/window.ts';
import type { LimitPlan, Plan } from './limit-plan.ts';
import { type Header, HeaderForm } from './messages.ts';
import type { DescriptorStatus, LimitWarning } from './response-message.ts';
import { isCalendarMonth, lengthOf, type WindowOptions } from './windows.ts';

/** The largest integer of structured fields: 15 digits. RFC 9651, section 3.3.1. */
const largestInteger = 999_999_999_999_999;

/** Returns a number for structured fields. Larger numbers are reported as the largest integer. */
export function fieldInteger(value: number): number {
  return Math.min(value, largestInteger);
}

const printable = /^[\x20-\x7e]*$/;

/** Returns a String of RFC 9651, section 3.3.3, which allows only printable ASCII. Other bytes are reported as `%c3`. */
export function fieldString(text: string): string {
  if (printable.test(text)) return `"${text.replace(/["\\]/g, '\\$&')}"`;
  let reported = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25 && byte !== 0x22 && byte !== 0x5c;
    reported += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`;
  }
  return `"${reported}"`;
}

/** Returns the path of a rule, for callers. Returns undefined if the rule hides its identity, and for a limit in a request. */
export function shownPath({ hideIdentity, path }: MatchedRule): string | undefined {
  return hideIdentity || path === '' ? undefined : path;
}

/** Returns the hits of a window. */
export function hitsPerWindow({ limit }: Pick<LimitPlan, 'limit'>): number {
  return limit.requestsPerUnit;
}

/** Returns a limit for callers, without its name if the rule hides its identity. */
export function shownLimit({ hideIdentity }: MatchedRule, limit: Limit): Limit {
  return hideIdentity && limit.name !== '' ? { ...limit, name: '' } : limit;
}

/** Returns the length of a limit's windows; undefined for calendar windows, whose lengths differ. */
export function fixedSecondsOf(limit: Limit, options: WindowOptions): number | undefined {
  const isOfCalendar = limit.calendar !== undefined || isCalendarMonth(limit, options);
  return isOfCalendar ? undefined : lengthOf(limit);
}

/** Returns the name of the limit, or its window if it has none. A rule that hides its identity shows no name. */
export function policyName({ rule, limit, texts }: LimitPlan): string {
  texts.policyName ??= shownLimit(rule, limit).name || windowTextOf(limit);
  return texts.policyName;
}

/** Whether answers may name the rule. */
export function isNamed({ rule }: LimitPlan): boolean {
  return !rule.hideIdentity;
}

/** Returns the whole field for a single policy. It is always the same, so it is written once. */
function policyField(plan: LimitPlan, unit: string): Header {
  const { texts } = plan;
  texts.policy ??= new HeaderForm('RateLimit-Policy', policyItem(plan, policyName(plan), unit)).header();
  return texts.policy;
}

/** Returns the `RateLimit` field of the same limit. */
function standingField(
  plan: LimitPlan,
  { limitRemaining, durationUntilResetSeconds }: DescriptorStatus,
): Header {
  const { texts } = plan;
  texts.standing ??= new HeaderForm('RateLimit', `${fieldString(policyName(plan))};r=`, ';t=');
  return texts.standing.header(fieldInteger(limitRemaining), durationUntilResetSeconds);
}

/**
 * Returns a policy such as `"1m";q=100;w=60`. If the unit is not the draft's default, the policy names it. The unit of the limit itself
 * takes precedence.
 */
function policyItem(plan: LimitPlan, name: string, unit: string): string {
  const { limit, windowSeconds } = plan;
  const ownUnit = unitOfHits(plan.limit);
  const ofHits = ownUnit === defaultUnit ? unit : ownUnit;
  const counted = ofHits === defaultUnit ? '' : `;qu=${fieldString(ofHits)}`;
  const length = windowSeconds === undefined ? '' : `;w=${windowSeconds}`;
  const burstParameter = algorithmOf(limit).hasBurst ? `;weir-burst=${fieldInteger(burstOf(limit))}` : '';
  return `${fieldString(name)};q=${fieldInteger(limit.requestsPerUnit)}${counted}${length}${burstParameter}`;
}

/** Returns an item of structured fields that ends with the number of used hits, if known. */
export function identityHeaderForm(plan: LimitPlan, key: string): HeaderForm {
  const { rule, limit, override, texts } = plan;
  if (texts.identity === undefined) {
    const place = rule.path === '' ? '' : `;rule=${fieldString(rule.path)}`;
    const name = limit.name === '' ? '' : `;name=${fieldString(limit.name)}`;
    const over = override === undefined ? '' : `;override=${fieldString(override.id)}`;
    const unit = unitOfHits(plan.limit);
    const counted = unit === defaultUnit ? '' : `;hits-unit=${fieldString(unit)}`;
    const size = `;limit=${fieldInteger(limit.requestsPerUnit)}${counted};window="${windowTextOf(limit)}";algorithm=${algorithmNames[limit.algorithm]}`;
    texts.identity = new HeaderForm(key, `${fieldString(rule.domain)}${place}${name}${size}${over};used=`);
  }
  return texts.identity;
}

/** Returns the same as an entry of a google.protobuf.Struct, encoded by `encode`. */
export function identityEntry(plan: LimitPlan, encode: (object: JsonObject) => Uint8Array): Uint8Array {
  const { rule, limit, override, texts } = plan;
  if (texts.identityEntry === undefined) {
    const decidedBy: JsonObject = {
      domain: rule.domain,
      ...(rule.path === '' ? {} : { rule: rule.path }),
      ...(limit.name === '' ? {} : { name: limit.name }),
      limit: limit.requestsPerUnit,
      ...unitJson(limit),
      window: windowTextOf(limit),
      algorithm: algorithmNames[limit.algorithm]!,
      ...(override === undefined ? {} : { override: override.id }),
      used: 0,
    };
    texts.identityEntry = encode({ decidedBy });
  }
  return texts.identityEntry;
}

/** The default unit of a quota in the draft. */
export const defaultUnit = 'requests';

/** Returns `RateLimit-Policy` with all limits of the request's descriptors, and `RateLimit` with the state of each descriptor. */
export function ietfHeaders(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  unit: string,
): Header[] {
  const plan = plans[0]!;
  if (plans.length === 1 && plan.kind === 'limited' && plan.limits.length === 1) {
    const { plan: answered } = statuses[0]!;
    return answered === undefined ? [] : [policyField(answered, unit), standingField(answered, statuses[0]!)];
  }
  const policies: string[] = [];
  const items: string[] = [];
  const names = new Set<string>();
  for (const [index, one] of plans.entries()) {
    const status = statuses[index]!;
    if (one.kind !== 'limited' || status.plan === undefined) continue;
    for (const limit of one.limits) {
      const name = freeName(policyName(limit), names);
      policies.push(policyItem(limit, name, unit));
      if (limit.texts !== status.plan.texts) continue;
      items.push(
        `${fieldString(name)};r=${fieldInteger(status.limitRemaining)};t=${status.durationUntilResetSeconds}`,
      );
    }
  }
  if (policies.length === 0) return [];
  return [
    { key: 'RateLimit-Policy', value: policies.join(', ') },
    { key: 'RateLimit', value: items.join(', ') },
  ];
}

/** Returns a name that is still free, such as `1m` or `1m-2`, because two policies with one name would be one policy. */
function freeName(name: string, taken: Set<string>): string {
  let free = name;
  for (let count = 2; taken.has(free); count++) free = `${name}-${count}`;
  taken.add(free);
  return free;
}

/** The maximum number of limits in one header. Limits at the highest thresholds come first. */
const maxWarnings = 8;

/** Returns the marks with the hits that are left, the highest first: `95;policy="daily";r=12, 80;policy="1m";r=2`. */
export function warningHeader(name: string, warnings: readonly LimitWarning[]): Header {
  const items = warnings.toSorted((one, other) => other.mark - one.mark).slice(0, maxWarnings);
  const value = items.map(
    ({ mark, plan, left }) =>
      `${mark};policy=${fieldString(policyName(plan))};r=${Math.min(left, largestInteger)}`,
  );
  return { key: name, value: value.join(', ') };
}

/** Returns the same for the dynamic metadata. */
export function warningMetadata({ mark, plan, used, left }: LimitWarning): JsonObject {
  const { rule, limit } = plan;
  const path = shownPath(rule);
  return {
    mark,
    policy: policyName(plan),
    ...(path !== undefined && { rule: path }),
    limit: limit.requestsPerUnit,
    used,
    left,
  };
}

/** Returns the number of a limit, followed by the policies of all limits. */
export function policiesOf({ requestsPerUnit }: Limit, limits: readonly Limit[]): string {
  return [String(requestsPerUnit), ...limits.map(policyOf)].join(', ');
}

/** Returns a limit as Envoy's own header does (draft-polli-ratelimit-headers-03): `100;w=300;name="daily"`. */
function policyOf(limit: Limit): string {
  const burst = algorithmOf(limit).hasBurst ? `;burst=${burstOf(limit)}` : '';
  // A character that headers cannot contain would end the header.
  const name = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/.test(limit.name) ? `;name="${limit.name}"` : '';
  // A calendar window has no fixed length, so `w` is a typical one.
  const calendar = limit.calendar === undefined ? '' : `;calendar="${calendarText(limit.calendar)}"`;
  return `${limit.requestsPerUnit};w=${lengthOf(limit)}${burst}${calendar}${name}`;
}
