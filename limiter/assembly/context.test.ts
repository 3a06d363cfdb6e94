import { hostname } from 'node:os';
import { describe, expect, it } from 'vitest';
import type { LimiterSettings } from '../settings/settings.ts';
import { limiterName } from './context.ts';

describe('limiterName', () => {
  it.each([
    ['pod-1', 'edge-1', 'pod-1'],
    ['', 'edge-1', 'edge-1'],
    ['', 'default', hostname()],
  ])('of the pod %j and the node %j is %j', (podName, xdsNodeId, name) => {
    expect(limiterName({ podName, xdsNodeId } as LimiterSettings)).toBe(name);
  });
});
