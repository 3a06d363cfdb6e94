/** One tuple of a request's descriptor. Case-sensitive. */
export interface Entry {
  key: string;
  value: string;
}
