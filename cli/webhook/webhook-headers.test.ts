import { describe, expect, it } from 'vitest';
import { parseHeader, parseHeaders } from './webhook-command.ts';

describe('parseHeaders', () => {
  const wanted = [
    ['webhook-id', 'msg_1'],
    ['host', 'a:80'],
  ];
  it.each([
    ['lines', 'Webhook-Id: msg_1\nHost:a:80 '],
    [
      'a request as it was on the wire',
      'POST /x HTTP/1.1\r\nwebhook-id: msg_1\r\nHost: a:80\r\n\r\n{"a": 1}',
    ],
    ['an answer of curl -D', 'HTTP/2 200 \r\nwebhook-id: msg_1\r\nhost: a:80\r\n\r\n'],
    ['JSON', '{"Webhook-Id": "msg_1", "host": "a:80"}'],
    ['JSON with lists', ' {"webhook-id": ["msg_1"], "Host": ["a:80", "b"]}'],
  ])('reads %s', (_, text) => {
    expect([...parseHeaders(text, 'f')]).toEqual(wanted);
  });

  it.each([
    ['webhook-id: 1\nnonsense', 'f: line 2 is not of the form "name: value"'],
    ['{"a": ', 'f: neither JSON nor lines "name: value"'],
    ['{"a": {}}', 'f: the header a is not text'],
  ])('rejects %j', (text, message) => {
    expect(() => parseHeaders(text, 'f')).toThrow(message);
  });
});

describe('parseHeader', () => {
  it('keeps colons and inner spaces of the value', () => {
    expect(parseHeader('Webhook-Signature:  v1,a: v1,b\t', 'x')).toEqual(['webhook-signature', 'v1,a: v1,b']);
  });
});
