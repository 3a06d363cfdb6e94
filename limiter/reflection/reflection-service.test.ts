import { create, createFileRegistry, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type FileDescriptorProto,
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import {
  ServerReflectionRequestSchema,
  type ServerReflectionResponse,
  ServerReflectionResponseSchema,
} from '../../gen/grpc/reflection/v1/reflection_pb.ts';
import type { GrpcStatus } from '../../process/grpc/handlers.ts';
import { reflectionMethods } from './reflection.ts';

type Question = MessageInitShape<typeof ServerReflectionRequestSchema>['messageRequest'];

const servedPaths = [
  '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/Watch',
];
const rls = 'envoy/service/ratelimit/v3/rls.proto';

/** One reflection stream. */
class Conversation {
  readonly answers: ServerReflectionResponse[] = [];
  readonly ends: (GrpcStatus | undefined)[] = [];
  readonly #listener;

  constructor(version = 'v1') {
    const method = reflectionMethods(servedPaths).get(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    );
    this.#listener = method!.handler({
      send: (message) => this.answers.push(fromBinary(ServerReflectionResponseSchema, message)),
      end: (status) => this.ends.push(status),
      onClose: () => {},
      whenArrived: () => false,
    });
  }

  ask(messageRequest: Question): ServerReflectionResponse['messageResponse'] | undefined {
    const request = create(ServerReflectionRequestSchema, { host: 'h', messageRequest } as never);
    this.send(toBinary(ServerReflectionRequestSchema, request));
    return this.answers.at(-1)?.messageResponse;
  }

  files(question: Question): FileDescriptorProto[] {
    const answer = this.ask(question);
    if (answer?.case !== 'fileDescriptorResponse') return expect.fail(`got ${answer?.case}`);
    return answer.value.fileDescriptorProto.map((bytes) => fromBinary(FileDescriptorProtoSchema, bytes));
  }

  names(question: Question): string[] {
    return this.files(question).map(({ name }) => name);
  }

  send(message: Uint8Array): void {
    this.#listener.onMessage(message);
  }

  end(): void {
    this.#listener.onEnd();
  }
}

const symbol = (value: string): Question => ({ case: 'fileContainingSymbol', value });

describe.each(['v1', 'v1alpha'])('reflection %s', (version) => {
  it('lists what is served, itself included', () => {
    const answer = new Conversation(version).ask({ case: 'listServices', value: '*' });
    expect(answer?.case === 'listServicesResponse' && answer.value.service.map(({ name }) => name)).toEqual([
      'envoy.service.ratelimit.v3.RateLimitService',
      'grpc.health.v1.Health',
      'grpc.reflection.v1.ServerReflection',
      'grpc.reflection.v1alpha.ServerReflection',
    ]);
  });
});

describe('reflection', () => {
  it('describes every service with all that its messages need', () => {
    const names = new Conversation().ask({ case: 'listServices', value: '' });
    if (names?.case !== 'listServicesResponse') return expect.fail('no list');
    for (const { name } of names.value.service) {
      const file = new Conversation().files(symbol(name));
      const registry = createFileRegistry(create(FileDescriptorSetSchema, { file: file.toReversed() }));
      expect(registry.getService(name)?.methods.length).toBeGreaterThan(0);
    }
  });

  it.each([
    ['a message', 'envoy.service.ratelimit.v3.RateLimitRequest'],
    ['a nested message', 'envoy.service.ratelimit.v3.RateLimitResponse.RateLimit'],
    ['a field', 'envoy.service.ratelimit.v3.RateLimitRequest.domain'],
    ['an enum', 'envoy.service.ratelimit.v3.RateLimitResponse.Code'],
    ['an enum value', 'envoy.service.ratelimit.v3.RateLimitResponse.OVER_LIMIT'],
    ['a service', 'envoy.service.ratelimit.v3.RateLimitService'],
    ['a method', 'envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit'],
  ])('finds the file of %s', (_, name) => {
    expect(new Conversation().names(symbol(name))[0]).toBe(rls);
  });

  it('finds a file by its name, and those that it imports', () => {
    const names = new Conversation().names({ case: 'fileByFilename', value: rls });
    expect(names).toContain('envoy/extensions/common/ratelimit/v3/ratelimit.proto');
    expect(names).toContain('google/protobuf/struct.proto');
    expect(new Set(names).size).toBe(names.length);
    expect(
      new Conversation().names({ case: 'fileByFilename', value: 'google/protobuf/struct.proto' }),
    ).toEqual(['google/protobuf/struct.proto']);
  });

  it('sends no import twice on one stream, but always the file that is asked for', () => {
    const stream = new Conversation();
    expect(stream.names({ case: 'fileByFilename', value: rls }).length).toBeGreaterThan(1);
    expect(stream.names({ case: 'fileByFilename', value: rls })).toEqual([rls]);
  });

  it('repeats the question and the host', () => {
    const stream = new Conversation();
    stream.ask(symbol('grpc.health.v1.Health'));
    expect(stream.answers[0]?.validHost).toBe('h');
    expect(stream.answers[0]?.originalRequest?.messageRequest).toEqual(symbol('grpc.health.v1.Health'));
  });

  const unknown: Record<string, { question: Question; want: string }> = {
    'a file': {
      question: { case: 'fileByFilename', value: 'a.proto' },
      want: 'file "a.proto" is not known',
    },
    'a symbol': { question: symbol('a.B'), want: 'symbol "a.B" is not known' },
    'an extension': {
      question: {
        case: 'fileContainingExtension',
        value: {
          $typeName: 'grpc.reflection.v1.ExtensionRequest',
          containingType: 'google.protobuf.FieldOptions',
          extensionNumber: 7,
        },
      },
      want: 'extension 7 of "google.protobuf.FieldOptions" is not known',
    },
    'a message whose extensions are asked for': {
      question: { case: 'allExtensionNumbersOfType', value: 'a.B' },
      want: 'message "a.B" is not known',
    },
  };
  for (const [name, { question, want }] of Object.entries(unknown)) {
    it(`says NOT_FOUND for ${name} that is unknown, and continues`, () => {
      const stream = new Conversation();
      const answer = stream.ask(question);
      expect(answer?.case === 'errorResponse' && [answer.value.errorCode, answer.value.errorMessage]).toEqual(
        [5, want],
      );
      expect(stream.ask({ case: 'listServices', value: '' })?.case).toBe('listServicesResponse');
      expect(stream.ends).toEqual([]);
    });
  }

  it('says of a message without extensions that it has none', () => {
    const type = 'grpc.health.v1.HealthCheckRequest';
    const answer = new Conversation().ask({ case: 'allExtensionNumbersOfType', value: type });
    expect(answer?.case === 'allExtensionNumbersResponse' && answer.value).toMatchObject({
      baseTypeName: type,
      extensionNumber: [],
    });
  });

  it('ends with the request, without a status', () => {
    const stream = new Conversation();
    stream.end();
    expect(stream.ends).toEqual([undefined]);
  });

  it('ends for a request that asks nothing, or that is damaged', () => {
    const asksNothing = new Conversation();
    asksNothing.send(new Uint8Array());
    expect(asksNothing.ends).toEqual([{ code: 3, message: 'the request asks nothing' }]);
    const damaged = new Conversation();
    damaged.send(Uint8Array.of(0x0a, 5));
    expect(damaged.ends).toEqual([{ code: 13, message: 'cannot decode the request' }]);
  });
});
