/** Why a limiter could not be asked, from what a connection to it has shown: a reason, and what to do where that is known. */
import { X509Certificate } from 'node:crypto';
import { type AskEndpoint, endpointText } from './ask-address.ts';
import type { ProbeOutcome, SeenCertificate } from './ask-probe.ts';
import type { AskTls } from './ask-tls.ts';

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
