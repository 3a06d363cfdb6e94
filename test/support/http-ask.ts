import { request as httpRequest, type IncomingHttpHeaders } from 'node:http';

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
    ...options
  }: {
    method?: string;
    headers?: Record<string, string>;
    body?: string;
    /** Own address, of loopback. */
    from?: string;
  } = {},
): Promise<HttpAnswer> {
  return new Promise((resolve, reject) => {
    const to = { port, host: '127.0.0.1', path, agent: false, localAddress: from };
    const request = httpRequest({ ...options, ...to }, (response) => {
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
