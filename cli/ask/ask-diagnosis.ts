/** Finds out why a limiter could not be reached. grpc-js does not report it reliably, so one or two extra connections are opened. */
import { X509Certificate } from 'node:crypto';
import { connect as connectPlain } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { type AskEndpoint, type AskTls, endpointText } from './ask-target.ts';

/** The result of one connection. */
export type ProbeOutcome =
  /** The kind of the first bytes. Without any: the peer was silent, or closed before or after the end of the TLS handshake. */
  | { kind: 'http2' | 'http1' | 'foreign' | 'silent' | 'closed' | 'closed-over-tls' }
  | { kind: 'unreachable'; code: string | undefined; reason: string }
  /** An alert of the peer, or an answer without TLS, in the words of OpenSSL. */
  | { kind: 'tls'; reason: string }
  /** `doubt` is a code of Node or OpenSSL. */
  | { kind: 'certificate'; doubt: string; seen: SeenCertificate | undefined };

type SeenCertificate = Pick<X509Certificate, 'issuer' | 'subjectAltName' | 'validFromDate' | 'validToDate'>;

/** Returns the reason and, if known, what to do in a second line; undefined if the connections show nothing. Never rejects. */
export async function diagnose(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<string | undefined> {
  const outcome = await probe(endpoint, tls, timeoutMs);
  // Perhaps only one side uses TLS.
  const isUnclear = ['closed', 'foreign', 'tls', 'silent'].includes(outcome.kind);
  const otherWay = isUnclear ? await probe(endpoint, tls ? undefined : {}, timeoutMs) : undefined;
  return explainFailure({ endpoint, tls, outcome, otherWay, now: new Date() });
}

/** The client's preface and empty SETTINGS. RFC 9113, section 3.4. */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');

/**
 * A server of TLS 1.3 rejects a certificate after the client's part of the handshake. Its alert is lost when it closes with
 * bytes of ours unread, so it gets this long to send it.
 */
const alertMs = 200;

/** Opens one connection and reports what it shows; `tls` undefined: without TLS. Never rejects. */
export function probe(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  // The handshake goes on despite doubts about the certificate, because the probe reports them itself.
  const tlsOptions = { ...endpoint, ...tls, ALPNProtocols: ['h2'], rejectUnauthorized: false };
  const socket = tls === undefined ? connectPlain(endpoint) : connectTls(tlsOptions);
  const { promise, resolve } = Promise.withResolvers<ProbeOutcome>();
  const timers = [setTimeout(() => resolve({ kind: 'silent' }), timeoutMs)];
  let isConnected = false;
  let closed: ProbeOutcome = { kind: 'closed' };
  socket.once('connect', () => {
    isConnected = true;
    if (tls === undefined) socket.write(preface);
  });
  socket.once('secureConnect', () => {
    closed = { kind: 'closed-over-tls' };
    const { authorized, authorizationError } = socket as TLSSocket;
    const seen = (socket as TLSSocket).getPeerX509Certificate();
    // Despite its type, the error is a code.
    if (!authorized) resolve({ kind: 'certificate', doubt: String(authorizationError), seen });
    else timers.push(setTimeout(() => socket.write(preface), alertMs));
  });
  socket.once('data', (bytes: Buffer) => {
    if (bytes.toString('latin1', 0, 5) === 'HTTP/') resolve({ kind: 'http1' });
    else resolve({ kind: bytes[3] === 4 ? 'http2' : 'foreign' });
  });
  socket.on('error', (error: Error & { reason?: unknown }) => {
    if (typeof error.reason === 'string') return resolve({ kind: 'tls', reason: error.reason });
    if (isConnected) return resolve(closed);
    const first: NodeJS.ErrnoException = error instanceof AggregateError ? error.errors[0] : error;
    resolve({ kind: 'unreachable', code: first.code, reason: systemErrorReason(first) });
  });
  socket.once('close', () => resolve(closed));
  return promise.finally(() => {
    timers.forEach(clearTimeout);
    socket.destroy();
  });
}

export interface ProbeFacts {
  endpoint: AskEndpoint;
  tls: AskTls | undefined;
  /** The result of a connection with the same TLS settings as the call. */
  outcome: ProbeOutcome;
  /** The result of a connection with the opposite choice of TLS; undefined if none was tried. */
  otherWay: ProbeOutcome | undefined;
  now: Date;
}

const portHint = 'The limiter answers gRPC at GRPC_PORT, 8081 by default.';
const notYetHint =
  'A limiter listens there only after its store has answered and its rules are loaded; its log says what it waits for.';
const unreachableHints: Record<string, string> = {
  ECONNREFUSED: notYetHint,
  ENOENT: notYetHint,
  EACCES: "GRPC_UDS_MODE says who may write to the limiter's socket.",
};

/** Returns the text of `diagnose` for the results of its connections. */
export function explainFailure(facts: ProbeFacts): string | undefined {
  const { endpoint, tls, outcome, otherWay } = facts;
  const where = endpointText(endpoint);
  if (tls === undefined && speaksTls(otherWay))
    return `${where} accepts only TLS\nAdd --grpc-use-tls, and --grpc-server-ca-file unless the system trusts its authority.`;
  if (tls !== undefined && otherWay?.kind === 'http1')
    return `${where} speaks HTTP/1.1, without TLS\n${portHint}`;
  if (tls !== undefined && otherWay?.kind === 'http2')
    return `${where} does not speak TLS\nLeave out --grpc-use-tls, or start the limiter with GRPC_SERVER_USE_TLS=true.`;
  if (
    outcome.kind === 'tls' &&
    /wrong version number|packet length|no application protocol/.test(outcome.reason)
  )
    return `${where} does not speak HTTP/2 over TLS\n${portHint}`;
  switch (outcome.kind) {
    case 'http2':
      return undefined;
    case 'http1':
      return `${where} speaks HTTP/1.1\n${portHint}`;
    case 'foreign':
      return `${where} does not speak HTTP/2\n${portHint}`;
    case 'unreachable': {
      const hint = unreachableHints[outcome.code ?? ''];
      return `${where}: ${outcome.reason}${hint === undefined ? '' : `\n${hint}`}`;
    }
    case 'silent':
      return `${where} does not answer`;
    case 'certificate':
      return `the certificate of ${where} ${doubtText(outcome.doubt, outcome.seen, facts)}`;
    default:
      return `${where} ${hangUpText(outcome.kind === 'tls' ? `: ${outcome.reason}` : '', facts)}`;
  }
}

function speaksTls(outcome: ProbeOutcome | undefined): boolean {
  if (outcome?.kind === 'tls') return !/wrong version number|packet length/.test(outcome.reason);
  return outcome !== undefined && ['http2', 'certificate', 'closed-over-tls'].includes(outcome.kind);
}

function doubtText(
  doubt: string,
  seen: SeenCertificate | undefined,
  { endpoint, tls, now }: ProbeFacts,
): string {
  if (seen !== undefined && /^UNABLE_TO_(VERIFY|GET_ISSUER)|SELF_SIGNED_CERT/.test(doubt)) {
    const hint = tls?.ca
      ? 'The file of --grpc-server-ca-file needs this authority.'
      : 'Give a file with this authority by --grpc-server-ca-file.';
    return `is issued by ${lineOf(seen.issuer)}, which this client does not trust\n${hint}`;
  }
  if (seen !== undefined && doubt === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const asked = 'path' in endpoint ? 'localhost' : endpoint.host;
    return `is for ${seen.subjectAltName ?? 'no name at all'}, not for ${asked}\nUse a name that the certificate contains, or add this name to the certificate.`;
  }
  // If the certificate itself is in date, an authority above it is not.
  const age = (seen && outOfDate(seen, now)) ?? '';
  if (doubt === 'CERT_HAS_EXPIRED' && age.startsWith('expired'))
    return `${age}\nThe limiter needs a new one.`;
  if (doubt === 'CERT_NOT_YET_VALID' && age.startsWith('is not valid'))
    return `${age}\nCheck the clocks of both machines.`;
  return `is not accepted: ${doubt}`;
}

/** Puts each name of a certificate on a line. */
function lineOf(names: string): string {
  return names.replaceAll('\n', ', ');
}

function outOfDate({ validFromDate, validToDate }: SeenCertificate, now: Date): string | undefined {
  if (validToDate <= now) return `expired at ${validToDate.toISOString()}`;
  return validFromDate > now ? `is not valid before ${validFromDate.toISOString()}` : undefined;
}

/** Returns why the peer may have ended the connection; `alert` is empty if it sent none. */
function hangUpText(alert: string, { tls, now }: ProbeFacts): string {
  if (tls === undefined)
    return 'closed the connection without an error\nA limiter does this when it has GRPC_MAX_CONNECTIONS connections.';
  if (tls.cert !== undefined) {
    const mine = new X509Certificate(tls.cert);
    const age = outOfDate(mine, now);
    const hint =
      age === undefined
        ? `It is issued by ${lineOf(mine.issuer)} for ${mine.subjectAltName ?? 'no name'}: GRPC_CLIENT_TLS_CACERT must contain that authority, and the names must include GRPC_CLIENT_TLS_SAN if it is set. The limiter's log has the reason.`
        : `The certificate of --grpc-cert-file ${age}.`;
    return `closed the connection after it received the certificate${alert}\n${hint}`;
  }
  if (alert.endsWith('certificate required'))
    return 'requires a certificate of its callers\nAdd --grpc-cert-file and --grpc-key-file.';
  return `closed the connection in the TLS handshake${alert}\nIt may require a certificate: --grpc-cert-file and --grpc-key-file.`;
}
