/** An Envoy configuration for tests: every request is described by its address, path and plan, then goes upstream. */
export const type = (name: string): string => `type.googleapis.com/${name}`;

export interface EnvoyConfigOptions {
  listenPort: number;
  /** Of several limiters each, in turn. */
  limiterPort: number | readonly number[];
  upstreamPort: number;
  domain: string;
  /** Authority of the limiter's certificate; without it there is no TLS to the limiter. */
  limiterCaFile?: string | undefined;
  /** A file that gets a line for each request. */
  accessLog?: { path: string; format: string };
  /** Metadata of the calls to the limiter. */
  callMetadata?: { key: string; value: string }[];
  /** Proxies before it whose X-Forwarded-For counts. */
  trustedHops?: number;
  /** More of the rate limit filter. */
  filter?: object;
  /** In the place of the usual ones. */
  rateLimits?: readonly object[];
}

const rateLimits = [
  { actions: [{ remote_address: {} }] },
  { actions: [{ request_headers: { header_name: ':path', descriptor_key: 'path' } }] },
  {
    actions: [
      { request_headers: { header_name: ':path', descriptor_key: 'path' } },
      { request_headers: { header_name: 'x-plan', descriptor_key: 'plan' } },
    ],
  },
];

export function envoyConfig(options: EnvoyConfigOptions): object {
  const rateLimitFilter = {
    name: 'envoy.filters.http.ratelimit',
    typed_config: {
      '@type': type('envoy.extensions.filters.http.ratelimit.v3.RateLimit'),
      domain: options.domain,
      timeout: '5s',
      // An unanswered question shows as a 500, or a test could not report it from a yes.
      failure_mode_deny: true,
      rate_limit_service: {
        transport_api_version: 'V3',
        grpc_service: {
          envoy_grpc: { cluster_name: 'limiter' },
          initial_metadata: options.callMetadata ?? [],
        },
      },
      ...options.filter,
    },
  };
  const route = {
    match: { prefix: '/' },
    route: { cluster: 'upstream' },
    typed_per_filter_config: {
      'envoy.filters.http.ratelimit': {
        '@type': type('envoy.extensions.filters.http.ratelimit.v3.RateLimitPerRoute'),
        rate_limits: options.rateLimits ?? rateLimits,
      },
    },
  };
  const connectionManager = {
    '@type': type('envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'),
    stat_prefix: 'http',
    use_remote_address: true,
    preserve_external_request_id: true,
    ...(options.accessLog === undefined ? {} : { access_log: [fileLog(options.accessLog)] }),
    ...(options.trustedHops !== undefined && { xff_num_trusted_hops: options.trustedHops }),
    http_filters: [rateLimitFilter, router],
    route_config: { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [route] }] },
  };
  return staticEnvoy(options.listenPort, connectionManager, [
    { ...cluster('limiter', options.limiterPort, true), ...tlsTo(options.limiterCaFile) },
    cluster('upstream', options.upstreamPort, false),
  ]);
}

export const router = {
  name: 'envoy.filters.http.router',
  typed_config: { '@type': type('envoy.extensions.filters.http.router.v3.Router') },
};

/** One listener for HTTP, with this connection manager. */
export function staticEnvoy(listenPort: number, connectionManager: object, clusters: object[]): object {
  const filters = [
    { name: 'envoy.filters.network.http_connection_manager', typed_config: connectionManager },
  ];
  const listener = { name: 'http', address: socketAddress(listenPort), filter_chains: [{ filters }] };
  return { static_resources: { listeners: [listener], clusters } };
}

function fileLog({ path, format }: { path: string; format: string }): object {
  return {
    name: 'envoy.access_loggers.file',
    typed_config: {
      '@type': type('envoy.extensions.access_loggers.file.v3.FileAccessLog'),
      path,
      log_format: { text_format_source: { inline_string: format } },
    },
  };
}

function socketAddress(port: number): object {
  return { socket_address: { address: '127.0.0.1', port_value: port } };
}

function tlsTo(caFile: string | undefined): object {
  if (caFile === undefined) return {};
  const typed_config = {
    '@type': type('envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext'),
    sni: 'localhost',
    common_tls_context: {
      alpn_protocols: ['h2'],
      validation_context: {
        trusted_ca: { filename: caFile },
        match_typed_subject_alt_names: [{ san_type: 'DNS', matcher: { exact: 'localhost' } }],
      },
    },
  };
  return { transport_socket: { name: 'envoy.transport_sockets.tls', typed_config } };
}

export function cluster(name: string, port: number | readonly number[], http2: boolean): object {
  const protocol = http2 ? { http2_protocol_options: {} } : { http_protocol_options: {} };
  return {
    name,
    type: 'STATIC',
    connect_timeout: '1s',
    typed_extension_protocol_options: {
      'envoy.extensions.upstreams.http.v3.HttpProtocolOptions': {
        '@type': type('envoy.extensions.upstreams.http.v3.HttpProtocolOptions'),
        explicit_http_config: protocol,
      },
    },
    load_assignment: {
      cluster_name: name,
      endpoints: [
        { lb_endpoints: [port].flat().map((one) => ({ endpoint: { address: socketAddress(one) } })) },
      ],
    },
  };
}
