/** Values of protobuf's JSON, whose names are snake_case or camelCase, and their places in the files of an Envoy. */
import { isObject } from '../model.ts';
import type { DocumentPath, TextPlace } from '../yaml/places.ts';

export interface EnvoyPlace extends TextPlace {
  file: string;
}

/** A value, with the path that leads to it. Values that are missing are undefined. */
export class ProtoValue {
  readonly value: unknown;
  readonly path: DocumentPath;
  readonly #placeOf: (path: DocumentPath) => EnvoyPlace;

  constructor(value: unknown, placeOf: (path: DocumentPath) => EnvoyPlace, path: DocumentPath = []) {
    this.value = value;
    this.path = path;
    this.#placeOf = placeOf;
  }

  get isObject(): boolean {
    return isObject(this.value);
  }

  /** The place, or that of the map that lacks the value. */
  get place(): EnvoyPlace {
    return this.#placeOf(this.path);
  }

  /** The place of a value below it. */
  placeOf(path: DocumentPath): EnvoyPlace {
    return this.#placeOf([...this.path, ...path]);
  }

  /** Returns a field by its name in snake_case, whichever name it is written with. */
  field(name: string): ProtoValue {
    const { value } = this;
    if (!isObject(value)) return this.#below(name, undefined);
    const camel = name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
    const written = Object.hasOwn(value, name) || !Object.hasOwn(value, camel) ? name : camel;
    return this.#below(written, value[written]);
  }

  /** Returns the value of a field, or of a field below it. */
  get(...names: string[]): unknown {
    return names.reduce<ProtoValue>((owner, name) => owner.field(name), this).value;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  /** Returns the text of a field. Undefined if it is empty or no text. */
  text(name: string): string | undefined {
    const text = this.get(name);
    return typeof text === 'string' && text !== '' ? text : undefined;
  }

  /** Returns the elements of a list. */
  list(name: string): ProtoValue[] {
    const field = this.field(name);
    return Array.isArray(field.value) ? field.members() : [];
  }

  /** Returns the elements of a list that are objects. */
  objects(name: string): ProtoValue[] {
    return this.list(name).filter((one) => one.isObject);
  }

  /** Returns the elements of a list, or the values of an object. */
  members(): ProtoValue[] {
    const { value } = this;
    if (Array.isArray(value)) return value.map((one: unknown, index) => this.#below(index, one));
    return isObject(value) ? Object.entries(value).map(([name, one]) => this.#below(name, one)) : [];
  }

  /** The type of an Any, also if it is a TypedStruct of the type. Empty if it has none. */
  get typeUrl(): string {
    return String(this.get('type_url') ?? this.get('@type') ?? '');
  }

  /** The content of a `typed_config`. The fields of a TypedStruct are one step further down. */
  get typed(): ProtoValue {
    return String(this.get('@type')).endsWith('.TypedStruct') ? this.field('value') : this;
  }

  #below(step: string | number, value: unknown): ProtoValue {
    return new ProtoValue(value, this.#placeOf, [...this.path, step]);
  }
}
