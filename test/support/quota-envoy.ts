/** An Envoy with the quota filter for tests: the header `x-bucket` names the bucket, and what passes gets a 200. */
import { cluster, router, staticEnvoy, type } from './envoy-config.ts';

export interface QuotaEnvoyOptions {
  listenPort: number;
  serverPort: number;
  domain: string;
  /** Settings of buckets by the value of the header `x-kind`. A request without one gets those of ''. */
  kinds: Readonly<Record<string, object>>;
  callMetadata?: { key: string; value: string }[];
  /** Entries of a bucket by the header that has the value. Defaults to `name` by `x-bucket`. */
  entries?: Readonly<Record<string, string>>;
}

/** Of a bucket that is rejected without an assignment. */
export const deniedAtFirst = {
  no_assignment_behavior: { fallback_rate_limit: { blanket_rule: 'DENY_ALL' } },
};

/** Of one whose assignment ended. */
export const deniedAfterwards = {
  expired_assignment_behavior: {
    expired_assignment_behavior_timeout: '600s',
    fallback_rate_limit: { blanket_rule: 'DENY_ALL' },
  },
};

export function quotaEnvoyConfig(options: QuotaEnvoyOptions): object {
  const filter = {
    '@type': type('envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaFilterConfig'),
    rlqs_server: {
      envoy_grpc: { cluster_name: 'quota' },
      initial_metadata: options.callMetadata ?? [],
    },
    domain: options.domain,
    bucket_matchers: bucketMatchers(options),
  };
  const connectionManager = {
    '@type': type('envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager'),
    stat_prefix: 'http',
    http_filters: [{ name: 'envoy.filters.http.rate_limit_quota', typed_config: filter }, router],
    route_config: {
      virtual_hosts: [
        {
          name: 'all',
          domains: ['*'],
          routes: [{ match: { prefix: '/' }, direct_response: { status: 200 } }],
        },
      ],
    },
  };
  return staticEnvoy(options.listenPort, connectionManager, [cluster('quota', options.serverPort, true)]);
}

function bucketMatchers({ kinds, entries = { name: 'x-bucket' } }: QuotaEnvoyOptions): object {
  const action = (kind: string): object => ({
    action: {
      name: 'bucket',
      typed_config: {
        '@type': type('envoy.extensions.filters.http.rate_limit_quota.v3.RateLimitQuotaBucketSettings'),
        bucket_id_builder: {
          bucket_id_builder: Object.fromEntries(
            Object.entries(entries).map(([key, header]) => [key, { custom_value: headerInput(header) }]),
          ),
        },
        reporting_interval: '5s',
        ...kinds[kind],
      },
    },
  });
  const others = Object.keys(kinds).filter((kind) => kind !== '');
  return {
    ...(others.length > 0 && {
      matcher_list: {
        matchers: others.map((kind) => ({
          predicate: { single_predicate: { input: headerInput('x-kind'), value_match: { exact: kind } } },
          on_match: action(kind),
        })),
      },
    }),
    on_no_match: action(''),
  };
}

function headerInput(header: string): object {
  return {
    name: header,
    typed_config: { '@type': type('envoy.type.matcher.v3.HttpRequestHeaderMatchInput'), header_name: header },
  };
}
