import { describe, expect, it } from 'vitest';
import {
  apiObjectKey,
  parseListPage,
  parseWatchEvent,
  resourcePath,
  resourceText,
} from './watch-resource.ts';

const metadata = { resourceVersion: '7' };

describe('resourcePath', () => {
  it.each([
    ['', 'v1', undefined, '/api/v1/things', 'things of v1'],
    ['', 'v1', 'ns', '/api/v1/namespaces/ns/things', 'things of v1'],
    ['g.io', 'v2', 'ns', '/apis/g.io/v2/namespaces/ns/things', 'things of g.io/v2'],
  ])('of group "%s", version %s, namespace %s', (group, version, namespace, path, text) => {
    const resource = { group, version, plural: 'things', namespace };
    expect(resourcePath(resource)).toBe(path);
    expect(resourceText(resource)).toBe(text);
  });
});

describe('apiObjectKey', () => {
  it('leaves out a namespace that there is not', () => {
    expect(apiObjectKey({ metadata: { namespace: 'ns', name: 'a' } })).toBe('ns/a');
    expect(apiObjectKey({ metadata: { name: 'a' } })).toBe('a');
  });
});

describe('parseListPage', () => {
  it('reads a page', () => {
    const items = [{ metadata: { name: 'a' } }];
    expect(parseListPage({ kind: 'ThingList', metadata: { ...metadata, continue: 'x' }, items })).toEqual({
      resourceVersion: '7',
      continueToken: 'x',
      objects: items,
    });
    expect(parseListPage({ kind: 'ThingList', metadata, items: null })?.objects).toEqual([]);
  });

  it.each([
    ['another kind', { kind: 'Status', metadata, items: [] }],
    ['nothing', null],
    ['no version', { kind: 'ThingList', metadata: {}, items: [] }],
    ['items that are no list', { kind: 'ThingList', metadata, items: {} }],
    ['an item without a name', { kind: 'ThingList', metadata, items: [{ metadata: {} }] }],
    ['a continue that is no text', { kind: 'ThingList', metadata: { ...metadata, continue: 1 }, items: [] }],
  ])('takes %s for no list', (_, value) => {
    expect(parseListPage(value)).toBeUndefined();
  });
});

describe('parseWatchEvent', () => {
  it.each([
    { type: 'ADDED', object: { metadata: { name: 'a' } } },
    { type: 'DELETED', object: { metadata: { name: 'a' } } },
  ])('reads $type', (event) => {
    expect(parseWatchEvent(event)).toEqual(event);
  });

  it('reads a bookmark and an error', () => {
    expect(parseWatchEvent({ type: 'BOOKMARK', object: { metadata } })).toEqual({
      type: 'BOOKMARK',
      resourceVersion: '7',
    });
    expect(parseWatchEvent({ type: 'ERROR', object: { code: 410 } })).toEqual({
      type: 'ERROR',
      status: { code: 410 },
    });
  });

  it.each([
    ['another type', { type: 'HELLO', object: { metadata: { name: 'a' } } }],
    ['no object', { type: 'ADDED' }],
    ['a bookmark without version', { type: 'BOOKMARK', object: {} }],
    ['text', 'ADDED'],
  ])('refuses %s', (_, value) => {
    expect(parseWatchEvent(value)).toBeUndefined();
  });
});
