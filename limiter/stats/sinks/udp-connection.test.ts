import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../test/support/eventually.ts';
import { ManualTimers } from '../../../test/support/manual-timers.ts';
import { type LookUp, UdpConnection } from './udp-connection.ts';

const probe = Buffer.from('probe');
let timers: ManualTimers;
let receiver: Socket;
let received: string[];
let reported: string[];
let connection: UdpConnection;

beforeEach(async () => {
  timers = new ManualTimers();
  received = [];
  reported = [];
  receiver = createSocket('udp4', (packet) => received.push(packet.toString()));
  receiver.bind(0, '127.0.0.1');
  await once(receiver, 'listening');
});
afterEach(() => {
  connection.close();
  receiver.close();
});

function open(lookUp?: LookUp): void {
  connection = new UdpConnection({
    host: '127.0.0.1',
    port: receiver.address().port,
    timers,
    probe,
    ...(lookUp === undefined ? {} : { lookUp }),
    onUp: () => reported.push('up'),
    onLost: (reason) => reported.push(reason),
    onChange: () => {},
  });
  connection.open();
}

describe('UdpConnection', () => {
  it('counts as connected once its probe was not refused for a second', async () => {
    open();
    await eventually(() => expect(received).toEqual(['probe']));
    timers.advance(999);
    expect([connection.connected, connection.trying, reported]).toEqual([false, true, []]);
    timers.advance(1);
    expect([connection.connected, connection.trying, reported]).toEqual([true, false, ['up']]);
  });

  it('stays up when its host is looked up in vain later', async () => {
    let lookUps = 0;
    open((host) => {
      lookUps += 1;
      return lookUps === 2
        ? Promise.reject(new Error('no answer'))
        : Promise.resolve({ address: host, family: 4 });
    });
    await eventually(() => expect(received).toEqual(['probe']));
    timers.advance(60_000);
    await eventually(() => expect(lookUps).toBe(2));
    timers.advance(60_000);
    await eventually(() => expect(lookUps).toBe(3));
    connection.send(Buffer.from('line'));
    await eventually(() => expect(received).toEqual(['probe', 'line']));
    expect([connection.connected, reported]).toEqual([true, ['up']]);
  });

  it('tries again when its host could not be looked up at first', async () => {
    let lookUps = 0;
    open((host) => {
      lookUps += 1;
      return lookUps === 1
        ? Promise.reject(new Error('no answer'))
        : Promise.resolve({ address: host, family: 4 });
    });
    await eventually(() => expect(reported).toEqual(['no answer']));
    timers.advance(3_000);
    await eventually(() => expect(received).toEqual(['probe']));
    timers.advance(1_000);
    expect(reported).toEqual(['no answer', 'up']);
  });
});
