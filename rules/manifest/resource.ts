/** The resource that carries rules in Kubernetes, as its API names it. */
export const group = 'ratelimit.weir.dev';
export const version = 'v1alpha1';
export const apiVersion = `${group}/${version}`;
export const kind = 'RateLimitConfig';
export const listKind = 'RateLimitConfigList';
export const plural = 'ratelimitconfigs';
export const singular = 'ratelimitconfig';
