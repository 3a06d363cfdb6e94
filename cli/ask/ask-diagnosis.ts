import { X509Certificate } from 'node:crypto';
import { connect as connectPlain } from 'node:net';
import { resolve } from 'node:path';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { systemErrorReason } from '../../process/log/error-text.ts';
import { UsageError } from '../shared/flags.ts';
import type { AskTls } from './ask-call.ts';

/** Where one connection goes. */
type AskEndpoint = { host: string; port: number } | { path: string };

export interface AskAddress {
  /** As gRPC takes it. */
  target: string;
  /** Undefined for targets that only gRPC can resolve: several addresses, abstract sockets, `xds:`. */
  endpoint: AskEndpoint | undefined;
}

/** What gRPC takes where none is named. */
const defaultPort = 443;

/** Reads `host:port`, the path of a Unix socket (`unix:/path`, or a path that shows itself by `/` or `.`), or a gRPC target. */
export function parseAddress(text: string): AskAddress {
  if (text === '') throw new UsageError('--dial-string is host:port, not ""');
  const url = /^https?:\/\/([^/]*)/.exec(text);
  if (url !== null) throw new UsageError(`--dial-string is host:port, not a URL: "${url[1]}" may do`);
  if (/^\.{0,2}\//.test(text)) return { target: `unix:${resolve(text)}`, endpoint: { path: resolve(text) } };
  const socket = /^unix:(?:\/\/(?=\/))?(.+)$/s.exec(text)?.[1];
  if (socket !== undefined) return { target: text, endpoint: { path: socket } };
  return { target: text, endpoint: tcpEndpoint(text) };
}

function tcpEndpoint(text: string): AskEndpoint | undefined {
  const address = text.replace(/^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/, '');
  const match = /^(?:\[([^\]]+)\]|([^:/,[\]]+))(?::(\d+))?$/.exec(address);
  if (match === null) return undefined;
  const port = match[3] === undefined ? defaultPort : Number(match[3]);
  if (port < 1 || port > 65_535) {
    throw new UsageError(
      `--dial-string "${text}": a port is a whole number from 1 to 65535, not "${match[3]}"`,
    );
  }
  return { host: (match[1] ?? match[2]) as string, port };
}

/** As people write it. */
export function endpointText(endpoint: AskEndpoint): string {
  if ('path' in endpoint) return endpoint.path;
  return endpoint.host.includes(':')
    ? `[${endpoint.host}]:${endpoint.port}`
    : `${endpoint.host}:${endpoint.port}`;
}

/** Why a limiter could not be asked, from what a connection to it has shown: a reason, and what to do where that is known. */

export interface Trouble {
  reason: string;
  hint?: string;
}

export interface TroubleFacts {
  endpoint: AskEndpoint;
  tls: AskTls | undefined;
  /** Of a connection as the call's own. */
  outcome: ProbeOutcome;
  /** Of one with TLS where that had none, and the other way round; undefined where it was not tried. */
  otherWay: ProbeOutcome | undefined;
  now: Date;
}

/** Undefined when the connection shows nothing wrong. */
export function troubleOf(facts: TroubleFacts): Trouble | undefined {
  const { endpoint, tls, outcome, otherWay } = facts;
  const where = endpointText(endpoint);
  if (tls === undefined ? isTls(otherWay) : otherWay?.kind === 'http2' || otherWay?.kind === 'http1') {
    return wrongWay(where, otherWay as ProbeOutcome, tls);
  }
  switch (outcome.kind) {
    case 'http2':
      return undefined;
    case 'http1':
      return { reason: `${where} speaks HTTP/1.1`, hint: grpcPortHint };
    case 'foreign':
      return { reason: `${where} does not speak HTTP/2`, hint: grpcPortHint };
    case 'unreachable':
      return unreachable(where, outcome);
    case 'silent':
      return { reason: `${where} does not answer` };
    case 'certificate':
      return doubtful(facts, outcome.doubt, outcome.seen);
    case 'tls':
    case 'closed':
      return brokenOff(facts, outcome);
  }
}

const grpcPortHint = 'The limiter answers gRPC at GRPC_PORT, 8081 unless it was told otherwise.';

function isTls(outcome: ProbeOutcome | undefined): boolean {
  return (
    outcome?.kind === 'http2' ||
    outcome?.kind === 'certificate' ||
    (outcome?.kind === 'closed' && outcome.isSecure) ||
    (outcome?.kind === 'tls' && !/wrong version number|packet length/.test(outcome.reason))
  );
}

