/** Rules and requests whose texts look like lines of statsd: receivers get whole lines of the limiter's own, and no others. */
import { createSocket } from 'node:dgram';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, it, onTestFinished } from 'vitest';
import { eventually } from '../support/eventually.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';

const evil = [
  '\nevil:1|c\n',
  '\r\nevil:1|g',
  ':1|c|@0.1',
  '|#evil:tag,a:b',
  '\u2028evil:1|c',
  '\u0085evil:1|c',
  '#@,',
];
const folder = mkdtempSync(join(tmpdir(), 'weir-statsd-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
mkdirSync(join(folder, 'config'));
const rules = evil.map((text) => ({
  key: `k${text}`,
  detailed_metric: true,
  rate_limit: { unit: 'day', requests_per_unit: 1, name: `n${text}` },
}));
// YAML takes JSON as it is.
writeFileSync(join(folder, 'config/w.yaml'), JSON.stringify({ domain: `w${evil[0]}`, descriptors: rules }));

interface Receiver {
  port: number;
  text(): string;
}

async function receiveUdp(): Promise<Receiver> {
  let text = '';
  const socket = createSocket('udp4', (message) => {
    // A datagram ends its last line.
    text += `${message}\n`;
  });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  onTestFinished(() => void socket.close());
  return { port: socket.address().port, text: () => text };
}

async function receiveTcp(): Promise<Receiver> {
  let text = '';
  const server = createServer((socket) => {
    socket.on('data', (chunk) => {
      text += String(chunk);
    });
    socket.on('error', () => {});
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  return { port: (server.address() as AddressInfo).port, text: () => text };
}

const plain = /^(?!evil)[^:|\s\p{Cc}][^:|\n\p{Cc}]*:-?[\d.]+\|(?:c|g|ms)$/u;
const tagged = /^(?!evil)[^:|\s\p{Cc}][^:|\n\p{Cc}]*:-?[\d.]+\|(?:c|g|ms)(?:\|#[^|\n\p{Cc}]*)?$/u;

it.each([
  {
    title: 'statsd by UDP',
    receive: receiveUdp,
    env: { USE_STATSD: 'true', STATSD_PROTOCOL: 'udp' },
    line: plain,
  },
  {
    title: 'statsd by TCP',
    receive: receiveTcp,
    env: { USE_STATSD: 'true', STATSD_PROTOCOL: 'tcp' },
    line: plain,
  },
  {
    title: 'dogstatsd',
    receive: receiveUdp,
    env: { USE_STATSD: 'false', USE_DOG_STATSD: 'true' },
    line: tagged,
  },
])('$title carries no line that a rule or a request made up', async ({ receive, env, line }) => {
  const receiver = await receive();
  const limiter = await InProcessLimiter.start({
    env: { RUNTIME_ROOT: folder, STATSD_HOST: '127.0.0.1', STATSD_PORT: String(receiver.port), ...env },
  });
  for (const key of evil)
    for (const value of evil) await limiter.ask(`w${evil[0]}`, [{ [`k${key}`]: `v${value}` }]);
  await limiter.ask(`unknown${evil[0]}`, [{ [`k${evil[0]}`]: 'v' }]);
  await limiter.stop();
  await eventually(() => expect(receiver.text()).toContain('total_hits'));
  const lines = receiver.text().split('\n').filter(Boolean);
  // Each of the pairs has its own detailed metric: they were sent, and as one line each.
  expect(lines.filter((text) => text.includes('total_hits') && text.includes('evil')).length).toBeGreaterThan(
    20,
  );
  expect(lines.filter((text) => !line.test(text))).toEqual([]);
});
