/** Manifests of RateLimitConfigs for kubectl, as JSON. */
export interface ManifestOptions {
  name: string;
  namespace?: string;
  domain: string;
  className?: string | undefined;
  fleet?: string;
  /** Limit of the one rule, whose key is `key`, a day. */
  requests: number;
  /** More members of the rule. */
  rule?: Record<string, unknown>;
  /** More descriptors beside the rule. */
  more?: Record<string, unknown>[];
}

export function rateLimitConfig(options: ManifestOptions): Record<string, unknown> {
  const { name, namespace = 'default', className, domain, fleet, requests, rule = {}, more = [] } = options;
  const rateLimit = { unit: 'day', requestsPerUnit: requests };
  return {
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name, namespace },
    spec: {
      ...(className === undefined ? {} : { className }),
      ...(fleet === undefined ? {} : { fleet }),
      domain,
      descriptors: [{ key: 'key', rateLimit, ...rule }, ...more],
    },
  };
}

/** Several in one text. */
export function rateLimitConfigTexts(...all: ManifestOptions[]): string {
  return all.map(rateLimitConfigText).join('\n---\n');
}

/** The same as text for `kubectl apply -f -`. */
export function rateLimitConfigText(options: ManifestOptions): string {
  return JSON.stringify(rateLimitConfig(options));
}
