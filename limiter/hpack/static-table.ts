/** The static table: name and value of index 1, of index 2 and so on. RFC 7541, appendix A. */
const entries: readonly string[] = [
  ...[':authority', ''],
  ...[':method', 'GET', ':method', 'POST'],
  ...[':path', '/', ':path', '/index.html'],
  ...[':scheme', 'http', ':scheme', 'https'],
  ...[':status', '200', ':status', '204', ':status', '206', ':status', '304'],
  ...[':status', '400', ':status', '404', ':status', '500'],
  ...['accept-charset', '', 'accept-encoding', 'gzip, deflate', 'accept-language', ''],
  ...['accept-ranges', '', 'accept', '', 'access-control-allow-origin', '', 'age', '', 'allow', ''],
  ...['authorization', '', 'cache-control', '', 'content-disposition', '', 'content-encoding', ''],
  ...['content-language', '', 'content-length', '', 'content-location', '', 'content-range', ''],
  ...['content-type', '', 'cookie', '', 'date', '', 'etag', '', 'expect', '', 'expires', '', 'from', ''],
  ...['host', '', 'if-match', '', 'if-modified-since', '', 'if-none-match', '', 'if-range', ''],
  ...['if-unmodified-since', '', 'last-modified', '', 'link', '', 'location', '', 'max-forwards', ''],
  ...['proxy-authenticate', '', 'proxy-authorization', '', 'range', '', 'referer', '', 'refresh', ''],
  ...['retry-after', '', 'server', '', 'set-cookie', '', 'strict-transport-security', ''],
  ...['transfer-encoding', '', 'user-agent', '', 'vary', '', 'via', '', 'www-authenticate', ''],
];

/** The highest index of the static table; the dynamic table's newest entry comes behind it. */
export const staticTableLength: number = entries.length / 2;

/** Names by index; there is no index 0. */
export const staticNames: readonly string[] = ['', ...entries.filter((_, index) => index % 2 === 0)];
export const staticValues: readonly string[] = ['', ...entries.filter((_, index) => index % 2 === 1)];

const firstIndexes = new Map<string, number>();
staticNames.forEach((name, index) => {
  if (index > 0 && !firstIndexes.has(name)) firstIndexes.set(name, index);
});

/** The lowest index with this name, or 0; entries of one name stand together. */
export function staticIndexOfName(name: string): number {
  return firstIndexes.get(name) ?? 0;
}
