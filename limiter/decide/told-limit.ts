/**
 * What answers tell of the limit that decided, beyond the headers of the Go service: the rule by its name
 * (RESPONSE_RULE_IDENTITY), and the fields of draft-ietf-httpapi-ratelimit-headers-10 (LIMIT_RESPONSE_HEADERS_STYLE=ietf).
 * What of it is the same in every answer is written once for each limit.
 */
import { algorithmNames, algorithmOf } from '../../rules/algorithms/registry.ts';
import { calendarText } from '../../rules/calendar.ts';
import { unitJson } from '../../rules/describe.ts';
import type { MatchedRule } from '../../rules/match-result.ts';
import { burstOf, type JsonObject, type Limit } from '../../rules/model.ts';
import type { Override } from '../../rules/overrides/override.ts';
import { windowTextOf } from '../../rules/window.ts';
import { type DescriptorStatus, type Header, HeaderForm, type LimitWarning } from './messages.ts';
import type { Plan } from './plan.ts';
import { isCalendarMonth, lengthOf, type WindowOptions } from './windows.ts';

/** Of structured fields: 15 digits. RFC 9651, section 3.3.1. */
const largestInteger = 999_999_999_999_999;

/** What is more is told as the largest that there is. */
export function fieldInteger(value: number): number {
  return Math.min(value, largestInteger);
}

const printable = /^[\x20-\x7e]*$/;

/** A String of RFC 9651, section 3.3.3, which has room for printable ASCII alone: the bytes of others are told as `%c3`. */
export function fieldString(text: string): string {
  if (printable.test(text)) return `"${text.replace(/["\\]/g, '\\$&')}"`;
  let told = '';
  for (const byte of Buffer.from(text, 'utf8')) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25 && byte !== 0x22 && byte !== 0x5c;
    told += isPlain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`;
  }
  return `"${told}"`;
}

/** Where a rule stands, for callers; undefined where it hides itself, and for a limit that no rule has. */
export function shownPath({ hideIdentity, path }: MatchedRule): string | undefined {
  return hideIdentity || path === '' ? undefined : path;
}

/** A limit for callers: of a rule that hides itself without its name. */
export function shownLimit({ hideIdentity }: MatchedRule, limit: Limit): Limit {
  return hideIdentity && limit.name !== '' ? { ...limit, name: '' } : limit;
}

/** One limit of a rule as answers tell of it. */
export class ToldLimit {
  readonly rule: MatchedRule;
  readonly limit: Limit;
  /** Which decides over the limit. */
  readonly override: Override | undefined;
  /** Undefined for a window of a calendar, which has no length of its own. */
  readonly #seconds: number | undefined;
  #policyName: string | undefined;
  #policy: Header | undefined;
  #identity: HeaderForm | undefined;
  #standing: HeaderForm | undefined;
  #identityEntry: Uint8Array | undefined;

  constructor(rule: MatchedRule, limit: Limit, override: Override | undefined, options: WindowOptions) {
    this.rule = rule;
    this.limit = limit;
    this.override = override;
    const isOfCalendar = limit.calendar !== undefined || isCalendarMonth(limit, options);
    this.#seconds = isOfCalendar ? undefined : lengthOf(limit);
  }

  /** By the name of the limit, else by its window; a rule that hides itself shows no name. */
  get policyName(): string {
    this.#policyName ??= shownLimit(this.rule, this.limit).name || this.window;
    return this.#policyName;
  }

  /** Whether answers may name the rule. */
  get isNamed(): boolean {
    return !this.rule.hideIdentity;
  }

  get window(): string {
    return windowTextOf(this.limit);
  }

  /** What its hits are. */
  get unit(): string {
    return this.limit.hitsUnit;
  }

  get algorithm(): string {
    return algorithmNames[this.limit.algorithm]!;
  }

  /** The whole field where there is no other policy; the same every time. */
  policyField(unit: string): Header {
    this.#policy ??= new HeaderForm('RateLimit-Policy', this.policyItem(this.policyName, unit)).header();
    return this.#policy;
  }

  /** Where that one stands. */
  standingField({ limitRemaining, durationUntilResetSeconds }: DescriptorStatus): Header {
    this.#standing ??= new HeaderForm('RateLimit', `${fieldString(this.policyName)};r=`, ';t=');
    return this.#standing.header(fieldInteger(limitRemaining), durationUntilResetSeconds);
  }

  /** `"1m";q=100;w=60`; the unit, of which that of the limit itself goes first, where it is not the draft's own. */
  policyItem(name: string, unit: string): string {
    const { requestsPerUnit } = this.limit;
    const ofHits = this.unit === usualUnit ? unit : this.unit;
    const counted = ofHits === usualUnit ? '' : `;qu=${fieldString(ofHits)}`;
    const length = this.#seconds === undefined ? '' : `;w=${this.#seconds}`;
    const most = algorithmOf(this.limit).hasBurst ? `;weir-burst=${fieldInteger(burstOf(this.limit))}` : '';
    return `${fieldString(name)};q=${fieldInteger(requestsPerUnit)}${counted}${length}${most}`;
  }

  /** An item of structured fields, with the number that is used, where that is known, at its end. */
  identityHeader(key: string): HeaderForm {
    if (this.#identity === undefined) {
      const { rule, limit, override } = this;
      const place = rule.path === '' ? '' : `;rule=${fieldString(rule.path)}`;
      const name = limit.name === '' ? '' : `;name=${fieldString(limit.name)}`;
      const over = override === undefined ? '' : `;override=${fieldString(override.id)}`;
      const counted = this.unit === usualUnit ? '' : `;hits-unit=${fieldString(this.unit)}`;
      const size = `;limit=${fieldInteger(limit.requestsPerUnit)}${counted};window="${this.window}";algorithm=${this.algorithm}`;
      this.#identity = new HeaderForm(key, `${fieldString(rule.domain)}${place}${name}${size}${over};used=`);
    }
    return this.#identity;
  }

  /** The same as an entry of a google.protobuf.Struct, which `encode` makes; kept by whoever encodes. */
  identityEntry(encode: (object: JsonObject) => Uint8Array): Uint8Array {
    if (this.#identityEntry === undefined) {
      const { rule, limit, override, window, algorithm } = this;
      const decidedBy: JsonObject = {
        domain: rule.domain,
        ...(rule.path === '' ? {} : { rule: rule.path }),
        ...(limit.name === '' ? {} : { name: limit.name }),
        limit: limit.requestsPerUnit,
        ...unitJson(limit),
        window,
        algorithm,
        ...(override === undefined ? {} : { override: override.id }),
        used: 0,
      };
      this.#identityEntry = encode({ decidedBy });
    }
    return this.#identityEntry;
  }
}

