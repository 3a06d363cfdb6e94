/** An override: a temporary change of the rules. `readOverride` reads it from every source. */
import { type Entry, type Unit, unitName } from './model.ts';

export type OverrideEffect =
  /** Replaces the requests of the matched limit; window, algorithm and counter stay. `unit` applies if no rule matches. */
  | { readonly kind: 'limit'; readonly requestsPerUnit: number; readonly unit: Unit | undefined }
  | { readonly kind: 'unlimited' }
  | { readonly kind: 'shadow' }
  | { readonly kind: 'block' }
  /** Allows this many more hits until the end of the window in which it was created, or for the length of a window. */
  | { readonly kind: 'grant'; readonly hits: number };

/** An override as plain data. It is posted to threads and stored. */
export interface Override {
  /** A different id for each override: the uid of an object, the path and place in a file, a random id, or the caller's id. */
  readonly id: string;
  readonly source: 'object' | 'api' | 'file';
  /** The name for people: `namespace/name`, the id, `file.yaml:3`. */
  readonly name: string;
  readonly domain: string;
  /** All entries of a descriptor. In values, `*` stands for any text, except in grants. */
  readonly match: readonly Entry[];
  /**
   * The name of one of several limits of the matched rule. If it is empty, the override applies to all limits, and `limit` and
   * `grant` to the only one.
   */
  readonly limit: string;
  readonly effect: OverrideEffect;
  /** The time of creation, in milliseconds since 1970. */
  readonly createdMs: number;
  /** The time when the override ends. Undefined if it is permanent. For a grant without its own end, its window determines the end. */
  readonly endsMs: number | undefined;
  readonly reason: string;
  /** The author, for people. Empty if unknown. */
  readonly by: string;
}

/** The place that two overrides cannot share. The older one applies. Grants apply beside all others. */
export function overridePlace({
  id,
  domain,
  match,
  limit,
  effect,
}: Pick<Override, 'id' | 'domain' | 'match' | 'limit' | 'effect'>): string {
  const entries = match.flatMap(({ key, value }) => [key, value]);
  return JSON.stringify([domain, limit, ...entries, ...(effect.kind === 'grant' ? [null, id] : [])]);
}

/** Compares by age and then by id, so that all processes agree on the order. */
export function byAge(a: Override, b: Override): number {
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

/** Returns whether values of it contain a `*`. */
export function isPattern({ match }: Pick<Override, 'match'>): boolean {
  return match.some(({ value }) => value.includes('*'));
}

export interface OverrideState {
  readonly state: 'InForce' | 'Ended' | 'Conflicted' | 'NoRule';
  /** The message for people. Empty if there is nothing to add. */
  readonly message: string;
  /** The words for what it changes, by the rules in force. Undefined if the rules are unknown. */
  readonly words?: string;
}

/** Returns the form that `/v1/overrides` reports and commands print. For a grant without its own end, its window determines the end. */
export function overrideJson(
  override: Override,
  nowMs: number,
  { state, message, words }: OverrideState = overrideStateByTime(override, nowMs),
): Record<string, unknown> {
  const { id, source, name, domain, match, limit, createdMs, endsMs, reason, by } = override;
  const endsAt = endsMs === undefined ? null : new Date(endsMs).toISOString();
  return {
    ...{ id, source, name, domain, match, limit, ...effectJson(override.effect) },
    ...(endsAt === null ? override.effect.kind !== 'grant' && { permanent: true } : { expiresAt: endsAt }),
    reason,
    createdAt: createdMs === 0 ? null : new Date(createdMs).toISOString(),
    endsAt,
    secondsLeft: endsMs === undefined ? null : Math.max(0, Math.ceil((endsMs - nowMs) / 1000)),
    createdBy: by,
    state,
    message,
    ...(words !== undefined && { words }),
  };
}

export function overrideStateByTime({ endsMs }: Override, nowMs: number): OverrideState {
  return { state: endsMs !== undefined && endsMs <= nowMs ? 'Ended' : 'InForce', message: '' };
}

/** Returns the field that sets the effect, and `unit`. */
export function effectJson(effect: OverrideEffect): Record<string, unknown> {
  if (effect.kind === 'grant') return { grant: effect.hits };
  if (effect.kind !== 'limit') return { [effect.kind]: true };
  const { requestsPerUnit, unit } = effect;
  return { requestsPerUnit, ...(unit !== undefined && { unit: unitName(unit)!.toLowerCase() }) };
}

/** Returns an effect in words: `100 per minute`, `unlimited`, `1000 more`. */
export function effectWords(effect: OverrideEffect): string {
  if (effect.kind === 'grant') return `${effect.hits} more`;
  if (effect.kind !== 'limit') return effect.kind === 'block' ? 'blocked' : effect.kind;
  const { requestsPerUnit, unit } = effect;
  return unit === undefined
    ? `${requestsPerUnit} per window`
    : `${requestsPerUnit} per ${unitName(unit)!.toLowerCase()}`;
}

/** The default of OVERRIDES_MAX_SECONDS: 30 days. */
export const defaultOverridesMaxSeconds = 2_592_000;

/** Facts about an override that are not in its value. */
export interface OverrideOrigin {
  readonly source: Override['source'];
  /** The id if the value has no `id`. */
  readonly id: string;
  /** The name. Defaults to the id. */
  readonly name?: string;
  /** The time that decides which override was first. A file has none, so it is 0. */
  readonly createdMs: number;
  readonly by: string;
  /** The start of `for` and of the longest duration: the time of creation, or the current time for a file. */
  readonly fromMs: number;
  /** The value of OVERRIDES_MAX_SECONDS. */
  readonly maxSeconds: number;
  /** Whether an end in the past is an error, as it is if a caller sets the override now. */
  readonly rejectsPast: boolean;
}
