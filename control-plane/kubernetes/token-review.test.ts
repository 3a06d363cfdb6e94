import { describe, expect, it } from 'vitest';
import { ApiError, type ApiRequest } from './api.ts';
import { reviewToken } from './token-review.ts';

const question = { token: 'the-token', audience: 'weir' };
const authenticated = { authenticated: true, user: { username: 'system:serviceaccount:shop:limiter' } };
const unreachable = new ApiError({ status: 0, reason: 'Unreachable', message: 'away' });

/** Answers each request with the next of these, and records it. */
function server(...answers: (object | ApiError)[]) {
  const requests: ApiRequest[] = [];
  const request = async (asked: ApiRequest) => {
    requests.push(asked);
    const answer = answers.shift();
    if (answer instanceof ApiError) throw answer;
    return { status: answer };
  };
  return { client: { request: request as never }, requests };
}

describe('reviewToken', () => {
  it('asks for the token and its audience', async () => {
    const { client, requests } = server({ ...authenticated, audiences: ['weir'] });
    await reviewToken(client, question);
    expect(requests).toMatchObject([
      {
        method: 'POST',
        path: '/apis/authentication.k8s.io/v1/tokenreviews',
        body: { kind: 'TokenReview', spec: { token: 'the-token', audiences: ['weir'] } },
      },
    ]);
  });

  it.each<[name: string, status: object | undefined, outcome: object]>([
    [
      'the user',
      { ...authenticated, audiences: ['other', 'weir'] },
      { user: 'system:serviceaccount:shop:limiter' },
    ],
    [
      'the pod that the token is bound to',
      {
        ...authenticated,
        audiences: ['weir'],
        user: { username: 'limiter', extra: { 'authentication.kubernetes.io/pod-uid': ['pod-1'] } },
      },
      { user: 'limiter', podUid: 'pod-1' },
    ],
    ['the reason of the server', { authenticated: false, error: 'expired' }, { problem: 'expired' }],
    ['that it is not authenticated', { audiences: ['weir'] }, { problem: 'not authenticated' }],
    ['that a token has no user', { ...authenticated, user: {} }, { problem: 'not authenticated' }],
    ['that nothing is known', undefined, { problem: 'not authenticated' }],
    [
      'a token for others',
      { ...authenticated, audiences: ['other'] },
      { problem: 'not for the audience weir' },
    ],
    ['a token for the server itself', authenticated, { problem: 'not for the audience weir' }],
  ])('reports %s', async (_, status, outcome) => {
    const { client } = server(...(status === undefined ? [] : [status]));
    expect(await reviewToken(client, question)).toEqual(outcome);
  });

  it('asks once more if a connection ended without an answer', async () => {
    const { client, requests } = server(unreachable, { ...authenticated, audiences: ['weir'] });
    expect(await reviewToken(client, question)).toHaveProperty('user');
    expect(requests).toHaveLength(2);
    const dead = server(unreachable, unreachable, {});
    await expect(reviewToken(dead.client, question)).rejects.toBe(unreachable);
    expect(dead.requests).toHaveLength(2);
  });

  it('asks only once if the server answers with an error', async () => {
    const refused = new ApiError({ status: 403, reason: 'Forbidden', message: 'no' });
    const { client, requests } = server(refused, {});
    await expect(reviewToken(client, question)).rejects.toBe(refused);
    expect(requests).toHaveLength(1);
  });
});
