import { describe, expect, it } from 'vitest';
import { readConfigObject } from './kubernetes-source.ts';

const metadata = {
  namespace: 'team',
  name: 'shop',
  uid: 'u-1',
  generation: 3,
  creationTimestamp: '2026-01-01T00:00:01Z',
  resourceVersion: '17',
};

describe('readConfigObject', () => {
  it('keeps what is needed, and no annotations', () => {
    const object = {
      metadata: { ...metadata, annotations: { large: 'x' }, labels: { team: 'a' }, managedFields: [] },
      spec: { domain: 'shop' },
    };
    expect(readConfigObject(object)).toEqual({
      item: {
        namespace: 'team',
        name: 'shop',
        uid: 'u-1',
        generation: 3,
        createdMs: Date.UTC(2026, 0, 1, 0, 0, 1),
        resourceVersion: '17',
        spec: { domain: 'shop' },
        status: undefined,
      },
      className: 'weir',
      labels: { team: 'a' },
    });
  });

  it('takes the newest write beside the status for the last edit', () => {
    const managedFields = [
      { time: '2026-01-01T00:00:01Z' },
      { time: '2026-01-01T00:00:05Z' },
      { time: 'today' },
      { time: '2026-01-01T00:00:09Z', subresource: 'status' },
    ];
    expect(readConfigObject({ metadata: { ...metadata, managedFields } })).toMatchObject({
      item: { editedMs: Date.UTC(2026, 0, 1, 0, 0, 5) },
    });
  });

  it('names the last writer of the status beside control planes', () => {
    const written = (manager: string, second: number) => ({
      manager,
      subresource: 'status',
      time: `2026-01-01T00:00:0${second}Z`,
    });
    const managedFields = [
      written('early', 1),
      written('kubectl-edit', 3),
      written('weir-control-plane', 5),
      { manager: 'apply', time: '2026-01-01T00:00:09Z' },
    ];
    expect(readConfigObject({ metadata: { ...metadata, managedFields } })).toMatchObject({
      item: { statusManager: 'kubectl-edit' },
    });
  });

  it.each(['namespace', 'uid', 'generation'])('cannot read an object without %s', (field) => {
    const rest = Object.fromEntries(Object.entries(metadata).filter(([name]) => name !== field));
    expect(readConfigObject({ metadata: rest as typeof metadata })).toEqual({
      unreadable: `it has no metadata.${field}`,
    });
  });

  it('makes do without a readable time of creation', () => {
    expect(readConfigObject({ metadata: { ...metadata, creationTimestamp: 'today' } })).toMatchObject({
      item: { createdMs: 0 },
    });
  });
});
