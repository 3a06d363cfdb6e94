/** `/v1/overrides`: sets, lists and removes overrides. Those of objects and files must be changed at their source. */
import { randomUUID } from 'node:crypto';
import {
  type ApiAnswer,
  type ApiCall,
  ApiProblem,
  type ApiRoute,
  checkDomain,
  entryOf,
  flagOf,
  type ReportChange,
  shown,
} from '../../process/http/api-route.ts';
import type { Clock } from '../../process/time/clock.ts';
import { limitLabel } from '../../rules/describe.ts';
import { byAge, effectWords, type Override, overrideJson, overridePlace } from '../../rules/override.ts';
import { readOverride } from '../../rules/reader/read-override.ts';
import { limitsOf, type OverriddenRules, ruleProblem } from '../../rules/review/review-override.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { grantEndMs } from '../decide/limit-with-overrides.ts';
import type { PlanSettings } from '../decide/plan.ts';
import { counterProblem } from '../operate/counter-routes.ts';
import type { StoreAdmin } from '../operate/store-admin/store-admin.ts';
import type { OverridesInForce } from './overrides-in-force.ts';
import type { StoredOverrides } from './stored-overrides.ts';

export interface OverrideParts {
  storeAdmin: StoreAdmin;
  stored: StoredOverrides;
  inForce: OverridesInForce;
  rules(): OverriddenRules | undefined;
  settings: PlanSettings;
  clock: Clock;
  report: ReportChange;
  /** The value of OVERRIDES_MAX. */
  max: number;
  /** The value of OVERRIDES_MAX_SECONDS. */
  maxSeconds: number;
}

const path = '/v1/overrides';

export function overrideRoutes(parts: OverrideParts): ApiRoute[] {
  const change = (
    method: 'POST' | 'PUT' | 'DELETE',
    parameters: string[],
    answer: ApiRoute['answer'],
  ): ApiRoute => ({
    ...{ method, path, right: 'admin', parameters },
    answer: async (call) => {
      try {
        return await answer(call);
      } catch (error) {
        throw counterProblem(parts.storeAdmin, error);
      }
    },
  });
  return [
    {
      method: 'GET',
      path,
      right: 'read',
      parameters: ['domain', 'entry'],
      answer: async (call) => list(parts, call),
    },
    change('POST', ['dryRun'], (call) => create(parts, call)),
    change('PUT', [], (call) => replace(parts, call)),
    change('DELETE', ['id', 'domain', 'entry', 'limit'], (call) => remove(parts, call)),
  ];
}

function list({ inForce, storeAdmin, clock }: OverrideParts, { query, actor }: ApiCall): ApiAnswer {
  const domain = query.get('domain') || undefined;
  const entries = query.getAll('entry').map(entryOf);
  const shownOnes = inForce
    .all()
    .filter((one) => (domain === undefined || one.domain === domain) && actor.mayRead(one.domain))
    .filter(({ match }) => entries.length === 0 || isSameMatch(match, entries));
  const notes =
    storeAdmin.kind === 'memcache'
      ? ['BACKEND_TYPE=memcache stores no overrides: the list shows only overrides of files and objects']
      : [];
  // Stores return overrides in no particular order.
  return { lines: listLines({ inForce, clock }, shownOnes.toSorted(byAge), notes) };
}

/** Yields lines one by one. Converting ten thousand at once would delay decisions. */
function* listLines(
  { inForce, clock }: Pick<OverrideParts, 'inForce' | 'clock'>,
  overrides: readonly Override[],
  notes: readonly string[],
): Generator<string> {
  yield '{"overrides":[';
  for (const [i, one] of overrides.entries()) {
    const text = JSON.stringify(overrideJson(one, clock.nowMs(), inForce.stateOf(one)));
    yield i < overrides.length - 1 ? `${text},` : text;
  }
  yield `],${JSON.stringify({ notes }).slice(1)}`;
}

