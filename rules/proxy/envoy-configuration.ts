/**
 * The parts of an Envoy configuration that concern the limiter: rate limit filters, the routes behind them with all their
 * `rate_limits`, and clusters. They can be anywhere in a bootstrap file, a dump of `/config_dump`, Istio's EnvoyFilters, or a
 * part of any of them. Names are snake_case or camelCase, as in protobuf's JSON.
 */

import { documentTexts, readManifestDocument } from '../reader/read-manifests.ts';
import { type PathProblem, valuePlacer } from '../yaml/places.ts';
import { type EnvoyPlace, ProtoValue } from './proto-json.ts';
import { type QuotaFilter, quotaFilters } from './quota-filters.ts';
import { type RateLimitConfig, readRateLimits } from './read-actions.ts';

export interface EnvoyText {
  text: string;
  place: EnvoyPlace;
}

/** One item of `rate_limits`. */
export interface PlacedRateLimit {
  config: RateLimitConfig;
  place: EnvoyPlace;
  placeOfAction(index: number): EnvoyPlace;
  /** A rate limit of a RateLimitPerRoute or the filter, which has neither stage nor disable_key. */
  isEmbedded: boolean;
}

/** The RateLimitPerRoute of a filter, on any level of a route configuration. */
export interface PerRoute {
  filterName: string;
  isDisabled: boolean;
  domain: EnvoyText | undefined;
  rateLimits: PlacedRateLimit[];
  hostOption: 'OVERRIDE' | 'INCLUDE' | 'IGNORE' | undefined;
  place: EnvoyPlace;
}

export interface RateLimitFilter {
  name: string;
  /** Undefined if the filter was not given. It may then be any filter. */
  domain: EnvoyText | undefined;
  stage: number | undefined;
  rateLimits: PlacedRateLimit[];
  service:
    | { version: unknown; cluster: string | undefined; hasAuthority: boolean; place: EnvoyPlace }
    | undefined;
  /** The percentages of all requests for which the filter is enabled and which it rejects, if they are fixed. */
  enabledPercent: number | undefined;
  enforcedPercent: number | undefined;
  place: EnvoyPlace;
}

/** The requests of one route, and what is configured for them. */
export interface RouteSite {
  /** True if the route leads to a cluster. Envoy asks about no others. */
  isForwarded: boolean;
  own: PlacedRateLimit[];
  host: PlacedRateLimit[];
  includesHost: boolean;
  /** The filter's overrides of the cluster, the route, the host and the configuration. The first that names a filter applies. */
  perRoutes: PerRoute[];
  place: EnvoyPlace;
}

/** A connection manager: its filters, and the routes behind them. */
export interface ConnectionManager {
  filters: RateLimitFilter[];
  sites: RouteSite[];
  /** True if there are no other routes and filters than these. */
  isComplete: boolean;
  /** Loose parts were combined: filters and route configurations that are separate, or single lists. */
  origin: 'manager' | 'routes' | 'part';
}

export interface EnvoyCluster {
  isHttp2: boolean;
  /** True if the cluster resolves `localhost`, and connects to ::1 alone if that exists. */
  isIpv6Loopback: boolean;
  place: EnvoyPlace;
}

export interface EnvoyConfiguration {
  managers: ConnectionManager[];
  quotaFilters: QuotaFilter[];
  clusters: Map<string, EnvoyCluster>;
  /** True if there are no other clusters. */
  hasAllClusters: boolean;
  /** Flat keys of Envoy's static runtime. */
  runtime: Map<string, unknown>;
  problems: {
    place: EnvoyPlace;
    code: 'syntax' | 'invalid-rate-limit' | 'no-rate-limit-filter';
    text: string;
  }[];
}

