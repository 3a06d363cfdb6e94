import { describe, expect, it } from 'vitest';
import { requestPath } from './text-response.ts';

describe('requestPath', () => {
  const targets: [target: string, path: string, clean: string, location: string][] = [
    ['/json', '/json', '/json', '/json'],
    ['/json?a=1', '/json', '/json', '/json?a=1'],
    ['/%6Ason', '/json', '/json', '/json'],
    ['//json', '//json', '/json', '/json'],
    ['//json?a=//b', '//json', '/json', '/json?a=//b'],
    ['//evil.example/%2e%2e//', '//evil.example/..//', '/', '/'],
    ['/a/../json', '/a/../json', '/json', '/json'],
    ['/../../json/.', '/../../json/.', '/json', '/json'],
    ['/json/', '/json/', '/json/', '/json/'],
    ['/json//', '/json//', '/json/', '/json/'],
    ['//a b%0d%0aX: 1', '//a b\r\nX: 1', '/a b\r\nX: 1', '/a%20b%0D%0AX:%201'],
    ['/', '/', '/', '/'],
    ['http://host:8080/json?x', '/json', '/json', '/json?x'],
    ['http://host', '/', '/', '/'],
    ['http://host?x=1', '/', '/', '/?x=1'],
  ];
  for (const [target, path, clean, location] of targets) {
    it(`reads ${JSON.stringify(target)}`, () => {
      expect(requestPath(target)).toMatchObject({ path, clean, location });
    });
  }

  for (const target of ['/%zz', '/%c3', '*', 'json', '']) {
    it(`rejects ${JSON.stringify(target)}`, () => {
      expect(requestPath(target)).toBeUndefined();
    });
  }

  it('reads the query', () => {
    expect(requestPath('/x?seconds=5&b')?.query.get('seconds')).toBe('5');
  });
});
