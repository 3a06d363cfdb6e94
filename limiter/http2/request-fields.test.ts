/** RFC 9113, sections 8.2 and 8.3. */
import { describe, expect, it } from 'vitest';
import { malformed, noLength, RequestFields, trailersAreWellFormed } from './request-fields.ts';

const good = [':method', 'POST', ':scheme', 'http', ':path', '/a', ':authority', 'b'];
const without = (name: string) => good.filter((_, at) => good[at - (at % 2)] !== name);

const wellFormed: Record<string, string[]> = {
  'all pseudo-header fields': good,
  'no authority': without(':authority'),
  'te: trailers': [...good, 'te', 'trailers'],
  'an empty value': [...good, 'a', ''],
  'bytes above ASCII in a value': [...good, 'a', 'caf\xe9'],
  'blanks inside a value': [...good, 'a', 'b \t c'],
  'a field many times': [...good, 'a', '1', 'a', '2'],
  'OPTIONS *': [':method', 'OPTIONS', ':scheme', 'http', ':path', '*'],
  CONNECT: [':method', 'CONNECT', ':authority', 'a:1'],
  'the same content-length twice': [...good, 'content-length', '3', 'content-length', '3'],
};

const malformedSections: Record<string, string[]> = {
  'no fields': [],
  'no method': without(':method'),
  'no scheme': without(':scheme'),
  'no path': without(':path'),
  'an empty path': [...without(':path'), ':path', ''],
  'a path that is none': [...without(':path'), ':path', 'a'],
  '* for POST': [...without(':path'), ':path', '*'],
  'an empty method': [...without(':method'), ':method', ''],
  'a method twice': [...good, ':method', 'POST'],
  'a scheme twice': [...good, ':scheme', 'http'],
  'a path twice': [...good, ':path', '/a'],
  'an authority twice': [...good, ':authority', 'b'],
  'an unknown pseudo-header field': [...good, ':test', 'a'],
  'a pseudo-header field of responses': [...good, ':status', '200'],
  'a pseudo-header field behind others': [...without(':path'), 'a', 'b', ':path', '/a'],
  'a line break in a pseudo-header field': [...without(':path'), ':path', '/a\r\nb: c'],
  'CONNECT with a path': [':method', 'CONNECT', ':authority', 'a:1', ':path', '/'],
  'CONNECT without authority': [':method', 'CONNECT'],
  'upper case in a name': [...good, 'Abc', 'x'],
  'a blank in a name': [...good, 'a b', 'x'],
  'a colon in a name': [...good, 'a:b', 'x'],
  'an empty name': [...good, '', 'x'],
  'a byte above ASCII in a name': [...good, 'caf\xe9', 'x'],
  'NUL in a value': [...good, 'a', 'b\0c'],
  'CR in a value': [...good, 'a', 'b\rc'],
  'LF in a value': [...good, 'a', 'b\nc'],
  'a blank before a value': [...good, 'a', ' b'],
  'a tab behind a value': [...good, 'a', 'b\t'],
  connection: [...good, 'connection', 'keep-alive'],
  'proxy-connection': [...good, 'proxy-connection', 'keep-alive'],
  'keep-alive': [...good, 'keep-alive', '5'],
  'transfer-encoding': [...good, 'transfer-encoding', 'chunked'],
  upgrade: [...good, 'upgrade', 'h2c'],
  'te: trailers, deflate': [...good, 'te', 'trailers, deflate'],
  'a content-length that is no number': [...good, 'content-length', '1x'],
  'a negative content-length': [...good, 'content-length', '-1'],
  'an endless content-length': [...good, 'content-length', '9'.repeat(20)],
  'two content-lengths': [...good, 'content-length', '3', 'content-length', '4'],
};

describe('a request', () => {
  it.each(Object.entries(wellFormed))('may have %s', (_, fields) => {
    const check = new RequestFields();
    expect(check.checkRequest(fields)).not.toBe(malformed);
    expect(check.checkRequest([...fields])).not.toBe(malformed);
  });

  it.each(Object.entries(malformedSections))('is malformed with %s, whatever came before', (_, fields) => {
    const check = new RequestFields();
    expect(check.checkRequest(fields)).toBe(malformed);
    expect(check.checkRequest(good)).toBe(noLength);
    expect(check.checkRequest(fields)).toBe(malformed);
    expect(check.checkRequest([...good])).toBe(noLength);
  });

  it('reports its content-length, of repeated sections too', () => {
    const check = new RequestFields();
    const fields = [...good, 'content-length', '12'];
    expect([check.checkRequest(fields), check.checkRequest([...fields]), check.checkRequest(good)]).toEqual([
      12,
      12,
      noLength,
    ]);
  });
});

describe('trailers', () => {
  it('are fields', () => {
    expect(trailersAreWellFormed(['a', 'b', 'c', ''])).toBe(true);
    expect(trailersAreWellFormed([])).toBe(true);
  });

  it.each([[':path'], ['Upper'], ['connection'], ['']])('have no field %j', (name) => {
    expect(trailersAreWellFormed(['a', 'b', name, 'c'])).toBe(false);
  });
});
