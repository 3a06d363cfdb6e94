/**
 * The parts of an Envoy configuration that concern the limiter: rate limit filters, the routes behind them with all their
 * `rate_limits`, and clusters. They can be anywhere in a bootstrap file, a dump of `/config_dump`, Istio's EnvoyFilters, or a
 * part of any of them. Names are snake_case or camelCase, as in protobuf's JSON.
 */

import { isObject } from '../model.ts';
import { documentTexts, readManifestDocument } from '../reader/read-manifests.ts';
import type { DocumentPath, PathProblem } from '../yaml/places.ts';
import { valuePlacer } from '../yaml/places.ts';
import { type EnvoyPlace, type Fields, field, list, namedField, typed, typeUrl } from './proto-json.ts';
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
  #placeOf: (path: DocumentPath) => EnvoyPlace = () => ({ file: '', line: 1, column: 1 });

  file(file: string, text: string): void {
    for (const document of documentTexts(text)) {
      const yaml = readManifestDocument(document.text);
      if (yaml.ok) {
        const placeOf = valuePlacer(yaml.tape, document.firstLine);
        this.#placeOf = (path) => ({ file, ...placeOf(path) });
        this.#any(yaml.value, []);
        this.#quotaFilters.push(...quotaFilters(yaml.value, this.#placeOf));
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

  #any(value: unknown, path: DocumentPath): void {
    if (Array.isArray(value)) {
      for (const [index, one] of value.entries()) this.#any(one, [...path, index]);
      return;
    }
    if (!isObject(value)) return;
    const type = String(value['@type'] ?? '');
    if (value['kind'] === 'EnvoyFilter') this.#envoyFilter(value, path);
    else if (Array.isArray(value['configs'])) this.#dump(value['configs'], [...path, 'configs']);
    else if (list(value, 'http_filters').length > 0) this.#manager(value, path);
    else if (list(value, 'virtual_hosts').length > 0)
      this.#loose(this.#configurationSites(value, path), true, value['name']);
    else if (isRateLimitFilter(value)) this.#filters.push(this.#filter(value, path));
    else if (type.endsWith('.config.cluster.v3.Cluster')) this.#cluster(value, path);
    else if (['rate_limits', 'typed_per_filter_config'].some((name) => field(value, name) !== undefined)) {
      this.#loose([this.#fragment(value, path)], false);
    } else {
      for (const [name, one] of Object.entries(value)) this.#any(one, [...path, name]);
    }
    this.#resources(value, path);
  }

  /** Reads clusters and runtime, which can be beside other resources. */
  #resources(value: Fields, path: DocumentPath): void {
    const clusters = list(value, 'clusters');
    for (const [index, one] of clusters.entries())
      if (isObject(one)) this.#cluster(one, [...path, 'clusters', index]);
    if (clusters.length > 0) this.#hasAllClusters = true;
    if (field(value, 'dynamic_resources') !== undefined) this.#hasOtherClusters = true;
    for (const layer of list(field(value, 'layered_runtime'), 'layers')) {
      const fixed = field(layer, 'static_layer');
      if (isObject(fixed)) this.#runtimeKeys(fixed, '');
    }
  }

  #runtimeKeys(layer: Fields, before: string): void {
    for (const [name, value] of Object.entries(layer)) {
      if (isObject(value) && field(value, 'numerator') === undefined)
        this.#runtimeKeys(value, `${before}${name}.`);
      else this.#runtime.set(before + name, value);
    }
  }

  /** A dump says twice what is in the bootstrap: listeners and their routes. */
  #dump(configs: readonly unknown[], path: DocumentPath): void {
    const isOf = (config: unknown, name: string): boolean =>
      isObject(config) && String(config['@type']).endsWith(`.${name}`);
    const hasListeners = configs.some((config) => isOf(config, 'ListenersConfigDump'));
    this.#hasOtherClusters = true;
    for (const [index, config] of configs.entries()) {
      if (!isObject(config)) continue;
      const bootstrap = config['bootstrap'];
      if (hasListeners && isObject(bootstrap)) {
        this.#resources(bootstrap, [...path, index, 'bootstrap']);
        continue;
      }
      const skipped = hasListeners && isOf(config, 'RoutesConfigDump') ? 'static_route_configs' : '';
      for (const [name, one] of Object.entries(config))
        if (name !== skipped) this.#any(one, [...path, index, name]);
    }
  }

  #envoyFilter(object: Fields, path: DocumentPath): void {
    const [name] = namedField(object['spec'], 'config_patches');
    for (const [index, one] of list(object['spec'], 'config_patches').entries()) {
      const [applyTo, patch] = [field(one, 'apply_to'), field(one, 'patch')];
      const below = [...path, 'spec', name, index, 'patch', 'value'];
      const value = field(patch, 'value');
      if (!isObject(value) || field(patch, 'operation') === 'REMOVE') continue;
      if (applyTo === 'CLUSTER') this.#cluster(value, below);
      else if (applyTo === 'HTTP_ROUTE') this.#loose(this.#routeSites(value, below, [], []));
      else if (applyTo === 'VIRTUAL_HOST' && list(value, 'routes').length > 0)
        this.#loose(this.#hostSites(value, below, []));
      else if (applyTo === 'VIRTUAL_HOST') this.#loose([this.#fragment(value, below)]);
      else this.#any(value, below);
    }
  }

  #manager(value: Fields, path: DocumentPath): void {
    const all = list(value, 'http_filters');
    const [filtersName] = namedField(value, 'http_filters');
    const filters = all.flatMap((one, index) =>
      isObject(one) && isRateLimitFilter(one) ? [this.#filter(one, [...path, filtersName, index])] : [],
    );
    const hasOthers = all.some((one) => {
      if (!isObject(one) || isRateLimitFilter(one)) return false;
      return (
        field(one, 'config_discovery') !== undefined || /\.http\.ratelimit\.v3\./.test(JSON.stringify(one))
      );
    });
    const [inlineName, inline] = namedField(value, 'route_config');
    const sites = isObject(inline) ? this.#configurationSites(inline, [...path, inlineName]) : [];
    // The command `weir envoy` writes this form.
    if (field(value, 'typed_per_filter_config') !== undefined) sites.push(this.#fragment(value, path));
    const isComplete = sites.length > 0 && !hasOthers && field(inline, 'vhds') === undefined;
    const routeName = field(field(value, 'rds'), 'route_config_name');
    this.#managers.push({
      ...{ filters, sites, isComplete, origin: 'manager' },
      routeName: typeof routeName === 'string' ? routeName : undefined,
    });
  }

  #loose(sites: RouteSite[], isWhole = true, name?: unknown): void {
    this.#routes.push({ name: typeof name === 'string' ? name : undefined, sites, isWhole });
  }

  #configurationSites(value: Fields, path: DocumentPath): RouteSite[] {
    const perRoutes = this.#perRoutes(value, path);
    const [name, hosts] = namedField(value, 'virtual_hosts');
    return (Array.isArray(hosts) ? hosts : []).flatMap((host: unknown, index) =>
      isObject(host) ? this.#hostSites(host, [...path, name, index], perRoutes) : [],
    );
  }

  #hostSites(host: Fields, path: DocumentPath, above: PerRoute[]): RouteSite[] {
    const limits = this.#rateLimits(host, path, false);
    const perRoutes = [...this.#perRoutes(host, path), ...above];
    const routes = list(host, 'routes');
    if (routes.length === 0) return [{ ...this.#emptySite(path), host: limits, perRoutes }];
    return routes.flatMap((route, index) =>
      isObject(route) ? this.#routeSites(route, [...path, 'routes', index], limits, perRoutes) : [],
    );
  }

  /** A route, once for each of its weighted clusters that has something of its own. */
  #routeSites(route: Fields, path: DocumentPath, host: PlacedRateLimit[], above: PerRoute[]): RouteSite[] {
    const action = field(route, 'route');
    const others = ['redirect', 'direct_response', 'non_forwarding_action', 'filter_action'];
    const perRoutes = [...this.#perRoutes(route, path), ...above];
    const below = [...path, 'route'];
    const misplaced = this.#rateLimits(route, path, false);
    if (field(route, 'rate_limits') !== undefined) {
      const place = this.#placeOf([...path, namedField(route, 'rate_limits')[0]]);
      const text = 'a route has no rate_limits beside its match: they belong one level down, below "route:"';
      this.#problems.push({ place, code: 'invalid-rate-limit', text });
    }
    // In a part of a route, as in an EnvoyFilter, the action may be elsewhere.
    const isForwarded = isObject(action) || !others.some((name) => field(route, name) !== undefined);
    const site: RouteSite = {
      isForwarded,
      own: [...(isObject(action) ? this.#rateLimits(action, below, false) : []), ...misplaced],
      host,
      includesHost: isSet(field(action, 'include_vh_rate_limits')),
      perRoutes,
      place: this.#placeOf(path),
    };
    const [weightedName, weighted] = namedField(action, 'weighted_clusters');
    const clusters = list(weighted, 'clusters').map((one, index) =>
      isObject(one) ? this.#perRoutes(one, [...below, weightedName, 'clusters', index]) : [],
    );
    if (clusters.every((own) => own.length === 0)) return [site];
    return clusters.map((own) => ({ ...site, perRoutes: [...own, ...perRoutes] }));
  }

  /** Reads a `rate_limits` or `typed_per_filter_config` that is separate. */
  #fragment(value: Fields, path: DocumentPath): RouteSite {
    const rateLimits = this.#rateLimits(value, path, false);
    const perRoutes = this.#perRoutes(value, path);
    const domain = this.#domain(value, path);
    const site = this.#emptySite(path);
    if (domain === undefined) return { ...site, host: rateLimits, perRoutes };
    // A profile of forward auth, which sets its own domain.
    const { place } = site;
    const profile = { filterName: '', isDisabled: false, hostOption: undefined, domain, rateLimits, place };
    return { ...site, perRoutes: [profile, ...perRoutes] };
  }

  #emptySite(path: DocumentPath): RouteSite {
    const place = this.#placeOf(path);
    return { isForwarded: true, own: [], host: [], includesHost: false, perRoutes: [], place };
  }

  #perRoutes(owner: Fields, path: DocumentPath): PerRoute[] {
    const [fieldName, configs] = namedField(owner, 'typed_per_filter_config');
    if (!isObject(configs)) return [];
    return Object.entries(configs).flatMap(([filterName, given]) => {
      const below = [...path, fieldName, filterName];
      const wrapped = isObject(given) && String(given['@type']).endsWith('.route.v3.FilterConfig');
      const isDisabled = wrapped && isSet(given['disabled']);
      const [config, rest] = wrapped ? typed(given['config']) : typed(given);
      const at = [...below, ...(wrapped ? ['config'] : []), ...rest];
      const isOurs = isTyped(config, wrapped ? given['config'] : given, 'RateLimitPerRoute');
      if (!isOurs && !(wrapped && isDisabled)) return [];
      const option = field(config, 'vh_rate_limits');
      const names = ['OVERRIDE', 'INCLUDE', 'IGNORE'] as const;
      return [
        {
          filterName,
          isDisabled,
          domain: this.#domain(config, at),
          rateLimits: isObject(config) ? this.#rateLimits(config, at, true) : [],
          hostOption: typeof option === 'number' ? names[option] : names.find((name) => name === option),
          place: this.#placeOf(below),
        },
      ];
    });
  }

  #domain(config: unknown, path: DocumentPath): EnvoyText | undefined {
    const text = field(config, 'domain');
    if (typeof text !== 'string' || text === '') return undefined;
    return { text, place: this.#placeOf([...path, 'domain']) };
  }

  #filter(given: Fields, path: DocumentPath): RateLimitFilter {
    const [configName, own] = namedField(given, 'typed_config');
    const [config, rest] = typed(own);
    const at = [...path, configName, ...rest];
    const [serviceName, service] = namedField(config, 'rate_limit_service');
    const version = field(service, 'transport_api_version');
    const grpc = field(field(service, 'grpc_service'), 'envoy_grpc');
    const name = field(grpc, 'cluster_name');
    const cluster = typeof name === 'string' ? name : undefined;
    const hasAuthority = (field(grpc, 'authority') ?? '') !== '';
    const servicePlace = this.#placeOf([...at, serviceName]);
    const stage = Number(field(config, 'stage') ?? 0);
    return {
      name: String(given['name'] ?? ''),
      domain: this.#domain(config, at),
      stage,
      rateLimits: isObject(config) ? this.#rateLimits(config, at, true) : [],
      service: isObject(service) ? { version, cluster, hasAuthority, place: servicePlace } : undefined,
      enabledPercent: percentOf(field(config, 'filter_enabled')),
      enforcedPercent: percentOf(field(config, 'filter_enforced')),
      place: this.#placeOf(path),
    };
  }

  /** Returns the items. It reports items that Envoy would reject as problems and leaves them out. */
  #rateLimits(owner: Fields, path: DocumentPath, isEmbedded: boolean): PlacedRateLimit[] {
    const [name, items] = namedField(owner, 'rate_limits');
    if (!Array.isArray(items)) return [];
    return items.flatMap((item: unknown, index) => {
      const at = [...path, name, index];
      const problems: PathProblem[] = [];
      const [config] = readRateLimits([item], [...path, name], problems);
      for (const { path: found, message } of problems) {
        const where = [...found];
        // Reads each item as if it were the only one.
        where[path.length + 1] = index;
        const place = this.#placeOf(where);
        this.#problems.push({ place, code: 'invalid-rate-limit', text: message });
      }
      if (config === undefined || problems.length > 0) return [];
      const placeOf = this.#placeOf;
      const placeOfAction = (action: number): EnvoyPlace => placeOf([...at, 'actions', action]);
      return [{ config, place: placeOf(at), placeOfAction, isEmbedded }];
    });
  }

  #cluster(value: Fields, path: DocumentPath): void {
    if (typeof value['name'] !== 'string') return;
    const options = field(value, 'typed_extension_protocol_options');
    const http = isObject(options) ? Object.values(options).map((one) => typed(one)[0]) : [];
    const isHttp2 = http.some((one) => {
      const fixed = field(one, 'explicit_http_config');
      return (
        field(fixed, 'http2_protocol_options') !== undefined ||
        ['auto_config', 'use_downstream_protocol_config'].some((name) => field(one, name) !== undefined)
      );
    });
    const isOldHttp2 = field(value, 'http2_protocol_options') !== undefined;
    const isIpv6Loopback =
      ['STRICT_DNS', 'LOGICAL_DNS', 1, 2].some((type) => type === field(value, 'type')) &&
      ['AUTO', 'V6_ONLY', 0, 2].some((family) => family === (field(value, 'dns_lookup_family') ?? 'AUTO')) &&
      /"address":"localhost\.?"/i.test(JSON.stringify(field(value, 'load_assignment') ?? ''));
    const place = this.#placeOf(path);
    this.#clusters.set(value['name'], { isHttp2: isHttp2 || isOldHttp2, isIpv6Loopback, place });
  }
}

function isSet(value: unknown): boolean {
  return value === true || value === 'true';
}

function isTyped(config: unknown, given: unknown, name: string): boolean {
  return isObject(config) && typeUrl(given).endsWith(`.filters.http.ratelimit.v3.${name}`);
}

function isRateLimitFilter(value: Fields): boolean {
  const given = field(value, 'typed_config');
  return isTyped(typed(given)[0], given, 'RateLimit');
}

/** The numerator of a RuntimeFractionalPercent that no runtime can change. */
function percentOf(value: unknown): number | undefined {
  const fraction = field(value, 'default_value');
  if (!isObject(fraction) || field(value, 'runtime_key') !== undefined) return undefined;
  const parts = { HUNDRED: 100, TEN_THOUSAND: 10_000, MILLION: 1_000_000 };
  const denominator = String(field(fraction, 'denominator') ?? 'HUNDRED') as keyof typeof parts;
  return (100 * Number(field(fraction, 'numerator') ?? 0)) / (parts[denominator] ?? 100);
}
