/** The reflection service: answers which services the limiter has, and describes them. */
import { create, type DescFile, fromBinary, toBinary } from '@bufbuild/protobuf';
import { file_envoy_service_rate_limit_quota_v3_rlqs } from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { file_envoy_service_ratelimit_v3_rls } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { file_grpc_health_v1_health } from '../../gen/grpc/health/v1/health_pb.ts';
import {
  file_grpc_reflection_v1_reflection,
  type ServerReflectionRequest,
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import { file_grpc_reflection_v1alpha_reflection } from '../../gen/grpc/reflection/v1alpha/reflection_pb.ts';
import { file_kuadrant_service_ratelimit_v1_ratelimit } from '../../gen/kuadrant/service/ratelimit/v1/ratelimit_pb.ts';
import { type DuplexHandler, GrpcCode, statusText } from '../../process/grpc/handlers.ts';
import type { ThreadPart } from '../capabilities/parts.ts';
import type { DuplexMethod } from '../grpc/stream-call.ts';
import { DescribedFiles, encodeWithImports } from './described-files.ts';

export const thread = (): ThreadPart => ({ grpc: (_, served) => reflectionMethods(served) });

interface Described {
  /** The sorted full names of the services. */
  services: readonly string[];
  files: DescribedFiles;
}

type ReflectionAnswer = ServerReflectionResponse['messageResponse'];

/** Returns undefined for an empty request. `sent`: the names of the files that the caller already has. */
function answerReflection(
  request: ServerReflectionRequest,
  { services, files }: Described,
  sent: Set<string>,
): ServerReflectionResponse | undefined {
  const question = request.messageRequest;
  let answer: ReflectionAnswer;
  switch (question.case) {
    case 'listServices':
      answer = list(services);
      break;
    case 'fileByFilename':
      answer = describe(files.named(question.value), `file "${question.value}"`, sent);
      break;
    case 'fileContainingSymbol':
      answer = describe(files.withSymbol(question.value), `symbol "${question.value}"`, sent);
      break;
    case 'fileContainingExtension': {
      const { containingType, extensionNumber } = question.value;
      const file = files.withExtension(containingType, extensionNumber);
      answer = describe(file, `extension ${extensionNumber} of "${containingType}"`, sent);
      break;
    }
    case 'allExtensionNumbersOfType':
      answer = numbers(files, question.value);
      break;
    default:
      return undefined;
  }
  return create(ServerReflectionResponseSchema, {
    validHost: request.host,
    originalRequest: request,
    messageResponse: answer,
  });
}

function list(services: readonly string[]): ReflectionAnswer {
  const service = services.map((name) => ({
    $typeName: 'grpc.reflection.v1.ServiceResponse' as const,
    name,
  }));
  return {
    case: 'listServicesResponse',
    value: { $typeName: 'grpc.reflection.v1.ListServiceResponse', service },
  };
}

function describe(file: DescFile | undefined, what: string, sent: Set<string>): ReflectionAnswer {
  if (file === undefined) return notFound(what);
  return {
    case: 'fileDescriptorResponse',
    value: {
      $typeName: 'grpc.reflection.v1.FileDescriptorResponse',
      fileDescriptorProto: encodeWithImports(file, sent),
    },
  };
}

function numbers(files: DescribedFiles, baseTypeName: string): ReflectionAnswer {
  const extensionNumber = files.extensionNumbersOf(baseTypeName);
  if (extensionNumber === undefined) return notFound(`message "${baseTypeName}"`);
  return {
    case: 'allExtensionNumbersResponse',
    value: { $typeName: 'grpc.reflection.v1.ExtensionNumberResponse', baseTypeName, extensionNumber },
  };
}

function notFound(what: string): ReflectionAnswer {
  return {
    case: 'errorResponse',
    value: {
      $typeName: 'grpc.reflection.v1.ErrorResponse',
      errorCode: GrpcCode.NOT_FOUND,
      errorMessage: statusText(`${what} is not known`),
    },
  };
}

const methodName = 'ServerReflectionInfo';
const paths = ['v1', 'v1alpha'].map(
  (version) => `/grpc.reflection.${version}.ServerReflection/${methodName}`,
);

/** The proto files of what a limiter may serve. */
const describableFiles = [
  file_envoy_service_ratelimit_v3_rls,
  file_envoy_service_rate_limit_quota_v3_rlqs,
  file_kuadrant_service_ratelimit_v1_ratelimit,
  file_grpc_health_v1_health,
  file_grpc_reflection_v1_reflection,
  file_grpc_reflection_v1alpha_reflection,
];

/**
 * Returns the reflection service in both of its versions, whose messages are equal on the wire, as methods by path. They report
 * the services of `servedPaths`, and their own. https://github.com/grpc/grpc/blob/v1.60.0/doc/server-reflection.md
 */
export function reflectionMethods(servedPaths: readonly string[]): Map<string, DuplexMethod> {
  const described: Described = {
    services: [...new Set([...servedPaths, ...paths].map(serviceOf))].sort(),
    files: new DescribedFiles(describableFiles),
  };
  const method: DuplexMethod = {
    kind: 'duplex',
    name: methodName,
    handler: reflect(described),
    isFree: true,
  };
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