/** Of a quota in the draft, where nothing else is said. */
export const usualUnit = 'requests';

/** `RateLimit-Policy` with every limit of the request's descriptors, and `RateLimit` with where each descriptor stands. */
export function ietfHeaders(
  plans: readonly Plan[],
  statuses: readonly DescriptorStatus[],
  unit: string,
): Header[] {
  const plan = plans[0]!;
  if (plans.length === 1 && plan.kind === 'limited' && plan.limits.length === 1) {
    const { told } = statuses[0]!;
    return told === undefined ? [] : [told.policyField(unit), told.standingField(statuses[0]!)];
  }
  const policies: string[] = [];
  const items: string[] = [];
  const names = new Set<string>();
  for (const [index, one] of plans.entries()) {
    const status = statuses[index]!;
    if (one.kind !== 'limited' || status.told === undefined) continue;
    for (const { told } of one.limits) {
      const name = freeName(told.policyName, names);
      policies.push(told.policyItem(name, unit));
      if (told !== status.told) continue;
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

/** Two policies of one name would be one: `1m`, `1m-2`. */
function freeName(name: string, taken: Set<string>): string {
  let free = name;
  for (let count = 2; taken.has(free); count++) free = `${name}-${count}`;
  taken.add(free);
  return free;
}

/** Chosen: limits that one header tells of; those at the highest marks. */
const mostWarnings = 8;

/** `95;policy="daily";r=12, 80;policy="1m";r=2`: the highest mark first, with what is left. */
export function warningHeader(name: string, warnings: readonly LimitWarning[]): Header {
  const items = warnings.toSorted((one, other) => other.mark - one.mark).slice(0, mostWarnings);
  const value = items.map(
    ({ mark, told, left }) =>
      `${mark};policy=${fieldString(told.policyName)};r=${Math.min(left, largestInteger)}`,
  );
  return { key: name, value: value.join(', ') };
}

/** The same for the dynamic metadata. */
export function warningMetadata({ mark, told, used, left }: LimitWarning): JsonObject {
  const { rule, limit } = told;
  const path = shownPath(rule);
  return {
    mark,
    policy: told.policyName,
    ...(path !== undefined && { rule: path }),
    limit: limit.requestsPerUnit,
    used,
    left,
  };
}

/** The number of one, then what all of them say. */
export function policiesOf({ requestsPerUnit }: Limit, limits: readonly Limit[]): string {
  return [String(requestsPerUnit), ...limits.map(policyOf)].join(', ');
}

/** As Envoy's own header says it (draft-polli-ratelimit-headers-03): `100;w=300;name="daily"`. */
function policyOf(limit: Limit): string {
  const burst = algorithmOf(limit).hasBurst ? `;burst=${burstOf(limit)}` : '';
  // What a header has no room for would end it.
  const name = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/.test(limit.name) ? `;name="${limit.name}"` : '';
  // Which has no length: that of usual ones stands for it.
  const calendar = limit.calendar === undefined ? '' : `;calendar="${calendarText(limit.calendar)}"`;
  return `${limit.requestsPerUnit};w=${lengthOf(limit)}${burst}${calendar}${name}`;
}
