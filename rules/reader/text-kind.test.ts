import { describe, expect, it } from 'vitest';
import { textKind } from './read-manifests.ts';

describe('the kind of a text', () => {
  it.each([
    ['domain: a\ndescriptors: []', 'rule-file'],
    [
      'domain: a\ndescriptors:\n  - key: kind\n    metadata:\n      kind: x\n      apiVersion: y',
      'rule-file',
    ],
    ['{"domain":"a","descriptors":[]}', 'rule-file'],
    ['', 'rule-file'],
    ['not: [yaml', 'rule-file'],
    ['# c\n---\napiVersion: v1\nkind: List', 'manifests'],
    ['"kind" : x', 'manifests'],
    ['kind: x\n  broken', 'manifests'],
    [' {\n "apiVersion": "v1" }', 'manifests'],
    ['[{"kind":"x"}]', 'manifests'],
    ['{"@type":"t","domain":"d"}', 'resources'],
    ['\ufeff{"versionInfo":"1","resources":[]}', 'resources'],
  ])('%j is %s', (text, kind) => {
    expect(textKind(text)).toBe(kind);
  });
});
