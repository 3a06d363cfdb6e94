/** Waits that second-tries.ts excuses, and an end that it does not. */
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { blockingAsk } from './blocking-ask.ts';
import { ChildProgram } from './child-program.ts';
import { LimiterClient } from './limiter-client.ts';

function program(script: string): ChildProgram {
  const started = new ChildProgram({ command: process.execPath, args: ['-e', script] });
  onTestFinished(() => started.stop('SIGKILL').then(() => undefined));
  return started;
}

/** It takes connections and says nothing. */
async function silentPort(): Promise<number> {
  const server = createServer((socket) => void onTestFinished(() => void socket.destroy()));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  return (server.address() as AddressInfo).port;
}

const never = (): Promise<boolean> => Promise.resolve(false);

it('a program that is not ready in time is out of time', async () => {
  const waiting = program('setInterval(() => {}, 1_000)').startsTo('listen', never, 100);
  await expect(waiting).rejects.toMatchObject({
    outOfTime: true,
    message: expect.stringMatching(/did not listen in time/),
  });
});

it('a program that ends is not out of time, and its end is reported at once', async () => {
  const error = await program('console.log("port taken")')
    .startsTo('listen', never, 60_000)
    .catch((reason: unknown) => reason);
  expect(error).toMatchObject({
    message: expect.stringMatching(/ended before it could listen:\nport taken/),
  });
  expect(error).not.toHaveProperty('outOfTime');
});

it('a gRPC call without an answer is out of time', async () => {
  const client = new LimiterClient(await silentPort());
  onTestFinished(() => client.close());
  await expect(client.ask({ domain: 'd' }, { timeoutMs: 100 })).rejects.toMatchObject({ outOfTime: true });
});

it('a question without an answer is out of time', async () => {
  const url = `https://127.0.0.1:${await silentPort()}/`;
  let error: unknown;
  try {
    blockingAsk({ url, headers: {}, ca: '' }, 100);
  } catch (reason) {
    error = reason;
  }
  expect(error).toMatchObject({ outOfTime: true, message: expect.stringMatching(/no answer in \d+ ms$/) });
});
