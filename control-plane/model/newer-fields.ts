/** Fields that the API server delivers and this program does not know, and their definition in the API server's schemas. */

/** The part of an OpenAPI schema that decides what a field holds when nobody wrote it. */
export interface FieldSchema {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}

/** The schemas of `spec`, by kind. A new value whenever a schema changes. */
export type PublishedSchemas = ReadonlyMap<string, FieldSchema>;

export interface UnknownField {
  /** The path, such as `spec.descriptors[0].burstMode`. */
  text: string;
  /** Whether the known schema has it. Then no newer schema is needed to judge it. */
  isPublished: boolean;
}

/** Fields of all objects that are newer than the CRD. */
export interface NewerFields {
  /** Fields that hold their default, as `spec.descriptors[].burstMode`. They are left out. */
  ignored: ReadonlySet<string>;
  /** Fields that the schemas do not have: `RateLimitConfig spec.descriptors[].burstMode`. Newer schemas may give them a default. */
  doubts: ReadonlySet<string>;
}

export const noNewerFields: NewerFields = { ignored: new Set(), doubts: new Set() };
