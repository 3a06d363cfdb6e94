/** RateLimitConfigs in memory for measurements: as many objects, fleets and rules as asked for, and changes of them. */

import type { ConfigObject, ConfigStatus } from '../control-plane/model/config-object.ts';
import { ObjectChanges } from '../control-plane/model/object-changes.ts';
import type { ObjectSource, SourceListener } from '../control-plane/source/kubernetes-source.ts';

export interface ObjectNumbers {
  fleets: number;
  objects: number;
  /** In each object. */
  rules: number;
}

export class MemorySource implements ObjectSource {
  readonly changes = new ObjectChanges();
  readonly #objects: ConfigObject[];
  readonly #places: Map<string, number>;
  readonly #numbers: ObjectNumbers;
  #listener: SourceListener | undefined;

  constructor(numbers: ObjectNumbers) {
    this.#numbers = numbers;
    this.#objects = Array.from({ length: numbers.objects }, (_, index) => this.#object(index, 1));
    this.#places = new Map(this.#objects.map(({ uid }, index) => [uid, index]));
  }

  start(listener: SourceListener): void {
    this.#listener = listener;
    for (const object of this.#objects) this.changes.note(object.uid, object);
    listener.listed();
  }

  objects(): readonly ConfigObject[] {
    return this.#objects;
  }

  /** Gives an object a new generation with another limit. */
  change(index: number): void {
    const { generation, status } = this.#objects[index] as ConfigObject;
    this.#objects[index] = { ...this.#object(index, generation + 1), status };
    this.changes.note(`uid-${index}`, this.#objects[index]);
    this.#listener?.changed();
  }

  /** One object of every fleet. */
  changeEveryFleet(): void {
    for (let fleet = 0; fleet < this.#numbers.fleets; fleet++) this.change(fleet);
  }

  left(): readonly ConfigObject[] {
    return [];
  }

  isGone(object: ConfigObject): boolean {
    return this.newest(object) === undefined;
  }

  newest({ uid }: ConfigObject): ConfigObject | undefined {
    return this.#objects[this.#places.get(uid) as number];
  }

  setStatus(uid: string, status: ConfigStatus): void {
    const index = this.#places.get(uid) as number;
    this.#objects[index] = { ...(this.#objects[index] as ConfigObject), status };
    this.changes.note(uid, this.#objects[index]);
    this.#listener?.statusShown();
  }

  async close(): Promise<void> {}

  #object(index: number, generation: number): ConfigObject {
    const { fleets, rules } = this.#numbers;
    const descriptors = Array.from({ length: rules }, (_, rule) => ({
      key: 'path',
      value: `/service-${index}/resource-${rule}`,
      rateLimit: { unit: 'minute', requestsPerUnit: 10 * (rule + 1) + (generation % 10) },
    }));
    return {
      namespace: `team-${index % fleets}`,
      name: `config-${index}`,
      uid: `uid-${index}`,
      generation,
      createdMs: 1_700_000_000_000 + index * 1000,
      spec: { fleet: `fleet-${index % fleets}`, domain: `domain-${index}`, descriptors },
      status: undefined,
    };
  }
}
