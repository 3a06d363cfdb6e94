/**
 * Checks whether an Envoy and the rules fit together: it finds descriptors that no rule matches, rules that no descriptor
 * reaches, and lists of `rate_limits` that Envoy never reads. An unknown part may be anything, so every finding is certain.
 */
import type { KindsOf } from '../finding-kinds.ts';
import { ruleName } from '../review/explain-descriptor.ts';
import type { LocatedSource } from '../review/review-sources.ts';
import { type PlacedRule, placedRules } from '../review/rule-level.ts';
import { similarNameHint } from '../rule-error.ts';
import type {
  ConnectionManager,
  EnvoyConfiguration,
  EnvoyText,
  PerRoute,
  PlacedRateLimit,
  RateLimitFilter,
  RouteSite,
} from './envoy-configuration.ts';
import { hasEffect, valueFor } from './needed-rate-limits.ts';
import {
  entryName,
  firstFew,
  isUnknown,
  keysOf,
  markerOf,
  unmatchedWords,
  variantsOf,
  walk,
} from './possible-rules.ts';
import type { EnvoyPlace } from './proto-json.ts';
import { reviewQuotaFilters } from './quota-filters.ts';

/** A finding, with its place in the Envoy's file or in a file of rules. */
export interface EnvoyFinding {
  severity: 'error' | 'warning';
  code: KindsOf<'proxy' | 'quota filter'>;
  file: string;
  line: number | undefined;
  column: number | undefined;
  text: string;
  hint: string | undefined;
}

/** A list of `rate_limits` that a filter asks for, under a domain: undefined where that is not known. */
interface Asked {
  domain: EnvoyText | undefined;
  item: PlacedRateLimit;
}

/**
 * Rules that descriptors may find: before requests and when they are over. For rules with `reserve`, those that are committed and
 * those that reserve.
 */
interface Reached {
  now: Set<string>;
  later: Set<string>;
  committed: Set<string>;
  reserved: { rules: PlacedRule[]; place: EnvoyPlace }[];
}

export function reviewEnvoy(
  configuration: EnvoyConfiguration,
  sources: readonly LocatedSource[],
): { findings: EnvoyFinding[]; isOpen: boolean } {
  const review = new EnvoyReview(configuration, sources);
  return { findings: review.findings(), isOpen: review.isOpen };
}

class EnvoyReview {
  readonly #configuration: EnvoyConfiguration;
  readonly #sources: readonly LocatedSource[];
  /** Findings by what they report, so that a mistake that is in many routes is reported once. */
  readonly #findings = new Map<string, { finding: EnvoyFinding; places: Set<string> }>();
  readonly #asked = new Map<string, Asked>();
  readonly #used = new Set<PlacedRateLimit>();
  /** True if there may be more requests than the input shows, so that no rule counts as unreached. */
  isOpen = false;

  constructor(configuration: EnvoyConfiguration, sources: readonly LocatedSource[]) {
    this.#configuration = configuration;
    this.#sources = sources;
  }

