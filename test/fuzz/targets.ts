import { connectionTarget } from './connection-target.ts';
import { deltaTarget } from './delta-target.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import { hpackTarget } from './hpack-target.ts';
import { messageTarget } from './message-target.ts';
import { requestTarget } from './request-target.ts';

export const fuzzTargets: readonly FuzzTarget[] = [
  hpackTarget,
  connectionTarget,
  messageTarget,
  requestTarget,
  deltaTarget,
];
