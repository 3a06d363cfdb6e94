import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { packageVersion } from '../../process/files/package-file.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { eventually } from '../../test/support/eventually.ts';
import { freePort } from '../../test/support/free-port.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { startReceiver, verified } from '../../test/support/webhook-receiver.ts';
import type { WebhookEvent } from './webhook-event.ts';
import { openWebhooks, type Webhooks, type WebhooksOptions } from './webhooks.ts';

const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString('base64')}`;
const [first, second] = [secretOf(1), secretOf(2)];

/** What was logged, in short. */
let reported: string[];

beforeEach(() => {
  reported = [];
});

function event(number: number): WebhookEvent {
  return {
    id: `msg_${number}`,
    type: 'ratelimitconfig.accepted',
    timestamp: '2026-01-31T12:00:00.000Z',
    data: {
      namespace: 'shop',
      name: `config-${number}`,
      uid: 'u',
      generation: 1,
      domain: 'shop',
      fleet: 'default',
      condition: {
        type: 'Accepted',
        status: 'True',
        reason: 'Valid',
        message: 'grüße',
        lastTransitionTime: '2026-01-31T12:00:00Z',
      },
      servedGeneration: 1,
      servedVersion: 'abc',
      limiters: null,
    },
  };
}

const telemetry = recordedTelemetry((message, fields) => {
  const { id, attempt, reason, retryInMs, count, endpoint } = fields;
  const texts: Record<string, string> = {
    'Delivered a webhook': `${id} delivered at attempt ${attempt}`,
    'Could not deliver a webhook: trying again': `${id} failed: ${reason}, again in ${retryInMs} ms`,
    'Dropped webhooks': `dropped ${count}: ${reason}`,
    'A webhook endpoint answered 410: it gets no more events': `gone: ${endpoint}`,
    'A new secret is in use': 'rotated',
    'A new secret cannot be used: the previous one stays in use': `refused: ${reason}`,
  };
  reported.push(texts[message] ?? message);
});

async function open(urls: string[], options: Partial<WebhooksOptions> = {}): Promise<Webhooks> {
  const webhooks = await openWebhooks({
    urls,
    secret: { variable: 'WEBHOOK_SECRET', value: first },
    queueSize: 100,
    timeoutMs: 5_000,
    allowLocal: true,
    secretOverlapMs: 3_600_000,
    secretIntervalMs: 10,
    clock: systemClock,
    timers: systemTimers,
    // No jitter: the first wait is half a second.
    random: () => 0,
    ...telemetry,
    ...options,
  });
  onTestFinished(() => webhooks.close(0));
  return webhooks;
}

const hears = (...lines: string[]): Promise<void> =>
  eventually(() => expect(reported).toEqual(expect.arrayContaining(lines)), { intervalMs: 5 });

describe('openWebhooks', () => {
  it('delivers an event that the library verifies', async () => {
    const receiver = await startReceiver();
    const webhooks = await open([receiver.url]);
    webhooks.notify(event(1));
    await hears('msg_1 delivered at attempt 1');
    const [delivery] = receiver.deliveries;
    const { id: _, ...body } = event(1);
    expect(verified(first, delivery!)).toEqual(body);
    expect(() => verified(second, delivery!)).toThrow('No matching signature found');
    expect(delivery).toMatchObject({
      path: '/hook',
      id: 'msg_1',
      headers: { 'content-type': 'application/json', 'user-agent': `weir/${packageVersion()}` },
    });
    expect(webhooks.queued).toBe(0);
  });

  it('tries again after errors, with the same id and a new time', async () => {
    const receiver = (await startReceiver()).answer(200, [500, 503]);
    const webhooks = await open([receiver.url], {
      clock: { ...systemClock, nowMs: () => Date.now() - 10_000 * (3 - receiver.deliveries.length) },
    });
    webhooks.notify(event(1));
    await hears('msg_1 delivered at attempt 3');
    expect(reported).toEqual([
      'msg_1 failed: answered 500, again in 500 ms',
      'msg_1 failed: answered 503, again in 1000 ms',
      'msg_1 delivered at attempt 3',
    ]);
    expect(receiver.ids).toEqual(['msg_1', 'msg_1', 'msg_1']);
    for (const delivery of receiver.deliveries) verified(first, delivery);
    const times = receiver.deliveries.map(({ headers }) => Number(headers['webhook-timestamp']));
    expect(times[2]! - times[0]!).toBeGreaterThanOrEqual(20);
    expect(new Set(receiver.deliveries.map(({ body }) => body)).size).toBe(1);
  });

  it('waits as long as the receiver asks', async () => {
    const receiver = (await startReceiver()).answer({ status: 429, headers: { 'retry-after': '3' } });
    (await open([receiver.url])).notify(event(1));
    await hears('msg_1 failed: answered 429, again in 3000 ms');
  });

  it('continues when a receiver that was down comes back', async () => {
    const receiver = await startReceiver();
    await receiver.stop();
    const webhooks = await open([receiver.url]);
    webhooks.notify(event(1));
    webhooks.notify(event(2));
    await hears('msg_1 failed: connection refused, again in 500 ms');
    expect(webhooks.queued).toBe(2);
    await receiver.start();
    await eventually(() => expect(receiver.ids.toSorted()).toEqual(['msg_1', 'msg_2']));
  });

  it('gives up an attempt that takes too long', async () => {
    const receiver = (await startReceiver()).answer(200, ['hang']);
    (await open([receiver.url], { timeoutMs: 300 })).notify(event(1));
    await hears('msg_1 failed: no answer within 300 ms, again in 500 ms', 'msg_1 delivered at attempt 2');
  });

  it('follows no redirect', async () => {
    const other = await startReceiver();
    const receiver = (await startReceiver()).answer({ status: 307, headers: { location: other.url } });
    (await open([receiver.url])).notify(event(1));
    await hears(
      'msg_1 failed: answered 307: webhooks do not follow redirects, so configure the final URL, again in 500 ms',
    );
    expect(other.deliveries).toEqual([]);
  });

  it('never lets one endpoint wait for another', async () => {
    const hanging = (await startReceiver()).answer('hang');
    const healthy = await startReceiver();
    const down = `http://127.0.0.1:${await freePort()}/`;
    const webhooks = await open([hanging.url, down, healthy.url, healthy.url], { timeoutMs: 60_000 });
    for (let i = 0; i < 50; i++) webhooks.notify(event(i));
    await eventually(() => {
      expect([webhooks.queued, hanging.open, healthy.ids.length]).toEqual([100, 8, 50]);
    });
    // The same URL twice is one endpoint.
    expect(healthy.ids).toHaveLength(50);
    expect(healthy.maxOpen).toBeLessThanOrEqual(8);
  });

  it('says what it dropped from a full queue', async () => {
    const receiver = (await startReceiver()).answer('hang');
    const webhooks = await open([receiver.url], { queueSize: 2 });
    for (let i = 1; i <= 12; i++) webhooks.notify(event(i));
    expect(reported).toEqual(['dropped 1: queue full']);
    expect(await telemetry.counted('webhook_events_dropped_total{reason="queue full"}')).toBe(2);
    expect(webhooks.queued).toBe(10);
    await eventually(() => expect(receiver.open).toBe(8));
    receiver.answerHanging();
    await eventually(() => expect(webhooks.queued).toBe(0));
    const others = [1, 2, 3, 4, 5, 6, 7, 8, 11, 12].map((number) => `msg_${number}`);
    expect(receiver.ids.toSorted()).toEqual(others.toSorted());
    await webhooks.close(0);
    expect(reported.filter((line) => line.startsWith('dropped'))).toEqual([
      'dropped 1: queue full',
      'dropped 1: queue full',
    ]);
  });

  it('drops what could not be delivered for too long', async () => {
    const receiver = (await startReceiver()).answer(500);
    const webhooks = await open([receiver.url], { maxAgeMs: 300 });
    webhooks.notify(event(1));
    await hears('dropped 1: too old');
    expect(receiver.deliveries).toHaveLength(1);
    expect(webhooks.queued).toBe(0);
  });

  it('sends nothing more to an endpoint that is gone', async () => {
    const receiver = (await startReceiver()).answer(410);
    const webhooks = await open([receiver.url]);
    webhooks.notify(event(1));
    await hears('dropped 1: endpoint gone');
    webhooks.notify(event(2));
    expect(reported).toEqual([`gone: ${receiver.url}`, 'dropped 1: endpoint gone']);
    expect(await telemetry.counted('webhook_events_dropped_total{reason="endpoint gone"}')).toBe(2);
    expect(webhooks.queued).toBe(0);
    expect(receiver.ids).toEqual(['msg_1']);
  });

  it('sends credentials as a header and never names them', async () => {
    const receiver = (await startReceiver()).answer(500);
    const webhooks = await open([receiver.url.replace('//', '//user:S3CRET@').concat('?t=S3CRET')]);
    webhooks.notify(event(1));
    await eventually(() => expect(receiver.deliveries).toHaveLength(1));
    expect(receiver.deliveries[0]).toMatchObject({
      path: '/hook?t=S3CRET',
      headers: { authorization: `Basic ${btoa('user:S3CRET')}` },
    });
    await eventually(() => expect(reported).toHaveLength(1));
    expect(reported[0]).not.toContain('S3CRET');
  });

  it('repeats nothing that is queued, and gives another process the same ids', async () => {
    const receiver = (await startReceiver()).answer('hang');
    const one = await open([receiver.url]);
    one.notify(event(1));
    one.notify(event(1));
    expect(one.queued).toBe(1);
    await eventually(() => expect(receiver.ids).toEqual(['msg_1']));
    await one.close(0);
    expect(reported).toEqual(['dropped 1: shutdown']);
    receiver.answer(200);
    (await open([receiver.url])).notify(event(1));
    await hears('msg_1 delivered at attempt 1');
    expect(receiver.ids).toEqual(['msg_1', 'msg_1']);
  });
});