function wrongWay(where: string, otherWay: ProbeOutcome, tls: AskTls | undefined): Trouble {
  if (tls === undefined) {
    const hint =
      'Add --grpc-use-tls, and --grpc-server-ca-file where its authority is none of the usual ones.';
    return { reason: `${where} speaks TLS alone`, hint };
  }
  return otherWay.kind === 'http1'
    ? { reason: `${where} speaks HTTP/1.1, without TLS`, hint: grpcPortHint }
    : {
        reason: `${where} does not speak TLS`,
        hint: 'Leave out --grpc-use-tls, or start the limiter with GRPC_SERVER_USE_TLS=true.',
      };
}

function unreachable(where: string, { code, reason }: { code: string | undefined; reason: string }): Trouble {
  if (code === 'ECONNREFUSED' || code === 'ENOENT') {
    return {
      reason: `${where}: ${reason}`,
      hint: 'A limiter listens there only when its store has answered and its rules are loaded; its log says what it waits for.',
    };
  }
  if (code === 'EACCES') {
    return {
      reason: `${where}: ${reason}`,
      hint: "GRPC_UDS_MODE says who may write to the limiter's socket.",
    };
  }
  return { reason: `${where}: ${reason}` };
}

const unknownAuthority = new Set([
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'DEPTH_ZERO_SELF_SIGNED_CERT',
]);

function doubtful(
  { endpoint, tls, now }: TroubleFacts,
  doubt: string,
  seen: SeenCertificate | undefined,
): Trouble {
  const whose = `the certificate of ${endpointText(endpoint)}`;
  if (seen !== undefined && unknownAuthority.has(doubt)) {
    const hint =
      tls?.ca === undefined
        ? 'Name the file with its authority by --grpc-server-ca-file.'
        : 'The file of --grpc-server-ca-file has other authorities; it needs that one.';
    return { reason: `${whose} is issued by ${seen.issuer}, which is not trusted here`, hint };
  }
  if (seen !== undefined && doubt === 'ERR_TLS_CERT_ALTNAME_INVALID') {
    const asked = 'path' in endpoint ? 'localhost' : endpoint.host;
    const names = seen.names === '' ? 'no name at all' : seen.names;
    const hint = 'Dial a name that the certificate has, or have that name put into it.';
    return { reason: `${whose} is for ${names}, not for ${asked}`, hint };
  }
  if (seen !== undefined && doubt === 'CERT_HAS_EXPIRED' && seen.validTo <= now) {
    return {
      reason: `${whose} expired at ${seen.validTo.toISOString()}`,
      hint: 'The limiter needs a new one.',
    };
  }
  if (seen !== undefined && doubt === 'CERT_NOT_YET_VALID' && seen.validFrom > now) {
    const hint = 'Look at the clocks of both machines.';
    return { reason: `${whose} is not good before ${seen.validFrom.toISOString()}`, hint };
  }
  return { reason: `${whose} is not accepted: ${doubt}` };
}

function brokenOff({ endpoint, tls, now }: TroubleFacts, outcome: ProbeOutcome): Trouble {
  const where = endpointText(endpoint);
  const alert = outcome.kind === 'tls' ? `: ${outcome.reason}` : '';
  if (tls === undefined) {
    const hint = 'A limiter does so when it has GRPC_MAX_CONNECTIONS of them.';
    return { reason: `${where} closed the connection without a word`, hint };
  }
  if (tls.cert !== undefined) return refusedCertificate(where, new X509Certificate(tls.cert), alert, now);
  if (alert.endsWith('certificate required')) {
    const hint = 'Add --grpc-cert-file and --grpc-key-file.';
    return { reason: `${where} wants a certificate of its callers`, hint };
  }
  const hint = 'It may want a certificate: --grpc-cert-file and --grpc-key-file.';
  return { reason: `${where} closed the connection in the TLS handshake${alert}`, hint };
}

function refusedCertificate(where: string, mine: X509Certificate, alert: string, now: Date): Trouble {
  const reason = `${where} closed the connection when it was shown the certificate${alert}`;
  if (mine.validToDate <= now) {
    return { reason, hint: `That of --grpc-cert-file expired at ${mine.validToDate.toISOString()}.` };
  }
  if (mine.validFromDate > now) {
    return {
      reason,
      hint: `That of --grpc-cert-file is not good before ${mine.validFromDate.toISOString()}.`,
    };
  }
  const issuer = mine.issuer.replaceAll('\n', ', ');
  const names = mine.subjectAltName ?? 'no name';
  return {
    reason,
    hint: `It is issued by ${issuer} for ${names}: that authority must be in GRPC_CLIENT_TLS_CACERT, and GRPC_CLIENT_TLS_SAN, where it is set, among the names. The limiter's log has the reason.`,
  };
}

/** One connection of our own, to see what gRPC's library does not tell: what is at the other end, and why it hung up. */

/** What of the server's certificate helps to see what is wrong with it. */
interface SeenCertificate {
  issuer: string;
  /** As `DNS:a, IP Address:1.2.3.4`; empty: none. */
  names: string;
  validFrom: Date;
  validTo: Date;
}

