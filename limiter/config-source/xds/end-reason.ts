import { type StatusObject, status } from '@grpc/grpc-js';

const hints: readonly (readonly [beginning: string, hint: string])[] = [
  ['Received message larger than max', 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is the bound'],
  ['Failed to connect', 'the connection ended before HTTP/2 began: perhaps one side only speaks TLS'],
];

/** Why a stream ended, in a line: without what gRPC puts around the reason of a failed connection. */
export function endReason({ code, details }: Pick<StatusObject, 'code' | 'details'>): string {
  if (code === status.OK) return 'the server ended the stream';
  const bare = details
    .replace(/^No connection established\. Last error: (?:\w*Error(?: \[\w+\])?: )?/, '')
    .replace(/\. Resolution note: *$/s, '')
    // The time of the attempt.
    .replace(/ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)$/, '')
    // `40E3...:error:0A00010B:SSL routines:function:words:file:line:more`, of OpenSSL.
    .replace(/^(?:write )?[\dA-F]+:error:[\dA-F]+:[^:]*:[^:]*:([^:]+):.*$/s, 'TLS: $1');
  const text = bare.replaceAll(/\s+/g, ' ').trim();
  if (text === '') return `status ${status[code]}`;
  const hint = hints.find(([beginning]) => text.startsWith(beginning))?.[1];
  return hint === undefined ? text : `${text} (${hint})`;
}