/** Reads the files of one Envoy, or of Envoys that have the same routes. Never throws. */
export function readEnvoyConfiguration(files: readonly { path: string; text: string }[]): EnvoyConfiguration {
  const reader = new ConfigurationReader();
  for (const { path, text } of files) reader.file(path, text);
  const configuration = reader.configuration();
  const { managers, quotaFilters: quotas, problems } = configuration;
  const [first] = files;
  const isLimiting = managers.some(({ filters, sites }) => filters.length > 0 || sites.some(hasLimits));
  if (!isLimiting && quotas.length === 0 && first !== undefined && problems.length === 0) {
    const place = { file: first.path, line: 1, column: 1 };
    const text = 'nothing to compare: the input has neither a rate limit filter nor rate_limits of Envoy';
    problems.push({ place, code: 'no-rate-limit-filter', text });
  }
  return configuration;
}

function hasLimits({ own, host, perRoutes }: RouteSite): boolean {
  return own.length > 0 || host.length > 0 || perRoutes.length > 0;
}

/** A part of a route configuration that is not in a connection manager. */
interface LooseRoutes {
  name: string | undefined;
  sites: RouteSite[];
  /** True if the input was complete: a route configuration, and not some lines of one. */
  isWhole: boolean;
}

class ConfigurationReader {
  readonly #managers: (ConnectionManager & { routeName: string | undefined })[] = [];
  readonly #filters: RateLimitFilter[] = [];
  readonly #quotaFilters: QuotaFilter[] = [];
  readonly #routes: LooseRoutes[] = [];
  readonly #clusters = new Map<string, EnvoyCluster>();
  readonly #runtime = new Map<string, unknown>();
  readonly #problems: EnvoyConfiguration['problems'] = [];
  #hasAllClusters = false;
  #hasOtherClusters = false;

  file(file: string, text: string): void {
    for (const document of documentTexts(text)) {
      const yaml = readManifestDocument(document.text);
      if (yaml.ok) {
        const placeOf = valuePlacer(yaml.tape, document.firstLine);
        const root = new ProtoValue(yaml.value, (path) => ({ file, ...placeOf(path) }));
        this.#any(root);
        this.#quotaFilters.push(...quotaFilters(root));
      } else if (!yaml.empty) {
        const place = { file, line: yaml.line + document.firstLine - 1, column: yaml.column };
        this.#problems.push({ place, code: 'syntax', text: yaml.text });
      }
    }
  }

  /**
   * Returns the configuration. Separate routes belong to the managers that name them. The other routes belong to the separate
   * filters.
   */
  configuration(): EnvoyConfiguration {
    const claimed = new Set<LooseRoutes>();
    for (const manager of this.#managers) {
      if (manager.filters.length === 0) manager.filters.push(...this.#filters);
      if (manager.routeName === undefined) continue;
      const named = this.#routes.filter(({ name }) => name === manager.routeName);
      for (const routes of named) claimed.add(routes);
      manager.sites.push(...named.flatMap(({ sites }) => sites));
      if (named.length > 0) manager.isComplete = true;
    }
    const loose = this.#routes.filter((routes) => !claimed.has(routes));
    const managers: ConnectionManager[] = [...this.#managers];
    if (loose.length > 0 || (this.#filters.length > 0 && managers.length === 0)) {
      const filters = this.#filters.length > 0 ? this.#filters : managers.flatMap((one) => one.filters);
      const sites = loose.flatMap((routes) => routes.sites);
      const origin = loose.some(({ isWhole }) => isWhole) ? 'routes' : 'part';
      managers.push({ filters: [...filters], sites, isComplete: sites.length > 0, origin });
    }
    return {
      managers,
      quotaFilters: this.#quotaFilters,
      clusters: this.#clusters,
      hasAllClusters: this.#hasAllClusters && !this.#hasOtherClusters,
      runtime: this.#runtime,
      problems: this.#problems,
    };
  }

  #any(given: ProtoValue): void {
    const isConfiguration = ['rate_limits', 'typed_per_filter_config'].some((name) => given.has(name));
    if (given.get('kind') === 'EnvoyFilter') this.#envoyFilter(given);
    else if (Array.isArray(given.get('configs'))) this.#dump(given.list('configs'));
    else if (given.list('http_filters').length > 0) this.#manager(given);
    else if (given.list('virtual_hosts').length > 0)
      this.#loose(this.#configurationSites(given), true, given.get('name'));
    else if (isRateLimitFilter(given)) this.#filters.push(this.#filter(given));
    else if (given.typeUrl.endsWith('.config.cluster.v3.Cluster')) this.#cluster(given);
    else if (isConfiguration) this.#loose([this.#fragment(given)], false);
    else for (const one of given.members()) this.#any(one);
    this.#resources(given);
  }

  /** Reads clusters and runtime, which can be beside other resources. */
  #resources(given: ProtoValue): void {
    const clusters = given.list('clusters');
    for (const one of clusters) this.#cluster(one);
    if (clusters.length > 0) this.#hasAllClusters = true;
    if (given.has('dynamic_resources')) this.#hasOtherClusters = true;
    for (const layer of given.field('layered_runtime').list('layers'))
      this.#runtimeKeys(layer.field('static_layer'), '');
  }

  #runtimeKeys(layer: ProtoValue, before: string): void {
    for (const one of layer.members()) {
      const name = `${before}${one.path.at(-1)}`;
      if (one.isObject && !one.has('numerator')) this.#runtimeKeys(one, `${name}.`);
      else this.#runtime.set(name, one.value);
    }
  }

