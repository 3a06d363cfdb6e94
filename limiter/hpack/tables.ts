/** The tables of fields, dynamic and static, and the error of anyone who reads by them. RFC 7541, section 2.3. */

/** The octets that an entry counts in addition to its name and value. RFC 7541, section 4.1. */
export const entryOverheadBytes = 32;

/** The value of SETTINGS_HEADER_TABLE_SIZE before any SETTINGS. RFC 9113, section 6.5.2. */
export const initialTableBytes = 4096;

/** The bytes are not a header block. This ends the connection with COMPRESSION_ERROR. RFC 9113, section 4.3. */
export class HpackError extends Error {
  override readonly name = 'HpackError';
}

/**
 * The dynamic table of RFC 7541, section 2.3.2: a ring whose capacity doubles when needed. An entry is named by its age: 0 is the
 * newest, which is index 62 on the wire.
 */
export class DynamicTable {
  /** Names by `slotOf`. Read-only for others, like the next fields. */
  names: string[] = new Array<string>(8).fill('');
  values: string[] = new Array<string>(8).fill('');
  length = 0;
  /** The size, as RFC 7541, section 4.1, counts it. */
  bytes = 0;
  maxBytes = initialTableBytes;
  #mask = 7;
  /** The position of the next entry. */
  #next = 0;

  /** Returns the position in `names` and `values` of the entry with this index on the wire. @throws HpackError if there is none */
  slotOf(index: number): number {
    const age = index - staticTableLength - 1;
    if (age >= this.length) {
      throw new HpackError(
        `the index ${index} is above ${staticTableLength + this.length}, the last entry of the table`,
      );
    }
    return (this.#next - 1 - age) & this.#mask;
  }

  /** Returns the index on the wire of the newest entry with this name and value, or 0. */
  find(name: string, value: string): number {
    for (let age = 0; age < this.length; age++) {
      const at = (this.#next - 1 - age) & this.#mask;
      if (this.values[at] === value && this.names[at] === name) return staticTableLength + 1 + age;
    }
    return 0;
  }

  /** The same of the newest with this name. */
  findName(name: string): number {
    for (let age = 0; age < this.length; age++) {
      if (this.names[(this.#next - 1 - age) & this.#mask] === name) return staticTableLength + 1 + age;
    }
    return 0;
  }

  /** Evicts the oldest entries until the entry fits. One that is larger than the table only empties it. */
  insert(name: string, value: string): void {
    const bytes = name.length + value.length + entryOverheadBytes;
    this.#evictTo(this.maxBytes - bytes);
    if (bytes > this.maxBytes) return;
    if (this.length > this.#mask) this.#grow();
    this.names[this.#next] = name;
    this.values[this.#next] = value;
    this.#next = (this.#next + 1) & this.#mask;
    this.length++;
    this.bytes += bytes;
  }

  resize(maxBytes: number): void {
    this.maxBytes = maxBytes;
    this.#evictTo(maxBytes);
  }

  #evictTo(bytes: number): void {
    while (this.bytes > bytes && this.length > 0) {
      const at = (this.#next - this.length) & this.#mask;
      this.bytes -= this.names[at]!.length + this.values[at]!.length + entryOverheadBytes;
      this.names[at] = '';
      this.values[at] = '';
      this.length--;
    }
  }

  #grow(): void {
    const names: string[] = [];
    const values: string[] = [];
    for (let age = this.length - 1; age >= 0; age--) {
      const at = (this.#next - 1 - age) & this.#mask;
      names.push(this.names[at]!);
      values.push(this.values[at]!);
    }
    const room = this.length * 2;
    this.#next = this.length;
    while (names.length < room) names.push('');
    while (values.length < room) values.push('');
    this.names = names;
    this.values = values;
    this.#mask = room - 1;
  }
}

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

/** The lowest index with a name; entries of one name stand together. */
export const staticIndexes: ReadonlyMap<string, number> = new Map(
  staticNames
    .map((name, index): [string, number] => [name, index])
    .slice(1)
    .reverse(),
);
