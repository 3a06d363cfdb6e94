/**
 * Envoy's vocabulary of rate limit actions (envoy.config.route.v3.RateLimit): what of a request makes which descriptor. Names
 * are those of Envoy's documentation, so that whoever has written a route's `rate_limits` knows them.
 */

/** One item of `rate_limits`: the descriptor that its actions make, one entry each, or none where an action yields none. */
export interface RateLimitConfig {
  actions: RateLimitAction[];
  stage: number;
  disableKey: string;
  /** `limit`, whose value is out of the request's metadata. */
  hasOwnLimit: boolean;
  /** `hits_addend`: how much this descriptor counts. */
  hasOwnHits: boolean;
  /** Charged when the request is over, as with `apply_on_stream_done`. */
  onStreamDone: boolean;
}

export type RateLimitAction =
  | { type: 'source_cluster' }
  | { type: 'destination_cluster' }
  | { type: 'request_headers'; headerName: string; descriptorKey: string; skipIfAbsent: boolean }
  | { type: 'query_parameters'; queryParameterName: string; descriptorKey: string; skipIfAbsent: boolean }
  | { type: 'remote_address' }
  | { type: 'masked_remote_address'; v4PrefixMaskLen: number; v6PrefixMaskLen: number }
  | { type: 'generic_key'; descriptorKey: string; descriptorValue: string }
  | {
      type: 'header_value_match';
      descriptorKey: string;
      descriptorValue: string;
      expectMatch: boolean;
      headers: ValueMatcher[];
    }
  | {
      type: 'query_parameter_value_match';
      descriptorKey: string;
      descriptorValue: string;
      expectMatch: boolean;
      queryParameters: ValueMatcher[];
    }
  /** Its value is known to Envoy alone: `metadata`, `dynamic_metadata` (deprecated) and extensions. */
  | { type: 'metadata'; descriptorKey: string; defaultValue: string; skipIfAbsent: boolean }
  | { type: 'extension'; name: string; descriptorKey: string | undefined };

/** HeaderMatcher and QueryParameterMatcher, which say the same of two things. */
export interface ValueMatcher {
  name: string;
  /** `present` looks at whether there is one at all. */
  match:
    | { type: 'exact' | 'prefix' | 'suffix' | 'contains' | 'regex'; text: string; ignoreCase: boolean }
    | { type: 'range'; start: number; end: number }
    | { type: 'present'; present: boolean };
  invert: boolean;
  treatMissingAsEmpty: boolean;
}