  /** A dump says twice what is in the bootstrap: listeners and their routes. */
  #dump(configs: readonly ProtoValue[]): void {
    const isOf = (config: ProtoValue, name: string): boolean => config.typeUrl.endsWith(`.${name}`);
    const hasListeners = configs.some((config) => isOf(config, 'ListenersConfigDump'));
    this.#hasOtherClusters = true;
    for (const config of configs) {
      const bootstrap = config.field('bootstrap');
      if (hasListeners && bootstrap.isObject) {
        this.#resources(bootstrap);
        continue;
      }
      const skipped = hasListeners && isOf(config, 'RoutesConfigDump') ? 'static_route_configs' : '';
      for (const one of config.members()) if (one.path.at(-1) !== skipped) this.#any(one);
    }
  }

  #envoyFilter(object: ProtoValue): void {
    for (const one of object.field('spec').list('config_patches')) {
      const [applyTo, patch] = [one.get('apply_to'), one.field('patch')];
      const value = patch.field('value');
      if (!value.isObject || patch.get('operation') === 'REMOVE') continue;
      if (applyTo === 'CLUSTER') this.#cluster(value);
      else if (applyTo === 'HTTP_ROUTE') this.#loose(this.#routeSites(value, [], []));
      else if (applyTo === 'VIRTUAL_HOST' && value.list('routes').length > 0)
        this.#loose(this.#hostSites(value, []));
      else if (applyTo === 'VIRTUAL_HOST') this.#loose([this.#fragment(value)]);
      else this.#any(value);
    }
  }

  #manager(given: ProtoValue): void {
    const all = given.objects('http_filters');
    const filters = all.filter(isRateLimitFilter).map((one) => this.#filter(one));
    const hasOthers = all.some(
      (one) =>
        !isRateLimitFilter(one) &&
        (one.has('config_discovery') || /\.http\.ratelimit\.v3\./.test(JSON.stringify(one.value))),
    );
    const inline = given.field('route_config');
    const sites = inline.isObject ? this.#configurationSites(inline) : [];
    // The command `weir envoy` writes this form.
    if (given.has('typed_per_filter_config')) sites.push(this.#fragment(given));
    const isComplete = sites.length > 0 && !hasOthers && !inline.has('vhds');
    const routeName = given.get('rds', 'route_config_name');
    this.#managers.push({
      ...{ filters, sites, isComplete, origin: 'manager' },
      routeName: typeof routeName === 'string' ? routeName : undefined,
    });
  }

  #loose(sites: RouteSite[], isWhole = true, name?: unknown): void {
    this.#routes.push({ name: typeof name === 'string' ? name : undefined, sites, isWhole });
  }

  #configurationSites(given: ProtoValue): RouteSite[] {
    const perRoutes = this.#perRoutes(given);
    return given.objects('virtual_hosts').flatMap((host) => this.#hostSites(host, perRoutes));
  }

  #hostSites(given: ProtoValue, above: PerRoute[]): RouteSite[] {
    const host = this.#rateLimits(given, false);
    const perRoutes = [...this.#perRoutes(given), ...above];
    if (given.list('routes').length === 0) return [{ ...emptySite(given), host, perRoutes }];
    return given.objects('routes').flatMap((route) => this.#routeSites(route, host, perRoutes));
  }

  /** A route, once for each of its weighted clusters that has something of its own. */
  #routeSites(route: ProtoValue, host: PlacedRateLimit[], above: PerRoute[]): RouteSite[] {
    const action = route.field('route');
    const others = ['redirect', 'direct_response', 'non_forwarding_action', 'filter_action'];
    const perRoutes = [...this.#perRoutes(route), ...above];
    const misplaced = this.#rateLimits(route, false);
    if (route.has('rate_limits')) {
      const { place } = route.field('rate_limits');
      const text = 'a route has no rate_limits beside its match: they belong one level down, below "route:"';
      this.#problems.push({ place, code: 'invalid-rate-limit', text });
    }
    const site: RouteSite = {
      // In a part of a route, as in an EnvoyFilter, the action may be elsewhere.
      isForwarded: action.isObject || !others.some((name) => route.has(name)),
      own: [...this.#rateLimits(action, false), ...misplaced],
      host,
      includesHost: isSet(action.get('include_vh_rate_limits')),
      perRoutes,
      place: route.place,
    };
    const clusters = action.field('weighted_clusters').list('clusters');
    const ofClusters = clusters.map((one) => this.#perRoutes(one));
    if (ofClusters.every((own) => own.length === 0)) return [site];
    return ofClusters.map((own) => ({ ...site, perRoutes: [...own, ...perRoutes] }));
  }

  /** Reads a `rate_limits` or `typed_per_filter_config` that is separate. */
  #fragment(given: ProtoValue): RouteSite {
    const rateLimits = this.#rateLimits(given, false);
    const perRoutes = this.#perRoutes(given);
    const domain = domainOf(given);
    const site = emptySite(given);
    if (domain === undefined) return { ...site, host: rateLimits, perRoutes };
    // A profile of forward auth, which sets its own domain.
    const { place } = site;
    const profile = { filterName: '', isDisabled: false, hostOption: undefined, domain, rateLimits, place };
    return { ...site, perRoutes: [profile, ...perRoutes] };
  }

  #perRoutes(owner: ProtoValue): PerRoute[] {
    const configs = owner.field('typed_per_filter_config');
    if (!configs.isObject) return [];
    return configs.members().flatMap((given) => {
      const isWrapped = given.typeUrl.endsWith('.route.v3.FilterConfig');
      const isDisabled = isWrapped && isSet(given.get('disabled'));
      const own = isWrapped ? given.field('config') : given;
      if (!isOfType(own, 'RateLimitPerRoute') && !isDisabled) return [];
      const config = own.typed;
      const option = config.get('vh_rate_limits');
      const names = ['OVERRIDE', 'INCLUDE', 'IGNORE'] as const;
      return [
        {
          filterName: String(given.path.at(-1)),
          isDisabled,
          domain: domainOf(config),
          rateLimits: this.#rateLimits(config, true),
          hostOption: typeof option === 'number' ? names[option] : names.find((name) => name === option),
          place: given.place,
        },
      ];
    });
  }

  #filter(given: ProtoValue): RateLimitFilter {
    const config = given.field('typed_config').typed;
    const service = config.field('rate_limit_service');
    const grpc = service.field('grpc_service').field('envoy_grpc');
    const name = grpc.get('cluster_name');
    const cluster = typeof name === 'string' ? name : undefined;
    const hasAuthority = (grpc.get('authority') ?? '') !== '';
    const version = service.get('transport_api_version');
    return {
      name: String(given.get('name') ?? ''),
      domain: domainOf(config),
      stage: Number(config.get('stage') ?? 0),
      rateLimits: this.#rateLimits(config, true),
      service: service.isObject ? { version, cluster, hasAuthority, place: service.place } : undefined,
      enabledPercent: percentOf(config.field('filter_enabled')),
      enforcedPercent: percentOf(config.field('filter_enforced')),
      place: given.place,
    };
  }

  /** Returns the items. It reports items that Envoy would reject as problems and leaves them out. */
  #rateLimits(owner: ProtoValue, isEmbedded: boolean): PlacedRateLimit[] {
    return owner.list('rate_limits').flatMap((item) => {
      const problems: PathProblem[] = [];
      const [config] = readRateLimits([item.value], [], problems);
      for (const { path, message } of problems)
        this.#problems.push({
          place: item.placeOf(path.slice(1)),
          code: 'invalid-rate-limit',
          text: message,
        });
      if (config === undefined || problems.length > 0) return [];
      const placeOfAction = (action: number): EnvoyPlace => item.placeOf(['actions', action]);
      return [{ config, place: item.place, placeOfAction, isEmbedded }];
    });
  }

  #cluster(given: ProtoValue): void {
    const name = given.get('name');
    if (typeof name !== 'string') return;
    const http = given
      .field('typed_extension_protocol_options')
      .members()
      .map((one) => one.typed);
    const isHttp2 = http.some(
      (one) =>
        one.field('explicit_http_config').has('http2_protocol_options') ||
        ['auto_config', 'use_downstream_protocol_config'].some((option) => one.has(option)),
    );
    const isIpv6Loopback =
      ['STRICT_DNS', 'LOGICAL_DNS', 1, 2].some((type) => type === given.get('type')) &&
      ['AUTO', 'V6_ONLY', 0, 2].some((family) => family === (given.get('dns_lookup_family') ?? 'AUTO')) &&
      /"address":"localhost\.?"/i.test(JSON.stringify(given.get('load_assignment') ?? ''));
    const { place } = given;
    this.#clusters.set(name, {
      isHttp2: isHttp2 || given.has('http2_protocol_options'),
      isIpv6Loopback,
      place,
    });
  }
}

