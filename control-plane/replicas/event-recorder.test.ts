import { expect, it, onTestFinished } from 'vitest';
import { configObject } from '../../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { type ApiAnswer, aMoment, ScriptedApi, soon } from '../../test/support/scripted-api.ts';
import { EventRecorder } from './event-recorder.ts';

const object = configObject({ name: 'shop', namespace: 'team' });
const created: ApiAnswer = { status: 201 };

/** A recorder whose API server stores events by name, and answers as `state.answers` say, at the end with success. */
async function setUp({ instances = ['replica-0'] } = {}) {
  const { api, client } = await ScriptedApi.start();
  const telemetry = recordedTelemetry();
  const timers = new ManualTimers();
  const clock = { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs };
  const recorders = instances.map((instance) => {
    const recorder = new EventRecorder({ client, instance, clock, timers, random: () => 0, ...telemetry });
    onTestFinished(() => recorder.close());
    return recorder;
  });
  const recorder = recorders[0] as EventRecorder;
  const stored = new Map<string, Record<string, unknown>>();
  const answers: ApiAnswer[] = [];
  api.answer = ({ method, path, body }) => {
    const { name } = (body['metadata'] ?? {}) as { name?: string };
    const scripted = answers.shift();
    if (scripted !== undefined && scripted !== 'lost' && scripted.status >= 400) return scripted;
    if (method === 'PATCH') {
      const known = stored.get(path.slice(path.lastIndexOf('/') + 1));
      if (known === undefined) return { status: 404, reason: 'NotFound' };
      Object.assign(known, body);
      return { status: 200 };
    }
    if (stored.has(name!)) return { status: 409, reason: 'AlreadyExists' };
    stored.set(name!, body);
    return scripted ?? created;
  };
  const record = (note = 'accepted', by = 0, resourceVersion = '1') =>
    recorders[by]!.record({ object: { ...object, resourceVersion }, type: 'Normal', reason: 'Valid', note });
  return { api, recorder, record, telemetry, timers, stored, answers };
}

const lost = 'Could not record an event';

it('creates an event once although the first answer was lost, and reports nothing', async () => {
  const { api, record, telemetry, timers, stored, answers } = await setUp();
  answers.push('lost');
  record();
  await api.written(1);
  await soon(() => expect(timers.size).toBe(1));
  timers.advance(250);
  await api.written(2);
  await aMoment();
  expect([...stored.values()].map(({ note }) => note)).toEqual(['accepted']);
  expect(timers.size).toBe(0);
  expect(telemetry.messages()).not.toContain(lost);
});

it.each([401, 408, 429, 503])('repeats an event after %i', async (status) => {
  const { api, record, telemetry, timers, stored, answers } = await setUp();
  answers.push({ status });
  record();
  await api.written(1);
  await soon(() => expect(timers.size).toBe(1));
  timers.advance(250);
  await soon(() => expect(stored.size).toBe(1));
  expect(telemetry.messages()).toEqual([]);
});

it.each([400, 403, 404, 409, 422])('drops an event after %i, with a line in the log', async (status) => {
  const { api, record, telemetry, timers, stored, answers } = await setUp();
  answers.push({ status, message: 'no' });
  record();
  await soon(() => expect(telemetry.messages()).toEqual([lost]));
  timers.advance(60_000);
  await aMoment();
  expect([api.writes.length, stored.size]).toEqual([1, 0]);
});

it('gives an event up after four attempts', async () => {
  const { api, record, telemetry, timers, answers } = await setUp();
  answers.push(...Array<ApiAnswer>(9).fill({ status: 503 }));
  record();
  for (let attempt = 1; attempt < 4; attempt++) {
    await api.written(attempt);
    await soon(() => expect(timers.size).toBe(1));
    timers.advance(5_000);
  }
  await soon(() => expect(telemetry.messages()).toEqual([lost]));
  timers.advance(60_000);
  await aMoment();
  expect(api.writes).toHaveLength(4);
});

it('counts an event that comes again, in the event that is there', async () => {
  const { api, record, stored } = await setUp();
  record();
  await soon(() => expect(stored.size).toBe(1));
  record();
  await api.written(2);
  await soon(() => expect([...stored.values()][0]?.['series']).toMatchObject({ count: 2 }));
  expect(stored.size).toBe(1);
});

it('stores the same event of two replicas once, and others side by side', async () => {
  const { api, record, stored, telemetry } = await setUp({ instances: ['first', 'second', 'third'] });
  for (const by of [0, 1]) for (const note of ['accepted', 'in force']) record(note, by);
  record('accepted', 2, 'another version');
  await api.written(5);
  await aMoment();
  const notes = [...stored.values()].map(({ note }) => note);
  expect(notes.toSorted()).toEqual(['accepted', 'accepted', 'in force']);
  expect(telemetry.messages()).not.toContain(lost);
});

it('creates an event with its count if the first one has expired', async () => {
  const { record, stored } = await setUp();
  record();
  await soon(() => expect(stored.size).toBe(1));
  stored.clear();
  record();
  await soon(() => expect([...stored.values()][0]?.['series']).toMatchObject({ count: 2 }));
});

it('takes 25 events of one object at once, and one more every 20 s', async () => {
  const { record, telemetry, timers } = await setUp();
  const dropped = () => telemetry.counted('events_dropped_total');
  for (let index = 0; index < 25; index++) record(`note ${index}`);
  expect(await dropped()).toBe(0);
  record('note 25');
  expect(await dropped()).toBe(1);
  timers.advance(19_000);
  record('note 26');
  expect(await dropped()).toBe(2);
  timers.advance(1_000);
  record('note 27');
  expect(await dropped()).toBe(2);
});

it('writes 20 events at once, and ten a second', async () => {
  const { api, record, timers } = await setUp();
  for (let index = 0; index < 25; index++) record(`note ${index}`);
  await api.written(20);
  await aMoment();
  expect(api.writes).toHaveLength(20);
  timers.advance(100);
  await api.written(21);
  await aMoment();
  expect(api.writes).toHaveLength(21);
});

it('forgets what waits when another replica leads', async () => {
  const { api, recorder, record, timers } = await setUp();
  for (let index = 0; index < 25; index++) record(`note ${index}`);
  await api.written(20);
  recorder.clear();
  timers.advance(10_000);
  await aMoment();
  expect(api.writes).toHaveLength(20);
});

it.each([
  ['a note of 1,024 bytes', 'x'.repeat(1_024), 'x'.repeat(1_024)],
  ['a longer one', 'x'.repeat(1_025), `${'x'.repeat(1_021)}...`],
  ['one of characters of three bytes', '\u20ac'.repeat(400), `${'\u20ac'.repeat(340)}...`],
  ['one of characters of four bytes', '\u{1f600}'.repeat(300), `${'\u{1f600}'.repeat(255)}...`],
  [
    'one that ends in a character of four bytes',
    `x${'\u{1f600}'.repeat(300)}`,
    `x${'\u{1f600}'.repeat(255)}...`,
  ],
])('stores as much of %s as the API server accepts, in whole characters', async (_, note, expected) => {
  const { record, stored } = await setUp();
  record(note);
  await soon(() => expect(stored.size).toBe(1));
  const [event] = stored.values();
  expect(event).toMatchObject({ note: expected });
});
