import type { Attack } from './attack.ts';
import { hostileAttacks } from './attacks-hostile.ts';
import { http1Attacks } from './attacks-http1.ts';
import { http2Attacks } from './attacks-http2.ts';
import { peerAttacks } from './attacks-peers.ts';
import { quotaAttacks } from './attacks-quota.ts';
import { regexAttacks } from './attacks-regex.ts';
import { requestAttacks } from './attacks-requests.ts';

export const allAttacks: readonly Attack[] = [
  ...requestAttacks,
  ...regexAttacks,
  ...http2Attacks,
  ...http1Attacks,
  ...hostileAttacks,
  ...quotaAttacks,
  ...peerAttacks,
];
