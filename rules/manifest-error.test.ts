import { describe, expect, it } from 'vitest';
import { fieldPath, formatManifestError } from './rule-error.ts';

describe('fieldPath', () => {
  it.each([
    [['spec', 'descriptors', 0, 'rateLimit', 'unit'], 'spec.descriptors[0].rateLimit.unit'],
    [['metadata', 'labels', 'app.kubernetes.io/name'], 'metadata.labels["app.kubernetes.io/name"]'],
    [['spec', ''], 'spec[""]'],
  ])('writes %j as the API server does', (path, text) => {
    expect(fieldPath(path)).toBe(text);
  });
});

describe('formatManifestError', () => {
  it('is the text alone if there is no path', () => {
    expect(formatManifestError({ path: [], text: 'yaml: deficient indentation' })).toBe(
      'yaml: deficient indentation',
    );
  });
});
