import { create, createFileRegistry, type DescFile } from '@bufbuild/protobuf';
import {
  FieldDescriptorProto_Label,
  FieldDescriptorProto_Type,
  FileDescriptorSetSchema,
  file_google_protobuf_descriptor,
} from '@bufbuild/protobuf/wkt';
import { describe, expect, it } from 'vitest';
import { DescribedFiles } from './described-files.ts';

const extension = (name: string, number: number) => ({
  name,
  number,
  extendee: '.google.protobuf.FieldOptions',
  label: FieldDescriptorProto_Label.OPTIONAL,
  type: FieldDescriptorProto_Type.STRING,
});

function fileWithExtensions(): DescFile {
  const registry = createFileRegistry(
    create(FileDescriptorSetSchema, {
      file: [
        file_google_protobuf_descriptor.proto,
        {
          name: 'e.proto',
          package: 'e',
          syntax: 'proto3',
          dependency: ['google/protobuf/descriptor.proto'],
          extension: [extension('high', 50_002)],
          messageType: [{ name: 'M', extension: [extension('low', 50_001)] }],
        },
      ],
    }),
  );
  return registry.getFile('e.proto')!;
}

describe('DescribedFiles', () => {
  it('knows extensions, those within messages too', () => {
    const file = fileWithExtensions();
    const files = new DescribedFiles([file]);
    const extended = 'google.protobuf.FieldOptions';
    expect(files.withExtension(extended, 50_001)).toBe(file);
    expect(files.withExtension(extended, 50_002)).toBe(file);
    expect(files.withExtension(extended, 50_003)).toBe(undefined);
    expect(files.extensionNumbersOf(extended)).toEqual([50_001, 50_002]);
    expect(files.withSymbol('e.high')).toBe(file);
    expect(files.withSymbol('e.M.low')).toBe(file);
  });
});
