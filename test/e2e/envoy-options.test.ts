/** The options of Envoy's rate limit filter in examples/envoy/envoy-options.yaml do what its README says. */
import { afterAll, beforeAll, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { startDocumentedLimiter } from '../support/document-limiter.ts';
import { commandsToRun } from '../support/documents.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { readExample } from '../support/example-cases.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import { replaced } from '../support/replaced.ts';

const text = readExample('envoy', 'envoy-options.yaml');
/** Long enough for a limiter of a busy machine. */
const patient = { 'timeout: 0.25s': 'timeout: 20s' };

describeWithServer("options of Envoy's rate limit filter", envoyProgram, (envoyPath) => {
  let limiter: LimiterProcess;
  const envoys: EnvoyProcess[] = [];

  /** The port of an Envoy with the example's configuration, changed. */
  async function startChanged(changes: Record<string, string>): Promise<number> {
    const [port, servicePort] = [await freePort(), await freePort()];
    const ports = {
      'port_value: 10000 ': `port_value: ${port} `,
      'port_value: 10001 ': `port_value: ${servicePort} `,
      'port_value: 8081 ': `port_value: ${limiter.ports.grpc} `,
    };
    envoys.push(await startEnvoy(envoyPath, replaced(text, { ...ports, ...changes })));
    return port;
  }

  const percent = (numerator: number): Record<string, string> => ({
    'numerator: 10,': `numerator: ${numerator},`,
  });
  const ask = (port: number, path = '/'): Promise<Response> => fetch(`http://127.0.0.1:${port}${path}`);

  beforeAll(async () => {
    limiter = await startDocumentedLimiter(commandsToRun('examples/envoy/README.md'));
  }, 60_000);

  afterAll(async () => {
    await Promise.all(envoys.map((envoy) => envoy.stop()));
    await limiter?.stop();
  });

  it('shows clients of limits and of the wait, and operators of the rule', async () => {
    const port = await startChanged(patient);
    const [envoy] = envoys.slice(-1);
    const answers: Response[] = [];
    // As many as the limit of an address, and as many again: a window may end between.
    for (let i = 0; i < 11; i++) answers.push(await ask(port, '/checkout'));
    const passed = answers.find(({ status }) => status === 200);
    const refused = answers.find(({ status }) => status === 429);
    // The limit of the path is the other one, 1000 per hour, and is not to be reported.
    expect(passed?.headers.get('x-ratelimit-limit')).toBe('5, 5;w=60');
    expect(passed?.headers.get('x-ratelimit-remaining')).toBe('4');
    expect(passed?.headers.has('retry-after')).toBe(false);
    expect(refused?.headers.get('x-ratelimit-remaining')).toBe('0');
    const wait = Number(refused?.headers.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(61);
    await eventually(() => expect(envoy?.program.stdout).toContain('/checkout 429 shop.remote_address\n'));
  }, 60_000);

  it('names every limit to clients without x_ratelimit_option', async () => {
    const port = await startChanged({ ...patient, '"OFF"': 'UNSPECIFIED' });
    const { headers } = await ask(port, '/checkout');
    expect(headers.get('x-ratelimit-limit')).toContain('1000;w=3600');
  }, 60_000);

  it('waits without end for an answer with timeout: 0s', async () => {
    const port = await startChanged({ 'timeout: 0.25s': 'timeout: 0s', ...percent(100) });
    await limiter.program.pause();
    let settled = false;
    const answer = ask(port).finally(() => {
      settled = true;
    });
    // The filter's own default would be 20 ms.
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(settled).toBe(false);
    limiter.program.resume();
    expect([200, 429]).toContain((await answer).status);
  }, 60_000);

  it('limits a part of the requests while the limiter is away', async () => {
    await limiter.stop();
    const statuses = async (numerator: number): Promise<number[]> => {
      const port = await startChanged(percent(numerator));
      const answers = await Promise.all(Array.from({ length: 64 }, () => ask(port)));
      return [...new Set(answers.map(({ status }) => status))].sort();
    };
    expect(await statuses(0)).toEqual([200]);
    expect(await statuses(50)).toEqual([200, 503]);
    expect(await statuses(100)).toEqual([503]);
  }, 60_000);
});
