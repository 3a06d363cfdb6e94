import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../process/time/clock.ts';
import { startReceiver } from '../../test/support/webhook-receiver.ts';
import { localAddressKind, lookupWithoutLocal, parseEndpoint } from './target-address.ts';
import { type AttemptResult, WebhookSender } from './webhook-sender.ts';

const hint = 'set WEBHOOK_ALLOW_LOCAL=true to post there';

async function post(url: string, allowLocal = false): Promise<AttemptResult> {
  const sender = new WebhookSender({
    endpoint: parseEndpoint(url),
    secrets: () => [`whsec_${'A'.repeat(43)}=`],
    timeoutMs: 1_000,
    allowLocal,
    clock: systemClock,
  });
  onTestFinished(() => sender.close());
  return sender.send({ id: 'msg_1', body: '{}' });
}

describe('localAddressKind', () => {
  it.each([
    ['0.0.0.0', 'an unspecified address'],
    ['0.1.2.3', 'an unspecified address'],
    ['::', 'an unspecified address'],
    ['127.0.0.1', 'a loopback address'],
    ['127.255.255.254', 'a loopback address'],
    ['::1', 'a loopback address'],
    ['::ffff:127.0.0.1', 'a loopback address'],
    ['::ffff:7f00:1', 'a loopback address'],
    ['::127.0.0.1', 'a loopback address'],
    ['::ffff:0:127.0.0.1', 'a loopback address'],
    ['64:ff9b::127.0.0.1', 'a loopback address'],
    ['169.254.169.254', 'a link-local address'],
    ['::ffff:169.254.169.254', 'a link-local address'],
    ['64:ff9b::a9fe:a9fe', 'a link-local address'],
    ['fe80::1', 'a link-local address'],
    ['fe80::1%eth0', 'a link-local address'],
    ['febf::1', 'a link-local address'],
    ['100.100.100.200', 'an address of a cloud metadata service'],
    ['fd00:ec2::254', 'an address of a cloud metadata service'],
    ['64:ff9b:1::7f00:1', 'an address of local-use NAT64'],
    ['64:ff9b:1:a9fe:a9:fe00::', 'an address of local-use NAT64'],
    ['64:ff9b:1:ffff::1', 'an address of local-use NAT64'],
    ['255.255.255.255', 'a multicast or broadcast address'],
    ['ff02::1', 'a multicast or broadcast address'],
  ])('names %s %s', (address, kind) => {
    expect(localAddressKind(address)).toBe(kind);
  });

  it.each([
    '10.0.0.1',
    '172.16.0.1',
    '192.168.1.1',
    '100.64.0.1',
    '203.0.113.7',
    '::ffff:10.0.0.1',
    'fd00::1',
    '64:ff9b::203.0.113.7',
    '64:ff9b:2::1',
    '2001:db8::1',
  ])('has nothing against %s', (address) => {
    expect(localAddressKind(address)).toBeUndefined();
  });
});

describe('lookupWithoutLocal', () => {
  const looked = (addresses: string[]): Promise<unknown> =>
    new Promise((resolve) => {
      const lookup = lookupWithoutLocal((_hostname, _options, callback) =>
        callback(
          null,
          addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
        ),
      );
      lookup('hooks.example', { all: true }, (error, found) => resolve(error?.message ?? found));
    });

  it('leaves out local addresses beside others', async () => {
    expect(await looked(['127.0.0.1', '10.0.0.1', '::1'])).toEqual([{ address: '10.0.0.1', family: 4 }]);
  });

  it('fails if all of them are local', async () => {
    expect(await looked(['169.254.169.254'])).toBe(
      `hooks.example resolves to 169.254.169.254, which is a link-local address: ${hint}`,
    );
  });
});

describe('a sender without WEBHOOK_ALLOW_LOCAL', () => {
  it('does not post to the loopback, however it is spelled', async () => {
    const receiver = await startReceiver();
    const { port } = new URL(receiver.url);
    for (const host of [
      '127.0.0.1',
      '127.1',
      '0x7f000001',
      '2130706433',
      '0.0.0.0',
      '[::ffff:127.0.0.1]',
      'localhost',
    ]) {
      const result = await post(`http://user:PASSW0RD@${host}:${port}/t0ken?q=QUERY`);
      expect(result).toMatchObject({
        outcome: 'failed',
        side: 'endpoint',
        reason: expect.stringContaining(hint),
      });
      expect(JSON.stringify(result)).not.toMatch(/PASSW0RD|t0ken|QUERY/);
    }
    expect(receiver.deliveries).toEqual([]);
    expect(await post(receiver.url, true)).toEqual({ outcome: 'delivered' });
  });

  it('does not ask the metadata service', async () => {
    expect(await post('https://169.254.169.254/latest/api/token')).toMatchObject({
      reason: `169.254.169.254 is a link-local address: ${hint}`,
    });
  });
});

describe('a sender', () => {
  it('does not follow a redirect', async () => {
    const receiver = await startReceiver();
    const redirecting = createServer((_request, response) =>
      response.writeHead(307, { location: receiver.url }).end(),
    );
    await new Promise<void>((resolve) => redirecting.listen(0, '127.0.0.1', resolve));
    onTestFinished(() => void redirecting.close());
    const { port } = redirecting.address() as AddressInfo;
    expect(await post(`http://127.0.0.1:${port}/`, true)).toMatchObject({
      reason: 'answered 307: webhooks do not follow redirects, so configure the final URL',
    });
    expect(receiver.deliveries).toEqual([]);
  });
});
