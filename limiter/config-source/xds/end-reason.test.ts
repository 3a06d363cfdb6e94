import { status } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import { endReason } from './ads-stream.ts';

describe('endReason', () => {
  const unavailable = status.UNAVAILABLE;
  const connecting = 'No connection established. Last error: ';
  const tail = ' (2026-11-21T12:06:19.440Z)';
  it.each([
    ['a good end', status.OK, '', 'the server ended the stream'],
    ['no words', status.INTERNAL, ' ', 'status INTERNAL'],
    ['several lines', unavailable, 'going away\n  now', 'going away now'],
    [
      'a refused connection',
      unavailable,
      `${connecting}Error: connect ECONNREFUSED 127.0.0.1:1. Resolution note: `,
      'connect ECONNREFUSED 127.0.0.1:1',
    ],
    [
      'a missing certificate',
      unavailable,
      `${connecting}Error: 4043F686427F0000:error:0A00045C:SSL routines:ssl3_read_bytes:tlsv13 alert certificate required:../deps/openssl/openssl/ssl/record/rec_layer_s3.c:918:SSL alert number 116${tail}. Resolution note: `,
      'TLS: tlsv13 alert certificate required',
    ],
    [
      'no HTTP/2',
      unavailable,
      `${connecting}Failed to connect${tail}. Resolution note: `,
      'Failed to connect (the connection ended before HTTP/2 began: perhaps only one side uses TLS)',
    ],
    [
      'too long a response',
      status.RESOURCE_EXHAUSTED,
      'Received message larger than max (3459 vs 1000)',
      'Received message larger than max (3459 vs 1000) (raise XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES)',
    ],
  ])('reports %s', (_, code, details, reason) => {
    expect(endReason({ code, details })).toBe(reason);
  });
});
