/** Creates and changes RateLimitConfigs in memory for measurements, with any number of objects, fleets and rules. */

import type { ConfigObject, ConfigStatus } from '../control-plane/model/config-object.ts';
import { VersionedMap } from '../control-plane/model/versioned-map.ts';
import type { ObjectSource, SourceListener } from '../control-plane/source/kubernetes-source.ts';

export interface ObjectNumbers {
  fleets: number;
  objects: number;
  /** The number of rules in each object. */
  rules: number;
}

export class MemorySource implements ObjectSource {
  /** Objects by uid. */
  objects: VersionedMap<ConfigObject>;
  readonly #numbers: ObjectNumbers;
  #listener: SourceListener | undefined;

  constructor(numbers: ObjectNumbers) {
    this.#numbers = numbers;
    const objects = Array.from({ length: numbers.objects }, (_, index) => this.#object(index, 1));
    this.objects = VersionedMap.of(objects.map((object) => [object.uid, object]));
  }

  start(listener: SourceListener): void {
    this.#listener = listener;
    listener.changed();
  }

  /** Gives an object a new generation with another limit. */
  change(index: number): void {
    const { generation, status } = this.objects.get(`uid-${index}`) as ConfigObject;
    this.#put({ ...this.#object(index, generation + 1), status });
    this.#listener?.changed();
  }

  /** Returns one object of every fleet. */
  changeEveryFleet(): void {
    for (let fleet = 0; fleet < this.#numbers.fleets; fleet++) this.change(fleet);
  }

  readonly versions = {};

  left(): readonly ConfigObject[] {
    return [];
  }

  isGone({ uid }: ConfigObject): boolean {
    return !this.objects.has(uid);
  }

  setStatus(uid: string, status: ConfigStatus): void {
    this.#put({ ...(this.objects.get(uid) as ConfigObject), status });
    this.#listener?.changed();
  }

  async close(): Promise<void> {}

  #put(object: ConfigObject): void {
    this.objects = this.objects.with(new Map([[object.uid, object]]));
  }

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
