/** Writes Envoy configuration that queries a limiter, as YAML: descriptors alone, with filter and cluster, complete, or for Istio. */

import type { JsonObject } from '../../rules/model.ts';
import { costMetadata, type KeySource, type NeededRateLimit } from '../../rules/proxy/needed-rate-limits.ts';
import { escaped } from '../shared/text.ts';
import { yamlText } from '../shared/yaml-text.ts';

export interface EnvoyTextOptions {
  domain: string;
  /** The address of the limiter's gRPC listener. */
  limiter: { host: string; port: number };
}

/** Functions by the value of `--output`. */
export const envoyOutputs = {
  rate_limits: rateLimitsText,
  filter: filterText,
  bootstrap: bootstrapText,
  istio: istioText,
} as const satisfies Record<
  string,
  (needed: readonly NeededRateLimit[], options: EnvoyTextOptions) => string
>;
export type EnvoyOutput = keyof typeof envoyOutputs;

/** The Service of a chart that was installed as its README says. */
export const istioLimiter = { host: 'weir-limiter.weir-system.svc.cluster.local', port: 8081 };

const filterName = 'envoy.filters.http.ratelimit';
const clusterName = 'weir';
const filterTypes = 'type.googleapis.com/envoy.extensions.filters';
const upstreamOptions = 'envoy.extensions.upstreams.http.v3.HttpProtocolOptions';

function rateLimitsText(needed: readonly NeededRateLimit[]): string {
  return withRateLimits({ rate_limits: [] }, needed);
}

function filterText(needed: readonly NeededRateLimit[], options: EnvoyTextOptions): string {
  return [
    '# For the HttpConnectionManager: Envoy asks the limiter before it routes a request.\n',
    yamlText({ http_filters: [filter(options, clusterName), router] }),
    '# For a route that has a cluster, or for a virtual host: the descriptors that the limiter gets for a request.\n',
    withRateLimits({ typed_per_filter_config: perRoute }, needed),
    '# For static_resources: the limiter, which needs HTTP/2 for gRPC.\n',
    yamlText({ clusters: [limiterCluster(options.limiter)] }),
  ].join('');
}

/** Configures Envoy on port 10000, with a service on port 10001 that is Envoy itself and says hello. */
function bootstrapText(needed: readonly NeededRateLimit[], options: EnvoyTextOptions): string {
  const hello = {
    match: { prefix: '/' },
    direct_response: { status: 200, body: { inline_string: 'hello\n' } },
  };
  const limited = {
    match: { prefix: '/' },
    route: { cluster: 'service' },
    typed_per_filter_config: perRoute,
  };
  const config = {
    // The admin port shows counters and the configuration in force.
    admin: { address: socketAddress('127.0.0.1', 9901) },
    static_resources: {
      listeners: [
        listener(
          'http',
          10_000,
          { use_remote_address: true, normalize_path: true, merge_slashes: true },
          [filter(options, clusterName), router],
          limited,
        ),
        listener('service', 10_001, {}, [router], hello),
      ],
      clusters: [cluster('service', { host: '127.0.0.1', port: 10_001 }), limiterCluster(options.limiter)],
    },
  };
  return withRateLimits(config, needed);
}

/** Adds the filter and the descriptors to all virtual hosts of the ingress gateways. Istio has a cluster for each Service port. */
function istioText(needed: readonly NeededRateLimit[], options: EnvoyTextOptions): string {
  const { host, port } = options.limiter;
  const workloadSelector = { labels: { istio: 'ingressgateway' } };
  const object = (name: string, patch: JsonObject): JsonObject => ({
    apiVersion: 'networking.istio.io/v1alpha3',
    kind: 'EnvoyFilter',
    metadata: { name, namespace: 'istio-system' },
    spec: { workloadSelector, configPatches: [patch] },
  });
  const manager = 'envoy.filters.network.http_connection_manager';
  const asks = object('weir-filter', {
    applyTo: 'HTTP_FILTER',
    match: {
      context: 'GATEWAY',
      listener: {
        filterChain: { filter: { name: manager, subFilter: { name: 'envoy.filters.http.router' } } },
      },
    },
    // A limiter's sidecar rejects Envoy's default authority, which is the name of the cluster with its bars.
    patch: { operation: 'INSERT_BEFORE', value: filter(options, `outbound|${port}||${host}`, host) },
  });
  const describes = object('weir-rate-limits', {
    applyTo: 'VIRTUAL_HOST',
    match: { context: 'GATEWAY' },
    patch: { operation: 'MERGE', value: { rate_limits: [] } },
  });
  return [
    '# The gateways with this label ask the limiter. Its Service port has to be named grpc, or have appProtocol: grpc.\n',
    yamlText(asks),
    '---\n# The descriptors that the limiter gets for a request, for all hosts of these gateways.\n',
    withRateLimits(describes, needed),
  ].join('');
}

const router: JsonObject = {
  name: 'envoy.filters.http.router',
  typed_config: { '@type': `${filterTypes}.http.router.v3.Router` },
};

const perRoute: JsonObject = {
  [filterName]: { '@type': `${filterTypes}.http.ratelimit.v3.RateLimitPerRoute`, rate_limits: [] },
};

