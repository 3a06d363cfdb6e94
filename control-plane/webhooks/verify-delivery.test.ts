import { Webhook } from 'standardwebhooks';
import { describe, expect, it } from 'vitest';
import { verifyDelivery } from './signing-keys.ts';

// The example of the Standard Webhooks libraries' documentation.
const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const golden = {
  'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
  'webhook-timestamp': '1614265330',
  'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
};
const goldenBody = '{"test": 2432232314}';
const sentMs = 1_614_265_330_000;

interface Changes {
  headers?: Record<string, string>;
  body?: string | Buffer;
  secrets?: string[];
  nowMs?: number;
}

function verify({ headers = {}, body = goldenBody, secrets = [secret], nowMs = sentMs }: Changes = {}) {
  const delivery = {
    headers: new Map(Object.entries({ ...golden, ...headers })),
    body: Buffer.from(body as string),
  };
  return verifyDelivery(delivery, { secrets, toleranceMs: 300_000, nowMs });
}

describe('verifyDelivery', () => {
  const valid = { valid: true, id: golden['webhook-id'], timestampSeconds: 1_614_265_330 };

  it('accepts the golden example', () => {
    expect(verify()).toEqual(valid);
  });

  it('accepts what the library signs', () => {
    const signature = new Webhook(secret).sign('msg_1', new Date(sentMs), 'grüße');
    expect(
      verify({ headers: { 'webhook-id': 'msg_1', 'webhook-signature': signature }, body: 'grüße' }),
    ).toMatchObject({ valid: true });
  });

  it('accepts one good signature among others', () => {
    const other = `whsec_${Buffer.alloc(24).toString('base64')}`;
    const signature = `v1a,abc v1, v1,AAAA ${golden['webhook-signature']}`;
    expect(verify({ headers: { 'webhook-signature': signature }, secrets: [other, secret] })).toEqual(valid);
  });

  it('accepts the ends of the tolerance', () => {
    expect(verify({ nowMs: sentMs + 300_000 })).toEqual(valid);
    expect(verify({ nowMs: sentMs - 300_000 })).toEqual(valid);
  });

  const noneFits = 'no signature matches: the secret, ID, time or body is another one';
  it.each<[string, Changes, string, string]>([
    ['another body', { body: '{"test": 2432232315}' }, 'bad_signature', noneFits],
    ['another id', { headers: { 'webhook-id': 'msg_2' } }, 'bad_signature', noneFits],
    ['another time', { headers: { 'webhook-timestamp': '1614265331' } }, 'bad_signature', noneFits],
    ['another secret', { secrets: [`whsec_${'A'.repeat(32)}`] }, 'bad_signature', noneFits],
    [
      'another version of signatures',
      { headers: { 'webhook-signature': 'v2,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=' } },
      'bad_signature',
      'the header webhook-signature has no signature of version v1',
    ],
    ['no id', { headers: { 'webhook-id': '' } }, 'missing_header', 'the header webhook-id is missing'],
    [
      'a damaged time',
      { headers: { 'webhook-timestamp': '1614265330x' } },
      'bad_timestamp',
      'the header webhook-timestamp is not a number of seconds since 1970',
    ],
    ['bytes that are no text', { body: Buffer.from([0x7b, 0xff]) }, 'bad_body', 'the body is not UTF-8'],
    [
      'a delivery that is too old',
      { nowMs: sentMs + 301_000 },
      'too_old',
      'it was sent 301 s ago, at most 300 s are allowed',
    ],
    [
      'a delivery from the future',
      { nowMs: sentMs - 301_000 },
      'too_new',
      'its time is 301 s ahead of now, at most 300 s are allowed',
    ],
  ])('rejects %s', (_, changes, problem, message) => {
    expect(verify(changes)).toEqual({ valid: false, problem, message });
  });
});