  findings(): EnvoyFinding[] {
    const { managers, problems } = this.#configuration;
    for (const { place, code, text } of problems) this.#error(code, place, text);
    if (problems.length > 0) this.isOpen = true;
    for (const manager of managers) this.#manager(manager);
    this.#rules();
    return [...this.#findings.values()].map(({ finding, places: { size } }) => {
      const more = size > 1 ? ` (and in ${size - 1} more ${size === 2 ? 'place' : 'places'})` : '';
      return { ...finding, text: finding.text + more };
    });
  }

  readonly #error = this.#report.bind(this, 'error');
  readonly #warning = this.#report.bind(this, 'warning');

  #report(
    severity: EnvoyFinding['severity'],
    code: EnvoyFinding['code'],
    { file, line, column }: Pick<EnvoyFinding, 'file' | 'line' | 'column'>,
    text: string,
    hint?: string,
  ): void {
    const place = `${file}:${line}:${column}`;
    const reported = this.#findings.get(`${code} ${text}`);
    if (reported !== undefined) reported.places.add(place);
    else {
      const finding = { severity, code, file, line, column, text, hint };
      this.#findings.set(`${code} ${text}`, { finding, places: new Set([place]) });
    }
  }

  #manager({ filters, sites, isComplete, origin }: ConnectionManager): void {
    const [first] = sites.flatMap(limitsOf);
    if (filters.length === 0 && origin === 'manager') {
      if (first !== undefined) {
        const text = 'these rate_limits limit nothing: there is no rate limit filter before the routes';
        this.#error('unread-rate-limits', first.place, text, filterHint);
      }
      return;
    }
    if (filters.length === 0 && origin === 'routes' && first !== undefined) {
      const text = 'the input has no rate limit filter, so its domain, stage and name are not checked';
      this.#warning('no-rate-limit-filter', first.place, text, 'add its file with another --envoy');
    }
    if (!isComplete && filters.length > 0) this.isOpen = true;
    const asking = filters.length > 0 ? filters : [anyFilter];
    for (const filter of asking) this.#filter(filter, sites, isComplete);
    if (filters.length > 0) this.#unread(filters, sites);
  }

  #filter(filter: RateLimitFilter, sites: readonly RouteSite[], isComplete: boolean): void {
    this.#service(filter);
    const before = this.#asked.size;
    let isAsked = false;
    for (const site of sites) {
      if (!site.isForwarded) continue;
      const perRoute = perRouteOf(site, filter);
      if (perRoute?.isDisabled === true) continue;
      const domain = perRoute?.domain ?? filter.domain;
      for (const item of itemsAsked(filter, site, perRoute)) {
        isAsked = true;
        this.#used.add(item);
        const key = JSON.stringify([domain?.text, item.config.actions, item.config.onStreamDone, item.place]);
        this.#asked.set(key, { domain, item });
        this.#disabled(item);
      }
    }
    if (isAsked || !isComplete || filter === anyFilter || this.#asked.size > before) return;
    const text = `the rate limit filter "${filter.name}" limits nothing: no route has rate_limits for it`;
    const hint = '"weir envoy" writes the rate_limits that rules need';
    this.#error('filter-without-rate-limits', filter.place, text, hint);
  }

  /** The cluster of the limiter, and what turns the filter off. */
  #service({ name, service, place, enabledPercent, enforcedPercent }: RateLimitFilter): void {
    const { clusters, hasAllClusters, runtime } = this.#configuration;
    const enabled = enabledPercent ?? percent(runtime.get('ratelimit.http_filter_enabled'));
    if (enabled === 0)
      this.#error('rate-limits-off', place, `the rate limit filter "${name}" is off: enabled for 0%`);
    const enforced = enforcedPercent ?? percent(runtime.get('ratelimit.http_filter_enforcing'));
    if (enforced === 0)
      this.#warning(
        'rate-limits-off',
        place,
        `the rate limit filter "${name}" limits nothing: enforced for 0%`,
      );
    if (service === undefined) return;
    if (service.version !== 'V3' && service.version !== 2) {
      const text = `the rate limit filter "${name}" does not set transport_api_version: V3`;
      this.#error(
        'rate-limit-service',
        service.place,
        text,
        'Envoy rejects any other value, and a missing one',
      );
    }
    if (service.cluster === undefined) return;
    const cluster = clusters.get(service.cluster);
    if (service.cluster.startsWith('outbound|') && !service.hasAuthority) {
      const text = `the rate limit filter "${name}" has no authority: a sidecar before the limiter rejects that of "${service.cluster}", and all requests pass`;
      const hint = `envoy_grpc needs authority: ${service.cluster.split('|').at(-1)}`;
      this.#warning('rate-limit-service', service.place, text, hint);
    }
    if (cluster?.isIpv6Loopback === true) {
      const text = `the cluster "${service.cluster}" of the limiter uses ::1 for localhost, where limiters do not listen by default: all requests pass`;
      const hint = 'dns_lookup_family: V4_PREFERRED, or the address 127.0.0.1';
      this.#warning('rate-limit-service', cluster.place, text, hint);
    }
    if (cluster?.isHttp2 === false) {
      const text = `the cluster "${service.cluster}" of the limiter has no HTTP/2, so no request reaches the limiter`;
      const hint =
        'typed_extension_protocol_options with explicit_http_config: { http2_protocol_options: {} }';
      this.#error('rate-limit-service', cluster.place, text, hint);
    } else if (cluster === undefined && hasAllClusters) {
      const near = similarNameHint(service.cluster, [...clusters.keys()]);
      const text = `there is no cluster "${service.cluster}" for the rate limit filter "${name}"${near}`;
      this.#error('rate-limit-service', service.place, text);
    }
  }

  #disabled({ config: { disableKey }, place }: PlacedRateLimit): void {
    const key = `ratelimit.${disableKey}.http_filter_enabled`;
    if (disableKey === '' || percent(this.#configuration.runtime.get(key)) !== 0) return;
    this.#error('rate-limits-off', place, `this limits nothing: ${key} is 0 in the runtime`);
  }

  /** Reports lists that no filter reads, with the reason, and lists that others hide on some routes. */
  #unread(filters: readonly RateLimitFilter[], sites: readonly RouteSite[]): void {
    const names = new Set(filters.map(({ name }) => name));
    for (const site of sites) {
      for (const one of site.perRoutes) {
        if (names.has(one.filterName) || filters.some(({ domain }) => domain === undefined)) continue;
        const near = [...names].map((name) => `"${name}"`).join(', ');
        const text = `no rate limit filter is called "${one.filterName}", so no filter reads this`;
        this.#error('unread-rate-limits', one.place, text, `the filter is called ${near}`);
        for (const item of one.rateLimits) this.#used.add(item);
      }
    }
    // Routes to clusters first: why they do not read a list of their host says more.
    const byUse = sites.toSorted((a, b) => Number(b.isForwarded) - Number(a.isForwarded));
    const reported = new Set<PlacedRateLimit>();
    for (const site of byUse) {
      for (const item of limitsOf(site)) {
        if (this.#used.has(item) || reported.has(item)) continue;
        reported.add(item);
        const why = this.#whyUnread(item, filters, site);
        this.#error('unread-rate-limits', item.place, `this limits nothing: ${why}`);
      }
    }
    for (const filter of filters) {
      for (const item of filter.rateLimits) {
        if (this.#used.has(item) || sites.length === 0) continue;
        this.#error(
          'unread-rate-limits',
          item.place,
          `this limits nothing: all routes have rate_limits of their own`,
        );
      }
    }
    this.#hiddenHosts(filters, sites);
  }

  #whyUnread(
    { config: { stage }, isEmbedded }: PlacedRateLimit,
    filters: readonly RateLimitFilter[],
    site: RouteSite,
  ): string {
    if (!site.isForwarded) return 'Envoy asks about routes that go to a cluster, and about no others';
    if (!isEmbedded && !filters.some((filter) => filter.stage === undefined || filter.stage === stage)) {
      const stages = [...new Set(filters.map((filter) => filter.stage))].join(', ');
      return `it is for filters of stage ${stage}, and the filter has stage ${stages}`;
    }
    const hiding = site.perRoutes.find(({ rateLimits }) => rateLimits.length > 0);
    if (hiding !== undefined)
      return `the rate_limits of a RateLimitPerRoute${onLine(hiding.place)} replace it`;
    if (filters.some(({ rateLimits }) => rateLimits.length > 0))
      return 'the rate_limits of the filter itself replace it';
    return `rate_limits of the route${site.own[0] ? onLine(site.own[0].place) : ''} replace it`;
  }

  /** Reports hidden lists of hosts. If a route decides about its host's list, that is intended. */
  #hiddenHosts(filters: readonly RateLimitFilter[], sites: readonly RouteSite[]): void {
    for (const site of sites) {
      const [first] = site.host.filter((item) => this.#used.has(item));
      if (first === undefined || site.own.length === 0 || site.includesHost || !site.isForwarded) continue;
      const perRoutes = filters.map((filter) => perRouteOf(site, filter));
      if (
        perRoutes.some(
          (one) => one !== undefined && (one.hostOption !== undefined || one.rateLimits.length > 0),
        )
      )
        continue;
      const text = `the rate_limits of the virtual host are not read here: those of the route replace them`;
      const hint =
        'vh_rate_limits: INCLUDE in a RateLimitPerRoute takes both; OVERRIDE shows that this is intended';
      this.#warning('shadowed-rate-limits', site.own[0]!.place, text, hint);
    }
  }

  #rules(): void {
    const tops = new Map<string, PlacedRule[]>();
    for (const [index, { source }] of this.#sources.entries()) {
      const top = tops.get(source.domain) ?? [];
      tops.set(source.domain, [...top, ...placedRules(source.descriptors, index, [])]);
    }
    const reached: Reached = { now: new Set(), later: new Set(), committed: new Set(), reserved: [] };
    const domains = new Set<string>();
    for (const asked of this.#asked.values()) {
      const { domain, item } = asked;
      if (domain !== undefined) domains.add(domain.text);
      if (domain !== undefined && !tops.has(domain.text)) this.#unknownDomain(domain, [...tops.keys()]);
      else
        this.#descriptor(
          asked,
          domain === undefined ? [...tops.values()] : [tops.get(domain.text)!],
          reached,
        );
      if (item.config.actions.some(isUnknown)) this.isOpen = true;
    }
    const buckets = reviewQuotaFilters(this.#configuration.quotaFilters, tops, this.#report.bind(this));
    if (buckets.isOpen) this.isOpen = true;
    for (const [domain, place] of buckets.domains)
      if (!tops.has(domain)) this.#unknownDomain({ text: domain, place }, [...tops.keys()]);
    if (this.isOpen) return;
    for (const rule of buckets.rules) reached.now.add(idOf(rule));
    this.#neverCommitted(reached);
    const isAnyAsked = [...this.#asked.values()].some(({ domain }) => domain === undefined);
    for (const [domain, top] of tops) {
      if (isAnyAsked || domains.has(domain)) this.#unreached(domain, top, reached, 'descriptor');
      else if (buckets.domains.has(domain)) this.#unreached(domain, top, reached, 'bucket');
      else this.#unaskedDomain(domain);
    }
  }

  #unknownDomain({ text, place }: EnvoyText, known: string[]): void {
    const message = `no rules have the domain "${text}": nothing is limited${similarNameHint(text, known)}`;
    this.#error('domain-without-rules', place, message, `there are rules of ${firstFew(known)}`);
  }

  #unaskedDomain(domain: string): void {
    const source = this.#sources.findIndex((one) => one.source.domain === domain);
    const text = `no rate limit filter asks for the domain "${domain}"`;
    this.#warning('unused-domain', this.#placeIn({ source, path: ['domain'] }), text);
  }

  /** Returns the place of a rule in its file. */
  #placeIn({ source, path }: Pick<PlacedRule, 'source' | 'path'>) {
    const { file, placeOf } = this.#sources[source]!;
    return { file, ...(placeOf(path) ?? { line: undefined, column: undefined }) };
  }

  #descriptor({ item }: Asked, tops: readonly PlacedRule[][], reached: Reached): void {
    const { config, place } = item;
    const variants = variantsOf(config);
    if (variants === undefined) return;
    const ways = variants.flatMap((entries) => tops.map((top) => walk(top, entries)));
    const found = ways.flatMap((way) => way.found);
    for (const rule of found) (config.onStreamDone ? reached.later : reached.now).add(idOf(rule));
    const marker = markerOf(config);
    const rules = found.filter(({ rule }) => rule.reserve !== undefined);
    if (marker === 'settles') for (const rule of rules) reached.committed.add(idOf(rule));
    if (marker === 'reserves') reached.reserved.push({ rules, place });
    if (config.hasOwnLimit || found.some(({ rule }) => rule.limits.length > 0)) return;
    const names = variants[0]!.map(entryName).join(', ');
    if (found.length > 0) {
      // Left out on purpose, if it goes no further.
      const isMeant = found.some(({ rule }) => rule.descriptors.length === 0);
      const text = `this limits nothing: ${ruleName(found[0]!)} has no limit for the descriptor (${names})`;
      const hint = isMeant
        ? undefined
        : `it has rules below it: ${keysOf(placedRules(found[0]!.rule.descriptors, 0, []))}`;
      this.#report(isMeant ? 'warning' : 'error', 'unmatched-descriptor', place, text, hint);
      return;
    }
    const deepest = ways.reduce((a, b) => (b.depth > a.depth ? b : a));
    this.#error(
      'unmatched-descriptor',
      // If no entry is left out, entries have the order of the actions.
      variants.length === 1 ? item.placeOfAction(deepest.depth) : item.place,
      ...unmatchedWords(names, variants[0]!, deepest),
    );
  }

  #neverCommitted({ reserved, committed }: Reached): void {
    for (const { rules, place } of reserved) {
      const open = rules.filter((rule) => !committed.has(idOf(rule)));
      if (open.length === 0) continue;
      const end = open.every(({ rule }) => rule.reserve?.onExpiry === 'charge')
        ? 'stays charged'
        : 'is released';
      const text = `this reserves, but no request commits: the whole amount ${end} after the ttl of ${firstFew(open.map(ruleName))}`;
      const hint = 'add the same actions with "settle" and apply_on_stream_done, as "weir envoy" writes them';
      this.#warning('never-committed', place, text, hint);
    }
  }

  /** Reports unreached rules. Rules of the same keys are reported together. */
  #unreached(
    domain: string,
    top: readonly PlacedRule[],
    reached: Reached,
    asked: 'descriptor' | 'bucket',
  ): void {
    const groups = new Map<string, { first: PlacedRule; keys: string[]; count: number; isLater: boolean }>();
    const visit = (level: readonly PlacedRule[], above: string[]): void => {
      const rules = level.map(({ rule }) => rule);
      for (const placed of level) {
        const { rule, source, path } = placed;
        const keys = [...above, rule.key];
        const isReached = reached.now.has(idOf(placed));
        const isLater = reached.later.has(idOf(placed));
        const id = JSON.stringify([keys, isLater]);
        const group = groups.get(id);
        const counts = hasEffect(rule) && !isReached;
        if (counts && group !== undefined) group.count++;
        const isNew = counts && group === undefined;
        if (!isNew && rule.descriptors.length === 0) continue;
        // Another finding reports rules that the matcher never takes.
        if (valueFor(rules, rule) === undefined) continue;
        if (isNew) groups.set(id, { first: placed, keys, count: 1, isLater });
        visit(placedRules(rule.descriptors, source, path), keys);
      }
    };
    visit(top, []);
    for (const { first, keys, count, isLater } of groups.values()) {
      const place = this.#placeIn(first);
      const others = count > 1 ? `, nor ${count - 1} more of these keys` : '';
      const list = keys.join(', ');
      if (isLater) {
        const text = `descriptors of (${list}) are charged after requests, so by themselves they limit nothing`;
        this.#warning('charged-later', place, text);
      } else {
        const text = `no ${asked} (${list}) of the domain "${domain}" reaches this rule${others}`;
        if (asked === 'bucket') this.#warning('unreached-rule', place, text);
        else this.#error('unreached-rule', place, text, `"weir envoy" writes the rate_limits for it`);
      }
    }
  }
}

