/** A ConfigMap, as far as reports and kept specs need it. */
export interface ConfigMap {
  name: string;
  data: Readonly<Record<string, string>>;
  /** In base64. */
  binaryData: Readonly<Record<string, string>>;
}

/** The most bytes of one ConfigMap's values, before base64: the API server refuses more than 1 MiB, keys included. */
export const maxConfigMapBytes = 1_000_000;
