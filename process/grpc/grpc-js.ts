/** Helpers for `@grpc/grpc-js`: messages as bytes, and the server name for TLS. */
import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type { ChannelOptions, VerifyOptions } from '@grpc/grpc-js';

/** The serializer of messages. */
export function encodeBytes(message: Uint8Array): Buffer {
  return Buffer.isBuffer(message)
    ? message
    : Buffer.from(message.buffer, message.byteOffset, message.byteLength);
}

export function decodeBytes(message: Buffer): Buffer {
  return message;
}

/** Replaces an IP address, which gRPC passes to TLS as the server's name and Node rejects there. RFC 6066, section 3. */
const noServerName = 'ip-address.invalid';

/** The options of a TLS channel with which the server's certificate is checked for the right name or address. */
export interface TlsTarget {
  verify: VerifyOptions;
  options: ChannelOptions;
}

/** `serverName` replaces the host of the target; empty: that host. */
export function tlsTarget(target: string, serverName = ''): TlsTarget {
  const name = serverName === '' ? hostOf(target) : serverName;
  if (isIP(name) === 0) {
    return {
      verify: {},
      options: serverName === '' ? {} : { 'grpc.ssl_target_name_override': serverName },
    };
  }
  return {
    verify: { checkServerIdentity: (_, certificate) => checkServerIdentity(name, certificate) },
    options: { 'grpc.ssl_target_name_override': noServerName },
  };
}

/** The host of a gRPC target: `dns:///host:1`, `ipv4:10.0.0.1:1`, `[::1]:1`, `host`. */
function hostOf(target: string): string {
  const address = target.replace(/^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/, '');
  return /^\[([^\]]*)\]/.exec(address)?.[1] ?? address.replace(/:\d*$/, '');
}