const filterHint =
  'http_filters needs envoy.filters.http.ratelimit before the router: see "weir envoy --output filter"';

/** Stands for a filter that was not given. */
const anyFilter: RateLimitFilter = {
  name: '',
  domain: undefined,
  stage: undefined,
  rateLimits: [],
  service: undefined,
  enabledPercent: undefined,
  enforcedPercent: undefined,
  place: { file: '', line: 1, column: 1 },
};

function limitsOf({ own, host, perRoutes }: RouteSite): PlacedRateLimit[] {
  return [...own, ...host, ...perRoutes.flatMap(({ rateLimits }) => rateLimits)];
}

function perRouteOf({ perRoutes }: RouteSite, filter: RateLimitFilter): PerRoute | undefined {
  return perRoutes.find(({ filterName }) => filter === anyFilter || filterName === filter.name);
}

/**
 * Chooses as the filter of Envoy 1.40 does: the list of the RateLimitPerRoute, its own, or those of the route and the host of
 * its stage.
 */
function itemsAsked(
  filter: RateLimitFilter,
  site: RouteSite,
  perRoute: PerRoute | undefined,
): PlacedRateLimit[] {
  if (perRoute !== undefined && perRoute.rateLimits.length > 0) return perRoute.rateLimits;
  if (filter.rateLimits.length > 0) return filter.rateLimits;
  const option = site.includesHost ? 'INCLUDE' : (perRoute?.hostOption ?? 'OVERRIDE');
  const isHostRead = option === 'INCLUDE' || (option === 'OVERRIDE' && site.own.length === 0);
  const items = [...site.own, ...(isHostRead ? site.host : [])];
  return items.filter(({ config }) => filter.stage === undefined || config.stage === filter.stage);
}

function percent(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

function onLine({ line }: EnvoyPlace): string {
  return ` on line ${line}`;
}

function idOf({ source, path }: PlacedRule): string {
  return `${source} ${path.join(' ')}`;
}
