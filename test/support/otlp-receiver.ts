/** A receiver of traces over OTLP, on a port of its own: protobuf over HTTP, or gRPC. */
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server as GrpcServer, ServerCredentials } from '@grpc/grpc-js';
import { type ReceivedSpan, readTraces } from './otlp-traces.ts';

export class OtlpReceiver {
  readonly spans: ReceivedSpan[] = [];
  /** Of each request over HTTP. */
  readonly requests: { path: string; headers: Record<string, unknown> }[] = [];
  readonly port: number;
  readonly #close: () => Promise<void>;

  private constructor(port: number, close: () => Promise<void>) {
    this.port = port;
    this.#close = close;
  }

  /** `port` 0 takes any free one. `status` is what every request is answered with. */
  static async http({ port = 0, status = 200 } = {}): Promise<OtlpReceiver> {
    const server: HttpServer = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        receiver.requests.push({ path: request.url ?? '', headers: request.headers });
        if (status === 200) receiver.spans.push(...readTraces(Buffer.concat(chunks)));
        response.writeHead(status, { 'Content-Type': 'application/x-protobuf' }).end();
      });
    });
    await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
    const receiver: OtlpReceiver = new OtlpReceiver((server.address() as AddressInfo).port, async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    return receiver;
  }

  static async grpc(): Promise<OtlpReceiver> {
    const server = new GrpcServer();
    const bytes = (message: Buffer): Buffer => message;
    const path = '/opentelemetry.proto.collector.trace.v1.TraceService/Export';
    const spans: ReceivedSpan[] = [];
    server.addService(
      {
        export: {
          path,
          requestStream: false,
          responseStream: false,
          requestSerialize: bytes,
          requestDeserialize: bytes,
          responseSerialize: bytes,
          responseDeserialize: bytes,
        },
      },
      {
        export: (call: { request: Buffer }, done: (error: null, answer: Buffer) => void) => {
          spans.push(...readTraces(call.request));
          done(null, Buffer.alloc(0));
        },
      },
    );
    const port = await new Promise<number>((resolve, reject) => {
      server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
        error === null ? resolve(bound) : reject(error),
      );
    });
    const receiver = new OtlpReceiver(port, async () => server.forceShutdown());
    Object.assign(receiver, { spans });
    return receiver;
  }

  named(name: string): ReceivedSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  close(): Promise<void> {
    return this.#close();
  }
}
