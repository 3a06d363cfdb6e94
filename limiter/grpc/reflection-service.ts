/**
 * The reflection service in both of its versions, whose messages are alike on the wire.
 * https://github.com/grpc/grpc/blob/v1.60.0/doc/server-reflection.md
 */
import { fromBinary, toBinary } from '@bufbuild/protobuf';
import { file_envoy_service_ratelimit_v3_rls } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { file_grpc_health_v1_health } from '../../gen/grpc/health/v1/health_pb.ts';
import {
  file_grpc_reflection_v1_reflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import { file_grpc_reflection_v1alpha_reflection } from '../../gen/grpc/reflection/v1alpha/reflection_pb.ts';
import { GrpcCode } from '../../process/grpc/handlers.ts';
import type { DuplexHandler } from '../../process/grpc/stream-handler.ts';
import { DescribedFiles } from './reflection.ts';
import { answerReflection, type Described } from './reflection-answer.ts';
import type { DuplexMethod } from './stream-input.ts';

const methodName = 'ServerReflectionInfo';
const paths = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/${methodName}`,
);

/** The proto files of what a limiter may serve. */
const describableFiles = [
  file_envoy_service_ratelimit_v3_rls,
  file_grpc_health_v1_health,
  file_grpc_reflection_v1_reflection,
  file_grpc_reflection_v1alpha_reflection,
];

/** The methods of reflection by path. They tell of the services of `servedPaths`, and of their own. */
export function reflectionMethods(servedPaths: readonly string[]): Map<string, DuplexMethod> {
  const described: Described = {
    services: [...new Set([...servedPaths, ...paths].map(serviceOf))].sort(),
    files: new DescribedFiles(describableFiles),
  };
  const method: DuplexMethod = { kind: 'duplex', name: methodName, handler: reflect(described) };
  return new Map(paths.map((path) => [path, method]));
}

function reflect(described: Described): DuplexHandler {
  return (stream) => {
    const sent = new Set<string>();
    return {
      onMessage: (message) => {
        const request = parse(message);
        const answer = request === undefined ? undefined : answerReflection(request, described, sent);
        if (answer !== undefined) stream.send(toBinary(ServerReflectionResponseSchema, answer));
        else if (request !== undefined) stream.end(askedNothing);
        else stream.end(undecodable);
      },
      onEnd: () => stream.end(),
    };
  };
}

const undecodable = { code: GrpcCode.INTERNAL, message: 'cannot decode the request' };
const askedNothing = { code: GrpcCode.INVALID_ARGUMENT, message: 'the request asks nothing' };

function parse(message: Uint8Array): ServerReflectionRequest | undefined {
  try {
    return fromBinary(ServerReflectionRequestSchema, message);
  } catch {
    return undefined;
  }
}

function serviceOf(path: string): string {
  return path.slice(1, path.lastIndexOf('/'));
}