function emptySite({ place }: ProtoValue): RouteSite {
  return { isForwarded: true, own: [], host: [], includesHost: false, perRoutes: [], place };
}

function domainOf(config: ProtoValue): EnvoyText | undefined {
  const text = config.text('domain');
  return text === undefined ? undefined : { text, place: config.field('domain').place };
}

function isSet(value: unknown): boolean {
  return value === true || value === 'true';
}

function isOfType(given: ProtoValue, name: string): boolean {
  return given.typed.isObject && given.typeUrl.endsWith(`.filters.http.ratelimit.v3.${name}`);
}

function isRateLimitFilter(given: ProtoValue): boolean {
  return isOfType(given.field('typed_config'), 'RateLimit');
}

/** The numerator of a RuntimeFractionalPercent that no runtime can change. */
function percentOf(given: ProtoValue): number | undefined {
  const fraction = given.field('default_value');
  if (!fraction.isObject || given.has('runtime_key')) return undefined;
  const parts = { HUNDRED: 100, TEN_THOUSAND: 10_000, MILLION: 1_000_000 };
  const denominator = String(fraction.get('denominator') ?? 'HUNDRED') as keyof typeof parts;
  return (100 * Number(fraction.get('numerator') ?? 0)) / (parts[denominator] ?? 100);
}
