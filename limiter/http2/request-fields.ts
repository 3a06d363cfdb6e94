/** Checks header sections. RFC 9113, sections 8.2 and 8.3. */
import type { HeaderFields } from './request-handler.ts';

/** The result of checking a well-formed section without content-length. */
export const noLength = -1;
/** The result of checking a malformed section. */
export const malformed = -2;

/** Chosen: the maximum size of a request that is stored to check the next one faster. Most requests are shorter. */
const maxReusedBytes = 4096;

const fieldName = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
/** RFC 9113, section 8.2.1: no NUL, LF, CR anywhere, no white space at the ends. */
const badValue = /[\0\n\r]|^[ \t]|[ \t]$/;
const digits = /^[0-9]{1,15}$/;

/** RFC 9113, section 8.2.2. */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

const pseudoFields: readonly string[] = [':method', ':scheme', ':path', ':authority'];

const noFields: HeaderFields = [];

/**
 * Checks the header sections of one connection. RFC 9113, sections 8.2 and 8.3; a malformed section is an error of its stream. Most
 * requests of a connection repeat the one before. A field that equals the last request's field at the same position, which HPACK's
 * tables often make the same string, is not checked again.
 */
export class RequestFields {
  /** The last well-formed section, and its content-length. Callers only read both. */
  last: HeaderFields = noFields;
  lastLength = malformed;

  /** Returns the content-length, `noLength` or `malformed`. */
  checkRequest(fields: HeaderFields): number {
    const last = this.last;
    let same = 0;
    const max = Math.min(fields.length, last.length);
    while (same < max && fields[same] === last[same]) same += 1;
    if (same === fields.length && same === last.length) {
      this.last = fields;
      return this.lastLength;
    }
    const length = checkFields(fields, last);
    if (length === malformed || !hasPseudoFields(fields)) return malformed;
    this.last = bytesOf(fields) <= maxReusedBytes ? fields : noFields;
    this.lastLength = this.last === fields ? length : malformed;
    return length;
  }
}

function bytesOf(fields: HeaderFields): number {
  let bytes = 0;
  for (const text of fields) bytes += text.length;
  return bytes;
}

/** Trailers are fields without pseudo-header fields. */
export function trailersAreWellFormed(fields: HeaderFields): boolean {
  for (let at = 0; at < fields.length; at += 2) {
    const [name, value] = [fields[at] as string, fields[at + 1] as string];
    if (!isRegularField(name, value)) return false;
  }
  return true;
}

/** Checks each field, and that pseudo-header fields come first. Returns the content-length, `noLength` or `malformed`. */
function checkFields(fields: HeaderFields, known: HeaderFields): number {
  let length = noLength;
  let regular = false;
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] as string;
    const value = fields[at + 1] as string;
    if (name.charCodeAt(0) === 0x3a) {
      if (regular || badValue.test(value)) return malformed;
      continue;
    }
    regular = true;
    if ((name !== known[at] || value !== known[at + 1]) && !isRegularField(name, value)) return malformed;
    if (name === 'content-length') {
      if (!digits.test(value) || (length !== noLength && length !== Number(value))) return malformed;
      length = Number(value);
    }
  }
  return length;
}

function isRegularField(name: string, value: string): boolean {
  if (!fieldName.test(name) || badValue.test(value)) return false;
  if (connectionFields.has(name)) return false;
  return name !== 'te' || value === 'trailers';
}

/** RFC 9113, section 8.3.1: each pseudo-header field occurs once, none is unknown, and none is missing. Section 8.5 for CONNECT. */
function hasPseudoFields(fields: HeaderFields): boolean {
  const found: (string | undefined)[] = [undefined, undefined, undefined, undefined];
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] as string;
    if (name.charCodeAt(0) !== 0x3a) break;
    const which = pseudoFields.indexOf(name);
    if (which < 0 || found[which] !== undefined) return false;
    found[which] = fields[at + 1] as string;
  }
  const [method, scheme, path, authority] = found;
  if (method === undefined || method === '') return false;
  if (method === 'CONNECT') return scheme === undefined && path === undefined && !!authority;
  if (scheme === undefined || scheme === '' || path === undefined) return false;
  return path.startsWith('/') || (path === '*' && method === 'OPTIONS');
}