describe('close', () => {
  it('lets out what is queued', async () => {
    const receiver = await startReceiver();
    const webhooks = await open([receiver.url]);
    for (let i = 0; i < 30; i++) webhooks.notify(event(i));
    await webhooks.close(5_000);
    expect(receiver.deliveries).toHaveLength(30);
    expect(reported.filter((line) => line.includes('dropped'))).toEqual([]);
    webhooks.notify(event(31));
    expect(reported.at(-1)).toBe('dropped 1: shutdown');
    expect(receiver.ids).not.toContain('msg_31');
  });

  it('does not wait for a receiver that is down', async () => {
    const webhooks = await open([`http://127.0.0.1:${await freePort()}/`]);
    webhooks.notify(event(1));
    await webhooks.close(60_000);
    expect(reported.at(-1)).toBe('dropped 1: shutdown');
    expect(webhooks.queued).toBe(0);
  });

  it('cuts what takes longer than its grace', async () => {
    const receiver = (await startReceiver()).answer('hang');
    const webhooks = await open([receiver.url], { timeoutMs: 60_000 });
    for (let i = 1; i <= 9; i++) webhooks.notify(event(i));
    await webhooks.close(50);
    expect(webhooks.queued).toBe(0);
    await eventually(() => expect(receiver.open).toBe(0));
  });

  it('says when every endpoint has taken an event or never will, and not because of its own end', async () => {
    const [takes, hangs] = [await startReceiver(), (await startReceiver()).answer(503)];
    const webhooks = await open([takes.url, hangs.url], { queueSize: 1 });
    const settled: number[] = [];
    for (const number of [1, 2, 3]) webhooks.notify(event(number), () => settled.push(number));
    // Where one endpoint is down, there is room for the newest.
    await eventually(() => expect(settled.toSorted()).toEqual([1, 2]));
    await eventually(() => expect(takes.deliveries).toHaveLength(3));
    await webhooks.close(0);
    expect(settled).toHaveLength(2);
  });
});

