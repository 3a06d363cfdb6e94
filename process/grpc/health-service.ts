/**
 * The standard health service on top of a HealthView.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/health-checking.md
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  HealthCheckRequestSchema,
  HealthCheckResponseSchema,
  HealthListResponseSchema,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from '../../gen/grpc/health/v1/health_pb.ts';
import { GrpcCode, type MessageStream, type StreamHandler, type UnaryHandler } from './handlers.ts';
import type { HealthView } from './health.ts';

const undecodable = { code: GrpcCode.INTERNAL, message: 'cannot decode the request' };

export class HealthService {
  readonly #health: HealthView;
  readonly #services: readonly string[];
  readonly #watches = new Set<Watch>();
  #stopped = false;

  /** `services` are the names that have the health of the process. So does the empty name, which stands for the whole server. */
  constructor(health: HealthView, services: readonly string[]) {
    this.#health = health;
    this.#services = ['', ...services];
  }

  readonly check: UnaryHandler = (request, reply) => {
    const service = requestedService(request);
    if (service === undefined) reply.fail(undecodable);
    else if (!this.#services.includes(service)) {
      reply.fail({ code: GrpcCode.NOT_FOUND, message: 'unknown service' });
    } else reply.send(checkResponse(this.#status()));
  };

  readonly list: UnaryHandler = (_request, reply) => {
    const status = this.#status();
    const statuses = Object.fromEntries(this.#services.map((service) => [service, { status }]));
    reply.send(toBinary(HealthListResponseSchema, create(HealthListResponseSchema, { statuses })));
  };

  readonly watch: StreamHandler = (request, stream) => {
    const service = requestedService(request);
    if (service === undefined) {
      stream.end(undecodable);
      return;
    }
    const watch = new Watch(stream);
    const known = this.#services.includes(service);
    watch.report(known ? this.#status() : ServingStatus.SERVICE_UNKNOWN);
    if (this.#stopped) {
      watch.end();
      return;
    }
    this.#watches.add(watch);
    const unsubscribe = known ? this.#health.subscribe(() => watch.report(this.#status())) : () => {};
    stream.onClose(() => {
      unsubscribe();
      this.#watches.delete(watch);
    });
  };

  /** Reports NOT_SERVING from now on, and ends the watches, which would delay the end of the process. */
  stop(): void {
    this.#stopped = true;
    for (const watch of [...this.#watches]) {
      if (watch.status !== ServingStatus.SERVICE_UNKNOWN) watch.report(ServingStatus.NOT_SERVING);
      watch.end();
    }
  }

  #status(): ServingStatus {
    return this.#health.healthy && !this.#stopped ? ServingStatus.SERVING : ServingStatus.NOT_SERVING;
  }
}

class Watch {
  readonly #stream: MessageStream;
  status: ServingStatus | undefined;

  constructor(stream: MessageStream) {
    this.#stream = stream;
  }

  report(status: ServingStatus): void {
    if (status === this.status) return;
    this.status = status;
    this.#stream.send(checkResponse(status));
  }

  end(): void {
    this.#stream.end({ code: GrpcCode.UNAVAILABLE, message: 'the server is shutting down' });
  }
}

function checkResponse(status: ServingStatus): Uint8Array {
  return toBinary(HealthCheckResponseSchema, create(HealthCheckResponseSchema, { status }));
}

function requestedService(request: Uint8Array): string | undefined {
  try {
    return fromBinary(HealthCheckRequestSchema, request).service;
  } catch {
    return undefined;
  }
}
