/** One question about what a server serves, and its answer. */
import { create, type DescFile } from '@bufbuild/protobuf';
import {
  type ServerReflectionRequest,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import { GrpcCode } from '../../process/grpc/handlers.ts';
import { statusText } from '../../process/grpc/status-text.ts';
import { type DescribedFiles, encodeWithImports } from './reflection.ts';

export interface Described {
  /** Full names of what is served, sorted. */
  services: readonly string[];
  files: DescribedFiles;
}

type Answer = ServerReflectionResponse['messageResponse'];

/** Undefined for a request that asks nothing. `sent` are the names of the files that the caller has already. */
export function answerReflection(
  request: ServerReflectionRequest,
  { services, files }: Described,
  sent: Set<string>,
): ServerReflectionResponse | undefined {
  const question = request.messageRequest;
  let answer: Answer;
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

function list(services: readonly string[]): Answer {
  const service = services.map((name) => ({
    $typeName: 'grpc.reflection.v1.ServiceResponse' as const,
    name,
  }));
  return {
    case: 'listServicesResponse',
    value: { $typeName: 'grpc.reflection.v1.ListServiceResponse', service },
  };
}

function describe(file: DescFile | undefined, what: string, sent: Set<string>): Answer {
  if (file === undefined) return notFound(what);
  return {
    case: 'fileDescriptorResponse',
    value: {
      $typeName: 'grpc.reflection.v1.FileDescriptorResponse',
      fileDescriptorProto: encodeWithImports(file, sent),
    },
  };
}

function numbers(files: DescribedFiles, baseTypeName: string): Answer {
  const extensionNumber = files.extensionNumbersOf(baseTypeName);
  if (extensionNumber === undefined) return notFound(`message "${baseTypeName}"`);
  return {
    case: 'allExtensionNumbersResponse',
    value: { $typeName: 'grpc.reflection.v1.ExtensionNumberResponse', baseTypeName, extensionNumber },
  };
}

function notFound(what: string): Answer {
  return {
    case: 'errorResponse',
    value: {
      $typeName: 'grpc.reflection.v1.ErrorResponse',
      errorCode: GrpcCode.NOT_FOUND,
      errorMessage: statusText(`${what} is not known here`),
    },
  };
}
