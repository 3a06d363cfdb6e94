/** The methods that a server answers, by path. */
import type { HealthService } from '../../process/grpc/health-service.ts';
import type { UnaryHandler } from '../../process/grpc/unary-handler.ts';
import { reflectionMethods } from './reflection/index.ts';
import type { DuplexMethod, StreamMethod } from './stream-input.ts';
import type { UnaryMethod } from './unary-call.ts';

export type GrpcMethod = UnaryMethod | StreamMethod | DuplexMethod;

export interface GrpcMethodsOptions {
  /** By full path, for example `/package.Service/Method`. */
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthService;
  /** Whether callers may ask what there is (GRPC_REFLECTION). */
  reflection: boolean;
}

export function grpcMethods(options: GrpcMethodsOptions): Map<string, GrpcMethod> {
  const { unary, health, reflection } = options;
  const methods = new Map<string, GrpcMethod>();
  for (const [path, handler] of unary) {
    methods.set(path, { kind: 'unary', name: methodName(path), handler });
  }
  const healthPath = '/grpc.health.v1.Health/';
  methods.set(`${healthPath}Check`, { kind: 'unary', name: 'Check', handler: health.check });
  methods.set(`${healthPath}List`, { kind: 'unary', name: 'List', handler: health.list });
  methods.set(`${healthPath}Watch`, { kind: 'stream', name: 'Watch', handler: health.watch });
  if (reflection) {
    for (const [path, method] of reflectionMethods([...methods.keys()])) methods.set(path, method);
  }
  return methods;
}

function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
