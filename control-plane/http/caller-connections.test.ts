import { expect, it } from 'vitest';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { CallerConnections } from './ports.ts';

it('counts and logs what is cut, by reason, with the port and the peer', async () => {
  const telemetry = recordedTelemetry();
  const timers = new ManualTimers();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const connections = new CallerConnections({ ...telemetry, clock, timers });
  const counted = (reason: string) => telemetry.counted(`http_refused_total{reason="${reason}"}`);
  expect(await counted('too_many_bytes')).toBe(0);
  connections.of('HTTP').rejected('too_many_bytes', '10.0.0.1:1');
  connections.of('admission').rejected('too_many_connections', '10.0.0.2:2');
  expect(
    await Promise.all(['too_many_bytes', 'too_many_connections', 'too_many_pieces'].map(counted)),
  ).toEqual([1, 1, 0]);
  const message = 'Closed a connection or rejected a request of an HTTP listener';
  expect(telemetry.events).toMatchObject([
    [message, { listener: 'HTTP', peer: '10.0.0.1:1', reason: expect.stringContaining('it used most') }],
    [message, { listener: 'admission', peer: '10.0.0.2:2', times: 1 }],
  ]);
});

it('bounds all ports together', () => {
  const timers = new ManualTimers();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const connections = new CallerConnections({ ...recordedTelemetry(), clock, timers });
  const [one, other] = [connections.of('HTTP'), connections.of('admission')];
  expect(one.connectionMemory).toBe(other.connectionMemory);
  expect(one.turns).toBe(other.turns);
});