async function create(parts: OverrideParts, call: ApiCall): Promise<ApiAnswer> {
  const override = readBody(parts, call);
  const { stored, inForce } = parts;
  if (flagOf(call.query, 'dryRun')) return { body: jsonOf(parts, override) };
  const there = await stored.at(override);
  if (there !== undefined && override.effect.kind === 'grant') return once(parts, override, there.override);
  const holder =
    inForce.holderOf(override) ?? (hasEnded(parts, there?.override) ? undefined : there?.override);
  if (holder !== undefined) throw conflict(parts, holder);
  checkRoom(parts, override);
  if (!(await stored.put(override, there === undefined ? 'absent' : { is: there.text }))) {
    const other = await stored.at(override);
    if (other === undefined)
      throw new ApiProblem(409, 'another client changed an override of the same match: try again');
    if (override.effect.kind === 'grant') return once(parts, override, other.override);
    throw conflict(parts, other.override);
  }
  return { status: 201, body: reported(parts, call, override, '') };
}

/** The same id again means the same grant. */
function once(parts: OverrideParts, asked: Override, there: Override): ApiAnswer {
  if (effectWords(asked.effect) !== effectWords(there.effect))
    throw new ApiProblem(
      409,
      `the grant ${shown(there.id)} already exists, with ${effectWords(there.effect)}`,
      {
        conflictsWith: jsonOf(parts, there),
      },
    );
  return { body: jsonOf(parts, there) };
}

async function replace(parts: OverrideParts, call: ApiCall): Promise<ApiAnswer> {
  const override = readBody(parts, call);
  if (override.effect.kind === 'grant')
    throw new ApiProblem(400, 'use POST for a grant: it cannot replace anything');
  const holder = parts.inForce.holderOf(override);
  if (holder !== undefined && holder.source !== 'api') throw conflict(parts, holder);
  const there = await parts.stored.at(override);
  if (there === undefined) checkRoom(parts, override);
  await parts.stored.put(override, 'always');
  const before =
    hasEnded(parts, there?.override) || there === undefined ? '' : effectWords(there.override.effect);
  return { body: reported(parts, call, override, before) };
}

async function remove(parts: OverrideParts, call: ApiCall): Promise<ApiAnswer> {
  const { query, actor } = call;
  const id = query.get('id') || undefined;
  const domain = query.get('domain') || undefined;
  const entries = query.getAll('entry').map(entryOf);
  if (id === undefined && (domain === undefined || entries.length === 0))
    throw new ApiProblem(400, 'expected ?id=<id>, or ?domain=<domain>&entry=<key=value>');
  await parts.stored.read();
  const found = parts.inForce.all().filter((one) => {
    if (hasEnded(parts, one) || (id !== undefined && ![one.id, one.name].includes(id))) return false;
    // An id must not reveal the overrides of other callers.
    if (id !== undefined && !mayKnow(actor, one)) return false;
    if (id === undefined && one.effect.kind === 'grant') return false;
    if (domain !== undefined && one.domain !== domain) return false;
    if (query.has('limit') && one.limit !== query.get('limit')) return false;
    return entries.length === 0 || isSameMatch(one.match, entries);
  });
  for (const one of found) checkDomain(actor, one.domain, 'admin');
  const kept = found.filter(({ source }) => source === 'api');
  if (kept.length === 0 && found.length > 0) throw conflict(parts, found[0]!);
  if (kept.length === 0) throw new ApiProblem(404, absenceText(parts, { id, domain, entries }));
  const texts = new Map(kept.map((one) => [one, jsonOf(parts, one)]));
  const gone = new Set(await parts.stored.remove(kept));
  if (gone.size === 0)
    throw new ApiProblem(
      409,
      'another client replaced or removed it: "weir override list" shows all overrides',
    );
  for (const one of gone)
    parts.report({
      ...{ actor, what: 'override-removed', domain: one.domain, target: targetOf(one) },
      ...{ before: effectWords(one.effect), after: '' },
    });
  return { body: { removed: Array.from(gone, (one) => texts.get(one)) } };
}

/**
 * Returns the text for an absent override. There can be several grants for the same entries, so entries alone do not identify a grant.
 */
function absenceText(
  parts: OverrideParts,
  { id, domain, entries }: { id: string | undefined; domain: string | undefined; entries: Override['match'] },
): string {
  const grants = parts.inForce
    .all()
    .filter(
      (one) =>
        one.effect.kind === 'grant' &&
        !hasEnded(parts, one) &&
        one.domain === domain &&
        isSameMatch(one.match, entries),
    );
  if (id === undefined && grants.length > 0)
    return `these entries have only grants, which are removed by their IDs: ${grants.map((one) => one.id).join(', ')}`;
  return 'there is no such override: "weir override list" shows all overrides';
}