export type ProbeOutcome =
  /** SETTINGS came. */
  | { kind: 'http2' }
  | { kind: 'http1' }
  /** Something else came. */
  | { kind: 'foreign' }
  | { kind: 'unreachable'; code: string | undefined; reason: string }
  /** It hung up: before the end of the handshake or after it, where there is one. */
  | { kind: 'closed'; isSecure: boolean }
  /** An alert of the other side, or no TLS at all, in the words of OpenSSL. */
  | { kind: 'tls'; reason: string }
  /** `doubt` is a code of Node or OpenSSL. */
  | { kind: 'certificate'; doubt: string; seen: SeenCertificate | undefined }
  | { kind: 'silent' };

/** The client's preface and empty SETTINGS. RFC 9113, section 3.4. */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0', 'latin1');

/**
 * A server of TLS 1.3 refuses a certificate after the client's part of the handshake. Its alert is lost when it closes with
 * bytes of ours unread, so it gets this long to send it.
 */
const alertMs = 200;

/** Never rejects. `tls` undefined: without TLS. */
export function probe(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<ProbeOutcome> {
  const socket = tls === undefined ? connectPlain(endpoint) : connectTls(tlsOptions(endpoint, tls));
  return new Promise((resolve) => {
    let isConnected = false;
    let isSecure = false;
    let speaking: NodeJS.Timeout | undefined;
    const finish = (outcome: ProbeOutcome): void => {
      clearTimeout(timer);
      clearTimeout(speaking);
      socket.destroy();
      resolve(outcome);
    };
    const timer = setTimeout(() => finish({ kind: 'silent' }), timeoutMs);
    socket.once('connect', () => {
      isConnected = true;
      if (tls === undefined) socket.write(preface);
    });
    socket.once('secureConnect', () => {
      isSecure = true;
      const doubted = doubtOf(socket as TLSSocket);
      if (doubted !== undefined) finish(doubted);
      else speaking = setTimeout(() => socket.write(preface), alertMs);
    });
    socket.once('data', (bytes: Buffer) => finish(kindOf(bytes)));
    socket.on('error', (error) => finish(outcomeOf(error, isConnected, isSecure)));
    socket.once('close', () => finish({ kind: 'closed', isSecure }));
  });
}

/** Doubts are ours to tell, so that they do not end the handshake. */
function tlsOptions(endpoint: AskEndpoint, tls: AskTls): ConnectionOptions {
  return { ...endpoint, ...tls, ALPNProtocols: ['h2'], rejectUnauthorized: false };
}

function doubtOf(socket: TLSSocket): ProbeOutcome | undefined {
  if (socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const seen =
    certificate === undefined
      ? undefined
      : {
          issuer: certificate.issuer.replaceAll('\n', ', '),
          names: certificate.subjectAltName ?? '',
          validFrom: certificate.validFromDate,
          validTo: certificate.validToDate,
        };
  // A code, despite its type.
  return { kind: 'certificate', doubt: String(socket.authorizationError), seen };
}

function kindOf(bytes: Buffer): ProbeOutcome {
  if (bytes.toString('latin1', 0, 5) === 'HTTP/') return { kind: 'http1' };
  return { kind: bytes[3] === 4 ? 'http2' : 'foreign' };
}

function outcomeOf(error: Error, isConnected: boolean, isSecure: boolean): ProbeOutcome {
  const { reason } = error as { reason?: unknown };
  if (typeof reason === 'string') return { kind: 'tls', reason };
  if (isConnected) return { kind: 'closed', isSecure };
  const first = error instanceof AggregateError ? (error.errors[0] as Error) : error;
  return {
    kind: 'unreachable',
    code: (first as NodeJS.ErrnoException).code,
    reason: systemErrorReason(first),
  };
}

/** Looks for what keeps a limiter from being asked, by a connection or two. Undefined when nothing shows. */
export async function diagnose(
  endpoint: AskEndpoint,
  tls: AskTls | undefined,
  timeoutMs: number,
): Promise<Trouble | undefined> {
  const outcome = await probe(endpoint, tls, timeoutMs);
  const anyTls = { ca: undefined, cert: undefined, key: undefined };
  const otherWay = isUnclear(outcome)
    ? await probe(endpoint, tls === undefined ? anyTls : undefined, timeoutMs)
    : undefined;
  return troubleOf({ endpoint, tls, outcome, otherWay, now: new Date() });
}

/** It may be TLS on one side alone. */
function isUnclear(outcome: ProbeOutcome): boolean {
  if (outcome.kind === 'closed') return !outcome.isSecure;
  return outcome.kind === 'foreign' || outcome.kind === 'tls' || outcome.kind === 'silent';
}
