/** The proto files that the reflection service describes. */
import { type DescEnum, type DescFile, type DescMessage, toBinary } from '@bufbuild/protobuf';
import { FileDescriptorProtoSchema } from '@bufbuild/protobuf/wkt';

/** Finds proto files by their content, including all files that the given ones import. */
export class DescribedFiles {
  readonly #byName = new Map<string, DescFile>();
  readonly #bySymbol = new Map<string, DescFile>();
  /** Extensions by the extended message, then by number. */
  readonly #extensions = new Map<string, Map<number, DescFile>>();
  readonly #messages = new Set<string>();

  constructor(roots: readonly DescFile[]) {
    for (const root of roots) this.#addFile(root);
  }

  /** Returns a file by its name in imports. */
  named(name: string): DescFile | undefined {
    return this.#byName.get(name);
  }

  /** Returns a file by the full name of a message, field, enum, value, extension, service or method. */
  withSymbol(name: string): DescFile | undefined {
    return this.#bySymbol.get(name);
  }

  withExtension(messageName: string, number: number): DescFile | undefined {
    return this.#extensions.get(messageName)?.get(number);
  }

  /** Returns ascending numbers. Undefined if there is no such message. */
  extensionNumbersOf(messageName: string): number[] | undefined {
    if (!this.#messages.has(messageName)) return undefined;
    return [...(this.#extensions.get(messageName)?.keys() ?? [])].sort((a, b) => a - b);
  }

  #addFile(file: DescFile): void {
    const name = fileName(file);
    if (this.#byName.has(name)) return;
    this.#byName.set(name, file);
    for (const dependency of file.dependencies) this.#addFile(dependency);
    for (const message of file.messages) this.#addMessage(message, file);
    for (const item of file.enums) this.#addEnum(item, file);
    for (const service of file.services) {
      this.#bySymbol.set(service.typeName, file);
      for (const method of service.methods) this.#bySymbol.set(`${service.typeName}.${method.name}`, file);
    }
    this.#addExtensions(file, file);
  }

  #addMessage(message: DescMessage, file: DescFile): void {
    this.#bySymbol.set(message.typeName, file);
    this.#messages.add(message.typeName);
    for (const member of [...message.fields, ...message.oneofs]) {
      this.#bySymbol.set(`${message.typeName}.${member.name}`, file);
    }
    for (const nested of message.nestedMessages) this.#addMessage(nested, file);
    for (const nested of message.nestedEnums) this.#addEnum(nested, file);
    this.#addExtensions({ extensions: message.nestedExtensions }, file);
  }

  /** A value's full name is beside its enum's, not within: that is protobuf's rule. */
  #addEnum(item: DescEnum, file: DescFile): void {
    this.#bySymbol.set(item.typeName, file);
    const scope = item.typeName.slice(0, item.typeName.length - item.name.length);
    for (const value of item.values) this.#bySymbol.set(scope + value.name, file);
  }

  #addExtensions(scope: Pick<DescFile, 'extensions'>, file: DescFile): void {
    for (const extension of scope.extensions) {
      this.#bySymbol.set(extension.typeName, file);
      const extended = extension.extendee.typeName;
      const numbers = this.#extensions.get(extended) ?? new Map<number, DescFile>();
      this.#extensions.set(extended, numbers.set(extension.number, file));
    }
  }
}

export function fileName(file: DescFile): string {
  return file.proto.name;
}

/**
 * Encodes the file and all files that it imports. Files in `sent` are left out, except the requested one. Encoded files are added
 * to `sent`.
 */
export function encodeWithImports(file: DescFile, sent: Set<string>): Uint8Array[] {
  const encoded: Uint8Array[] = [];
  const queue = [file];
  const queued = new Set(queue);
  for (const next of queue) {
    if (next === file || !sent.has(fileName(next))) {
      sent.add(fileName(next));
      encoded.push(toBinary(FileDescriptorProtoSchema, next.proto));
    }
    for (const dependency of next.dependencies) {
      if (!queued.has(dependency)) queue.push(dependency);
      queued.add(dependency);
    }
  }
  return encoded;
}
