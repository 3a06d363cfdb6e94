/** Our handlers of bytes as handlers of `@grpc/grpc-js`. */

import { isIP } from 'node:net';
import { checkServerIdentity } from 'node:tls';
import type {
  ChannelOptions,
  handleServerStreamingCall,
  handleUnaryCall,
  Server,
  ServerUnaryCall,
  sendUnaryData,
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

function serveUnary(
  method: string,
  handler: UnaryHandler,
  observer: CallObserver,
): handleUnaryCall<Buffer, Uint8Array> {
  return (call, callback) => {
    const reply = new UnaryCall(method, call, callback, observer);
    try {
      handler(call.request, reply);
    } catch (error) {
      observer.onFault(method, error);
      reply.fail(fault);
    }
  };
}

/** One running call. Only the first answer counts, so that a handler that answers and then throws does no harm. */
class UnaryCall implements UnaryReply {
  readonly #method: string;
  readonly #call: ServerUnaryCall<Buffer, Uint8Array>;
  readonly #callback: sendUnaryData<Uint8Array>;
  readonly #observer: CallObserver;
  readonly #startedMs: number;
  #answered = false;

  constructor(
    method: string,
    call: ServerUnaryCall<Buffer, Uint8Array>,
    callback: sendUnaryData<Uint8Array>,
    observer: CallObserver,
  ) {
    this.#method = method;
    this.#call = call;
    this.#callback = callback;
    this.#observer = observer;
    this.#startedMs = observer.clock.monotonicMs();
  }

  get abandoned(): boolean {
    return !this.#answered && this.#call.cancelled;
  }

  send(message: Uint8Array): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#callback(null, message);
    this.#observe();
  }

  fail(status: GrpcStatus): void {
    if (this.#answered) return;
    this.#answered = true;
    this.#callback({ code: status.code, details: statusText(status.message) });
    this.#observe();
  }

  #observe(): void {
    this.#observer.onCall(this.#method, this.#observer.clock.monotonicMs() - this.#startedMs);
  }
}

function serveStream(
  method: string,
  handler: StreamHandler,
  observer: CallObserver,
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
      observer.onFault(method, error);
      stream.end(fault);
    }
  };
}

const path = '/grpc.health.v1.Health/';

/** Registers the three methods of the health service. */
export function registerHealth(server: Server, health: HealthService, observer: CallObserver): void {
  const { check, list, watch } = health;
  for (const [method, handler] of Object.entries({ Check: check, List: list })) {
    const serve = serveUnary(method, handler, observer);
    server.register(path + method, serve, encodeBytes, decodeBytes, 'unary');
  }
  const serve = serveStream('Watch', watch, observer);
  server.register(`${path}Watch`, serve, encodeBytes, decodeBytes, 'serverStream');
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
