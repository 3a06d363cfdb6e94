import type { FieldSchema } from '../../control-plane/model/decision.ts';

/** An answer of `/openapi/v3` in which specs of RateLimitConfigs have these fields. */
export function publishedFields(properties: Readonly<Record<string, FieldSchema>>): object {
  const kinds = [{ group: 'ratelimit.weir.dev', kind: 'RateLimitConfig', version: 'v1alpha1' }];
  const config = { 'x-kubernetes-group-version-kind': kinds, properties: { spec: { properties } } };
  return { components: { schemas: { config } } };
}
