/** An override: what lies over the rules for a time, whether it came as an object, by the API or from a file. */
import { type Entry, type Unit, unitName } from './model.ts';

export type OverrideEffect =
  /** In place of the matched limit's requests; window, algorithm and counter stay. `unit` is for where no rule matches. */
  | { readonly kind: 'limit'; readonly requestsPerUnit: number; readonly unit: Unit | undefined }
  | { readonly kind: 'unlimited' }
  | { readonly kind: 'shadow' }
  | { readonly kind: 'block' }
  /** So many more, until the window ends in which it was created, or for a window's length. */
  | { readonly kind: 'grant'; readonly hits: number };

/** Plain data: it is posted to threads and kept in stores. */
export interface Override {
  /** Different for every override: of an object its uid, of a file its path and place, else random or the caller's. */
  readonly id: string;
  readonly source: 'object' | 'api' | 'file';
  /** For people: `namespace/name`, the id, `file.yaml:3`. */
  readonly name: string;
  readonly domain: string;
  /** The whole list of a descriptor's entries; in values `*` stands for any text, but for grants. */
  readonly match: readonly Entry[];
  /** Which of several limits of the matched rule; empty: all of them, of `limit` and `grant` the only one. */
  readonly limit: string;
  readonly effect: OverrideEffect;
  /** Milliseconds since 1970. */
  readonly createdMs: number;
  /** Undefined: permanent; of a grant its window decides. */
  readonly endsMs: number | undefined;
  readonly reason: string;
  /** Who made it, for people; empty where nobody says. */
  readonly by: string;
}

/** What two overrides cannot both have: the same place. Of those that do the older holds. Grants stand beside all others. */
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

/** Who was first: by age, then by id, the same everywhere. */
export function byAge(a: Override, b: Override): number {
  if (a.createdMs !== b.createdMs) return a.createdMs - b.createdMs;
  return a.id < b.id ? -1 : Number(a.id > b.id);
}

/** Whether values of it have a `*`. */
export function isPattern({ match }: Pick<Override, 'match'>): boolean {
  return match.some(({ value }) => value.includes('*'));
}

export interface OverrideStanding {
  readonly standing: 'InForce' | 'Ended' | 'Conflicted' | 'NoRule';
  /** For people; empty where there is nothing to add. */
  readonly message: string;
}

/** As `/v1/overrides` tells it, and commands print it. Of a grant without an end of its own its window decides. */
export function overrideJson(
  override: Override,
  nowMs: number,
  { standing, message }: OverrideStanding = standingByTime(override, nowMs),
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
    standing,
    message,
  };
}

export function standingByTime({ endsMs }: Override, nowMs: number): OverrideStanding {
  return { standing: endsMs !== undefined && endsMs <= nowMs ? 'Ended' : 'InForce', message: '' };
}

/** The one field of its effect, and `unit`. */
export function effectJson(effect: OverrideEffect): Record<string, unknown> {
  if (effect.kind === 'grant') return { grant: effect.hits };
  if (effect.kind !== 'limit') return { [effect.kind]: true };
  const { requestsPerUnit, unit } = effect;
  return { requestsPerUnit, ...(unit !== undefined && { unit: unitName(unit)!.toLowerCase() }) };
}

/** For people: `100 per minute`, `unlimited`, `1000 more`. */
export function effectWords(effect: OverrideEffect): string {
  if (effect.kind === 'grant') return `${effect.hits} more`;
  if (effect.kind !== 'limit') return effect.kind === 'block' ? 'blocked' : effect.kind;
  const { requestsPerUnit, unit } = effect;
  return unit === undefined
    ? `${requestsPerUnit} a window`
    : `${requestsPerUnit} per ${unitName(unit)!.toLowerCase()}`;
}