function readBody(parts: OverrideParts, { body, actor }: ApiCall): Override {
  const { clock, maxSeconds, rules, settings, stored, storeAdmin } = parts;
  if (storeAdmin.kind === 'memcache')
    throw new ApiProblem(
      501,
      'memcached stores no overrides: use files (OVERRIDES_DIR) or objects, or count in Redis',
    );
  const nowMs = clock.nowMs();
  const by = actor.claims === '' ? actor.name : `${actor.claims} (${actor.name})`;
  const { override, problems } = readOverride(body, {
    ...{
      source: 'api',
      id: randomUUID(),
      createdMs: nowMs,
      by,
      fromMs: nowMs,
      maxSeconds,
      rejectsPast: true,
    },
  });
  if (problems !== undefined) {
    const texts = problems.map(formatManifestError);
    throw new ApiProblem(400, `the override is not valid: ${texts.join('; ')}`, { problems: texts });
  }
  checkDomain(actor, override.domain, 'admin');
  const other = stored.all.find(({ id }) => id === override.id);
  if (other !== undefined && overridePlace(other) !== overridePlace(override))
    throw new ApiProblem(
      409,
      `there is another override with the id ${shown(override.id)}`,
      mayKnow(actor, other) ? { conflictsWith: jsonOf(parts, other) } : {},
    );
  const table = rules();
  if (override.effect.kind !== 'grant') return override;
  // It ends with the current window of its rule.
  const limits = table === undefined ? [] : limitsOf(override, table);
  const problem = table === undefined ? 'no rules are in force yet' : ruleProblem(override, table, limits);
  if (problem !== undefined) throw new ApiProblem(400, `a grant is not possible: ${problem}`);
  const limit =
    limits.find((one) => override.limit === '' || override.limit === limitLabel(limits, one)) ?? limits[0]!;
  return { ...override, endsMs: grantEndMs(override, limit, settings) };
}

function mayKnow(actor: ApiCall['actor'], { domain }: Override): boolean {
  return actor.mayRead(domain) || actor.mayChange(domain);
}

function checkRoom({ stored, max, clock }: OverrideParts, override: Override): void {
  const nowMs = clock.nowMs();
  const living = stored.all.filter(({ endsMs }) => endsMs === undefined || endsMs > nowMs).length;
  if (living < max) return;
  throw new ApiProblem(
    429,
    `there are ${living} overrides, and there can be ${max} (OVERRIDES_MAX): ${targetOf(override)} is not set`,
  );
}

function conflict(parts: OverrideParts, holder: Override): ApiProblem {
  const where = {
    api: 'PUT replaces it, DELETE removes it',
    object: `change the RateLimitOverride ${holder.name.replace(/^override\//, '')}`,
    file: `change the file: ${holder.name}`,
  };
  return new ApiProblem(
    409,
    `${targetOf(holder)} is ${effectWords(holder.effect)} already, by ${holder.source} ${holder.name}: ${where[holder.source]}`,
    {
      conflictsWith: jsonOf(parts, holder),
    },
  );
}

function hasEnded({ clock }: OverrideParts, override: Override | undefined): boolean {
  return override?.endsMs !== undefined && override.endsMs <= clock.nowMs();
}

function reported(parts: OverrideParts, { actor }: ApiCall, override: Override, before: string): unknown {
  const json = jsonOf(parts, override);
  const ends = json['endsAt'] === null ? 'permanent' : `until ${json['endsAt']}`;
  parts.report({
    actor,
    what: override.effect.kind === 'grant' ? 'grant-given' : 'override-set',
    domain: override.domain,
    target: targetOf(override),
    before,
    after: `${effectWords(override.effect)}, ${ends}: ${override.reason}`,
  });
  return json;
}

/** Returns the override as the limiter knows it now, after it read it from the store. */
function jsonOf({ inForce, clock }: OverrideParts, override: Override): Record<string, unknown> {
  const known =
    inForce.all().find(({ id, source }) => id === override.id && source === override.source) ?? override;
  return overrideJson(known, clock.nowMs(), inForce.stateOf(known));
}

function targetOf({ match, limit }: Override): string {
  const entries = match.map(({ key, value }) => `${key}=${value}`).join(' ');
  return limit === '' ? entries : `${entries} limit ${limit}`;
}

function isSameMatch(match: Override['match'], entries: Override['match']): boolean {
  return (
    match.length === entries.length &&
    match.every(({ key, value }, n) => key === entries[n]!.key && value === entries[n]!.value)
  );
}
