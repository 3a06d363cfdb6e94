import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';
import { request as httpsRequest } from 'node:https';
import type { SecureContextOptions } from 'node:tls';

export interface HttpAnswer {
  status: number;
  headers: IncomingHttpHeaders;
  body: string;
}

/** Asks a server on this machine, on a connection of its own. */
export function httpAsk(
  port: number,
  path: string,
  {
    body,
    from,
    tls,
    ...options
  }: {
    method?: string;
    headers?: Record<string, string>;
    body?: string;
    /** Own address, of loopback. */
    from?: string;
    /** Asks over TLS; without authorities (`ca`) any certificate will do. */
    tls?: SecureContextOptions;
  } = {},
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const to = { port, host: '127.0.0.1', path, agent: false, localAddress: from };
    const secure = { ...tls, rejectUnauthorized: tls?.ca !== undefined };
    const ask = tls === undefined ? httpRequest : httpsRequest;
    const request = ask({ ...options, ...to, ...(tls && secure) }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => {
        const { headers, statusCode: status = 0 } = response;
        resolve({ status, headers, body: Buffer.concat(chunks).toString() });
      });
    });
    request.on('error', reject);
    request.end(body);
  });
}