describe('the signing secret', () => {
  it('changes without a restart: both sign for a while, the new one first', async () => {
    const file = join(temporaryFolder(), 'secret');
    writeFileSync(file, `${first}\n`);
    const receiver = await startReceiver();
    const webhooks = await open([receiver.url], { secret: { file } });
    writeFileSync(file, `${second}\n`);
    await hears('rotated');
    expect(webhooks.signingSecret()).toBe(second);
    webhooks.notify(event(1));
    await hears('msg_1 delivered at attempt 1');
    const [delivery] = receiver.deliveries;
    verified(first, delivery!);
    verified(second, delivery!);
    const [newest] = String(delivery!.headers['webhook-signature']).split(' ');
    verified(second, { ...delivery!, headers: { ...delivery!.headers, 'webhook-signature': newest! } });
  });

  it('stops signing with the old one when the overlap is over', async () => {
    const file = join(temporaryFolder(), 'secret');
    writeFileSync(file, first);
    const receiver = await startReceiver();
    const webhooks = await open([receiver.url], { secret: { file }, secretOverlapMs: 0 });
    writeFileSync(file, second);
    await hears('rotated');
    webhooks.notify(event(1));
    await hears('msg_1 delivered at attempt 1');
    expect(() => verified(first, receiver.deliveries[0]!)).toThrow('No matching signature found');
    verified(second, receiver.deliveries[0]!);
  });

  it('stays when the file holds a bad one, which is reported without showing it', async () => {
    const file = join(temporaryFolder(), 'secret');
    writeFileSync(file, first);
    const webhooks = await open([], { secret: { file } });
    writeFileSync(file, 'S3CRET');
    await hears(`refused: ${file}: the signing secret must begin with whsec_`);
    expect(webhooks.signingSecret()).toBe(first);
    writeFileSync(file, `${first}\n\n`);
    writeFileSync(file, second);
    await hears('rotated');
    expect(reported.join()).not.toContain('S3CRET');
  });

  it('must be good at the start', async () => {
    await expect(open([], { secret: { variable: 'WEBHOOK_SECRET', value: 'S3CRET' } })).rejects.toThrow(
      /^WEBHOOK_SECRET: the signing secret must begin with whsec_$/,
    );
  });
});
