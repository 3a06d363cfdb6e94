import { Metadata, type ServerDuplexStream } from '@grpc/grpc-js';
import { expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { unsignedToken } from '../../test/support/service-account-token.ts';
import { addressOf, CallerIdentity, type CallerIdentityOptions, parseTokens } from './caller-identity.ts';
import { TokenReviews } from './token-reviews.ts';

/** Without TLS, with this value of `authorization`. */
function identityOf(authorization: string | undefined, options: Partial<CallerIdentityOptions>) {
  const metadata = new Metadata();
  if (authorization !== undefined) metadata.set('authorization', authorization);
  const call = { metadata, getPeer: () => '10.0.0.1:41000', getAuthContext: () => ({}) };
  const none = { certificates: false, tokens: undefined, reviews: undefined, allowAnonymous: false };
  const identity = new CallerIdentity({ ...none, ...options });
  return identity.of(call as unknown as ServerDuplexStream<Buffer, Buffer>);
}

it.each([undefined, 'p1'])('a service account has the pod that its token is bound to: %s', async (podUid) => {
  const user = 'system:serviceaccount:shop:limiter';
  const clock = new ManualClock(1_000_000);
  const reviews = new TokenReviews({
    ...{ audience: 'weir', perSecond: 1, maxKnown: 1, clock, timers: new ManualTimers() },
    ...{ reviewed: () => {}, failed: () => {} },
    review: async () => ({ user, ...(podUid !== undefined && { podUid }) }),
  });
  const token = unsignedToken({ aud: ['weir'], exp: 2_000 });
  expect(await identityOf(`Bearer ${token}`, { reviews })).toEqual({
    caller: { kind: 'service account', names: [user] },
    expiresMs: 2_000_000,
    ...(podUid !== undefined && { podUid }),
  });
});

it.each([
  [{ certificates: true }, 'a client certificate'],
  [{ tokens: new Map() }, 'a token (authorization: Bearer ...)'],
  [{ certificates: true, tokens: new Map() }, 'a client certificate or a token (authorization: Bearer ...)'],
])('a caller without credentials learns which ones count: %o', async (options, ways) => {
  const message = `the client does not prove its identity: send ${ways}`;
  expect(await identityOf(undefined, options)).toMatchObject({ message });
  expect(await identityOf(undefined, { ...options, allowAnonymous: true })).toEqual({ caller: undefined });
});

it.each([
  ['10.0.0.7:41000', '10.0.0.7'],
  ['::1:41000', '::1'],
  ['fd00::7:8:41000', 'fd00::7:8'],
  ['unknown', 'unknown'],
])('the address of the peer %s is %s', (peer, address) => {
  expect(addressOf(peer)).toBe(address);
});

it('comments and empty lines of a file of tokens may be indented', () => {
  const names = parseTokens('  # the edge\n \n\tedge token-of-the-edge-limiters \n\t# no other\n');
  expect([...names.values()]).toEqual(['edge']);
});
