/** Fields that the API server delivers and this program does not know, and their definitions in the API server's schemas. */

/** The part of an OpenAPI schema that determines the value of a field that was not written. */
export interface FieldSchema {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly items?: FieldSchema;
}

/** The schemas of `spec`, by kind. The value is replaced whenever a schema changes. */
export type PublishedSchemas = ReadonlyMap<string, FieldSchema>;

export interface UnknownField {
  /** The path, such as `spec.descriptors[0].burstMode`. */
  text: string;
  /** Whether the known schema has the field. No newer schema is then needed to judge it. */
  isPublished: boolean;
}

/** Fields of all objects that are newer than the CRD. */
export interface NewerFields {
  /** Fields that have their default, in the form `spec.descriptors[].burstMode`. They are left out. */
  ignored: ReadonlySet<string>;
  /** Fields that the schemas do not have: `RateLimitConfig spec.descriptors[].burstMode`. Newer schemas may give them a default. */
  doubts: ReadonlySet<string>;
}

export const noNewerFields: NewerFields = { ignored: new Set(), doubts: new Set() };
