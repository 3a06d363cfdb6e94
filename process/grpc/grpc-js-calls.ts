/** Our handlers of bytes as handlers of `@grpc/grpc-js`. */

import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type {
  ChannelOptions,
  handleServerStreamingCall,
  handleUnaryCall,
  Server,
  VerifyOptions,
} from '@grpc/grpc-js';
import {
  type CallObserver,
  GrpcCode,
  type GrpcStatus,
  type MessageStream,
  type StreamHandler,
  type UnaryHandler,
  type UnaryReply,
} from './handlers.ts';
import type { HealthService } from './health-service.ts';
import { decodeBytes, encodeBytes, statusText } from './raw-bytes.ts';

const fault: GrpcStatus = { code: GrpcCode.INTERNAL, message: 'internal error' };

/** Only the first answer counts, so that a handler that answers and then throws does no harm. */
function serveUnary(
  method: string,
  handler: UnaryHandler,
  onFault: CallObserver['onFault'],
): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) => {
    let answered = false;
    const reply: UnaryReply = {
      get abandoned() {
        return !answered && call.cancelled;
      },
      send: (message) => {
        if (answered) return;
        answered = true;
        callback(null, message);
      },
      fail: ({ code, message }) => {
        if (answered) return;
        answered = true;
        callback({ code, details: statusText(message) });
      },
    };
    try {
      handler(call.request, reply);
    } catch (error) {
      onFault(method, error);
      reply.fail(fault);
    }
  };
}

function serveStream(
  method: string,
  handler: StreamHandler,
  onFault: CallObserver['onFault'],
): handleServerStreamingCall<Buffer, Uint8Array> {
  return (call) => {
    let ended = false;
    const closeListeners: (() => void)[] = [];
    const close = (): void => {
      ended = true;
      for (const listener of closeListeners.splice(0)) listener();
    };
    const stream: MessageStream = {
      send: (message) => {
        if (!ended) call.write(message);
      },
      end: (status) => {
        if (ended) return;
        close();
        if (status === undefined) call.end();
        else call.emit('error', { code: status.code, details: statusText(status.message) });
      },
      onClose: (listener) => {
        if (ended) listener();
        else closeListeners.push(listener);
      },
    };
    call.on('cancelled', close);
    try {
      handler(call.request, stream);
    } catch (error) {
      onFault(method, error);
      stream.end(fault);
    }
  };
}

const healthPath = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. */
export function registerHealth(
  server: Server,
  health: HealthService,
  onFault: CallObserver['onFault'],
): void {
  const { check, list, watch } = health;
  for (const [method, handler] of Object.entries({ Check: check, List: list })) {
    const serve = serveUnary(method, handler, onFault);
    server.register(healthPath + method, serve, encodeBytes, decodeBytes, 'unary');
  }
  const serve = serveStream('Watch', watch, onFault);
  server.register(`${healthPath}Watch`, serve, encodeBytes, decodeBytes, 'serverStream');
}

/** gRPC hands an IP address to TLS as the server's name, which Node refuses: this goes in its place. RFC 6066, section 3. */
const noServerName = 'ip-address.invalid';

/** What a channel over TLS needs so that the server's certificate is held against the right name or address. */
export interface TlsTarget {
  verify: VerifyOptions;
  options: ChannelOptions;
}

/** `serverName` goes before the host of the target; empty: that host. */
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
