/** The methods that a server answers, by path. */

import type { UnaryHandler } from '../../process/grpc/handlers.ts';
import type { HealthService } from '../../process/grpc/health-service.ts';
import type { DuplexMethod, StreamMethod } from './stream-input.ts';
import type { UnaryMethod } from './unary-call.ts';

export type GrpcMethod = UnaryMethod | StreamMethod | DuplexMethod;

/** Makes the methods of reflection, by path, from the paths that are served. */
export type ReflectionMethods = (servedPaths: readonly string[]) => ReadonlyMap<string, GrpcMethod>;

export interface GrpcMethodsOptions {
  /** By full path, for example `/package.Service/Method`. */
  unary: ReadonlyMap<string, UnaryHandler>;
  health: HealthService;
  /** How callers may ask what there is (GRPC_REFLECTION). */
  reflection?: ReflectionMethods | undefined;
}

export function grpcMethods(options: GrpcMethodsOptions): Map<string, GrpcMethod> {
  const { unary, health, reflection } = options;
  const methods = new Map<string, GrpcMethod>();
  for (const [path, handler] of unary) {
    methods.set(path, { kind: 'unary', name: methodName(path), handler, isFree: false });
  }
  const healthPath = '/grpc.health.v1.Health/';
  methods.set(`${healthPath}Check`, { kind: 'unary', name: 'Check', handler: health.check, isFree: true });
  methods.set(`${healthPath}List`, { kind: 'unary', name: 'List', handler: health.list, isFree: true });
  methods.set(`${healthPath}Watch`, { kind: 'stream', name: 'Watch', handler: health.watch });
  if (reflection !== undefined) {
    for (const [path, method] of reflection([...methods.keys()])) methods.set(path, method);
  }
  return methods;
}

function methodName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}
