/** Sends hostile requests, several at a time, and keeps what came back by its status. */
import { connect as connectHttp2 } from 'node:http2';
import { connect } from 'node:net';
import type { HostileRequest } from './hostile-requests.ts';

/** Chosen: an answer that a proxy has to give takes a few milliseconds; of a request that never ends none comes. */
const patienceMs = 400;
/** Chosen: what a connection with several requests has more of comes at once. */
const quietMs = 60;
/** Chosen: so that proxies of one process are busy and answer in time. */
const atATime = 16;

export interface SendTo {
  port: number;
  /** Of 127.0.0.0/8: whose limit is exhausted. */
  from: string;
}

/** How often each status came; `none` where no answer came. `onSent` after each. */
export async function sendAll(
  requests: Iterator<HostileRequest>,
  count: number,
  to: SendTo,
  onSent: () => void = () => {},
): Promise<Map<string, number>> {
  const statuses = new Map<string, number>();
  let left = count;
  const one = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const request: HostileRequest = requests.next().value;
      const came =
        request.kind === 'http1' ? await sendBytes(request.bytes, to) : await sendHttp2(request, to);
      for (const status of came.length === 0 ? ['none'] : came)
        statuses.set(status, (statuses.get(status) ?? 0) + 1);
      onSent();
    }
  };
  await Promise.all(Array.from({ length: atATime }, one));
  return statuses;
}

/** All statuses of a connection: one may have several requests. */
export function sendBytes(bytes: Buffer, { port, from }: SendTo): Promise<string[]> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: from });
    let text = '';
    const end = (): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(
        [...text.matchAll(/HTTP\/1\.[01] (\d{3})/g)]
          .map(([, status]) => status!)
          .filter((one) => one !== '100'),
      );
    };
    let timer = setTimeout(end, patienceMs);
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      clearTimeout(timer);
      timer = setTimeout(end, quietMs);
    });
    socket.on('error', () => {});
    socket.on('close', end);
    socket.write(bytes);
  });
}

function sendHttp2(
  { headers, body, trailers }: Extract<HostileRequest, { kind: 'http2' }>,
  { port, from }: SendTo,
): Promise<string[]> {
  return new Promise((resolve) => {
    const statuses: string[] = [];
    const session = connectHttp2(`http://127.0.0.1:${port}`, {
      createConnection: () => connect({ port, host: '127.0.0.1', localAddress: from }),
    });
    const end = (): void => {
      clearTimeout(timer);
      session.destroy();
      resolve(statuses);
    };
    const timer = setTimeout(end, patienceMs);
    session.on('error', end);
    session.on('close', end);
    const stream = session.request(headers, { endStream: false, waitForTrailers: true });
    stream.on('wantTrailers', () => stream.sendTrailers(trailers));
    stream.on('response', (answer) => statuses.push(String(answer[':status'])));
    stream.on('error', end);
    stream.on('close', end);
    stream.resume();
    stream.end(body);
  });
}
