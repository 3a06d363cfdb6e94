/** What a schema says of fields that may not stand beside each other: twice, once in words of JSON Schema and once in sentences. */
export interface RuleChecks {
  readonly descriptor: Record<string, unknown>;
  readonly rateLimit: Record<string, unknown>;
  /** Of each element of `rateLimits`. */
  readonly limitOfSeveral: Record<string, unknown>;
  /** Of `unlimited` there. */
  readonly unlimitedOfSeveral: Record<string, unknown>;
}