function filter({ domain }: EnvoyTextOptions, cluster_name: string, authority?: string): JsonObject {
  const envoy_grpc = { cluster_name, ...(authority !== undefined && { authority }) };
  return {
    name: filterName,
    typed_config: {
      '@type': `${filterTypes}.http.ratelimit.v3.RateLimit`,
      domain,
      timeout: '0.25s',
      failure_mode_deny: false,
      enable_x_ratelimit_headers: 'DRAFT_VERSION_03',
      rate_limit_service: { transport_api_version: 'V3', grpc_service: { envoy_grpc } },
    },
  };
}

function listener(
  name: string,
  port: number,
  more: JsonObject,
  http_filters: JsonObject[],
  route: JsonObject,
): JsonObject {
  const typed_config: JsonObject = {
    '@type': `${filterTypes}.network.http_connection_manager.v3.HttpConnectionManager`,
    stat_prefix: name,
    ...more,
    http_filters,
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route] }] },
  };
  const manager = { name: 'envoy.filters.network.http_connection_manager', typed_config };
  return { name, address: socketAddress('127.0.0.1', port), filter_chains: [{ filters: [manager] }] };
}

function limiterCluster(limiter: EnvoyTextOptions['limiter']): JsonObject {
  const http2 = {
    '@type': `type.googleapis.com/${upstreamOptions}`,
    explicit_http_config: { http2_protocol_options: {} },
  };
  return cluster(clusterName, limiter, { typed_extension_protocol_options: { [upstreamOptions]: http2 } });
}

function cluster(
  name: string,
  { host, port }: EnvoyTextOptions['limiter'],
  more: JsonObject = {},
): JsonObject {
  const isAddress = /^[\d.]+$|:/.test(host);
  const endpoint = { address: socketAddress(host, port) };
  // By default limiters listen on IPv4, while Envoy would try only ::1 for localhost.
  const byName: JsonObject = { type: 'STRICT_DNS', dns_lookup_family: 'V4_PREFERRED' };
  return {
    name,
    ...(isAddress ? { type: 'STATIC' } : byName),
    connect_timeout: '1s',
    ...more,
    load_assignment: { cluster_name: name, endpoints: [{ lb_endpoints: [{ endpoint }] }] },
  };
}

function socketAddress(address: string, port_value: number): JsonObject {
  return { socket_address: { address, port_value } };
}

/** Returns the YAML of a value and fills its only empty `rate_limits` with these, with comments. */
function withRateLimits(value: JsonObject, needed: readonly NeededRateLimit[]): string {
  return yamlText(value).replace(/^( *)(- )?rate_limits: \[\]$/m, (_, indent: string, dash = '') => {
    const inner = `${indent}${' '.repeat(dash.length)}  `;
    const lines = needed.flatMap((one) => itemLines(one).map((line) => inner + line));
    return [`${indent}${dash}rate_limits:`, ...lines].join('\n');
  });
}

/** Chosen: the number of rules that a comment names. */
const namedRules = 3;

const { namespace, key } = costMetadata;
const costNote = `# FILL IN: a filter that sets ${key} in the dynamic metadata ${namespace} to what the request cost; until then no reservation is committed`;

const queryNote = '# :path includes the query: /a?b=c and /a are different values';

function itemLines({ value, rules, guessed }: NeededRateLimit): string[] {
  const more = rules.length > namedRules ? ` and ${rules.length - namedRules} more` : '';
  const [first, ...others] = yamlText(value).trimEnd().split('\n');
  return [
    `# for ${rules.slice(0, namedRules).map(shortened).join('; ')}${more}`,
    ...guessed.map((guess) => `# FILL IN: ${guessWords(guess)}`),
    ...(JSON.stringify(value).includes('"header_name":":path"') ? [queryNote] : []),
    ...('apply_on_stream_done' in value ? [costNote] : []),
    `- ${first}`,
    ...others.map((line) => `  ${line}`),
  ];
}

/** Returns what is missing, and the value that was used instead. */
export function guessWords({ key, source }: NeededRateLimit['guessed'][number]): string {
  const name = shortened(key);
  if (source.type === 'header_match' || source.type === 'query_match')
    return `which ${source.type === 'header_match' ? 'headers' : 'parameters'} make "${name}"`;
  return `where "${name}" comes from; Weir assumes the header ${'name' in source ? source.name : ''}; to use another source, pass --from ${name}=...`;
}

/** Shortens a text of a rule file to one line, for a comment or a terminal. */
function shortened(text: string): string {
  const line = escaped(text);
  return line.length > 80 ? `${line.slice(0, 80)}...` : line;
}

/** Reads `header:x-plan`, `query:q`, `path`, `method`, `host`, `generic`, or a kind of entry that Envoy names. */
export function parseKeySource(text: string): KeySource | undefined {
  const [, type, name = ''] = /^(header|query|header_match|query_match):(.+)$/s.exec(text) ?? [];
  if (type === 'query' || type === 'query_match') return { type, name };
  if (type === 'header' || type === 'header_match') return isHeaderName(name) ? { type, name } : undefined;
  const pseudo = { path: ':path', method: ':method', host: ':authority' };
  const header = Object.hasOwn(pseudo, text) ? pseudo[text as keyof typeof pseudo] : undefined;
  if (header !== undefined) return { type: 'header', name: header };
  const plain = [
    'generic',
    'remote_address',
    'masked_remote_address',
    'source_cluster',
    'destination_cluster',
  ];
  return plain.includes(text) ? ({ type: text } as KeySource) : undefined;
}

function isHeaderName(name: string): boolean {
  return /^:?[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name);
}
