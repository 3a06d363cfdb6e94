/**
 * Separates the overrides of a response from its rules and decodes them. This happens before rules are loaded, so that a new or
 * removed override compiles no rules.
 */
import type { Any } from '@bufbuild/protobuf/wkt';
import { errorText } from '../../../process/log/error-text.ts';
import type { Override } from '../../../rules/override.ts';
import { decodeOverride, resourceHead } from '../../../rules/reader/resource.ts';
import { formatManifestError, type RuleError } from '../../../rules/rule-error.ts';
import { type FailedLoad, unplacedError } from '../config-source.ts';
import { decodeAnswer, type LoadedResources } from './load-resources.ts';
import { type NamedResource, type ResourceSet, responseBytes } from './resource-set.ts';
import type { RejectedRules } from './xds-session.ts';

export interface ReadOverrides {
  readonly overrides: readonly Override[];
  readonly errors: RuleError[];
  /** The overrides that were rejected, by name; only with incremental xDS. */
  readonly rejected: RejectedRules[];
}

/** A decoded override, or its errors. */
type Reading = { override: Override } | { override?: undefined; texts: string[] };

/** Decodes overrides. Equal bytes result in the same object, so that callers can see which overrides changed. */
export class OverrideResources {
  readonly #byResource = new WeakMap<NamedResource, Reading>();
  /** Overrides of the last state-of-the-world response. */
  #byBytes = new Map<string, Reading>();

  /** Reads the overrides of a state-of-the-world response. `bytes` is the response without them. @throws if it cannot be decoded */
  ofResponse(bytes: Uint8Array): ReadOverrides & { bytes: Uint8Array } {
    const { typeUrl, resources } = decodeAnswer(bytes);
    const found = resources.filter(isOverride);
    const byBytes = new Map<string, Reading>();
    const readings = found.map(({ value }, index): [string, Reading] => {
      const text = Buffer.from(value).toString('base64');
      const reading = this.#byBytes.get(text) ?? readResource(value);
      byBytes.set(text, reading);
      return [`override ${index + 1}`, reading];
    });
    this.#byBytes = byBytes;
    if (found.length === 0) return { ...joined(readings), bytes };
    const rules = resources.filter((resource) => !found.includes(resource));
    return { ...joined(readings), bytes: responseBytes(rules, typeUrl) };
  }

  ofResources(resources: ResourceSet): ReadOverrides {
    const readings: [string, Reading][] = [];
    for (const [name, resource] of resources) {
      if (!resource.isOverride) continue;
      let reading = this.#byResource.get(resource);
      if (reading === undefined) {
        reading = readResource(decodeAnswer(resource.field).resources[0]!.value);
        this.#byResource.set(resource, reading);
      }
      readings.push([name, reading]);
    }
    return joined(readings);
  }
}

/** Returns the resources that are not overrides. */
export function withoutOverrides(resources: ResourceSet): ResourceSet {
  for (const { isOverride: isOne } of resources.values())
    if (isOne) return new Map([...resources].filter(([, resource]) => !resource.isOverride));
  return resources;
}

function isOverride({ value }: Any): boolean {
  try {
    return resourceHead(value).isOverride;
  } catch {
    return false;
  }
}

function readResource(value: Uint8Array): Reading {
  try {
    const reading = decodeOverride(value);
    if (reading.override !== undefined) return reading;
    return { texts: reading.problems.map(formatManifestError) };
  } catch (error) {
    return { texts: [`cannot be decoded: ${errorText(error)}`] };
  }
}

function joined(readings: readonly (readonly [string, Reading])[]): ReadOverrides {
  const overrides: Override[] = [];
  const errors: RuleError[] = [];
  const rejected: RejectedRules[] = [];
  for (const [name, reading] of readings) {
    if (reading.override !== undefined) {
      overrides.push(reading.override);
      continue;
    }
    for (const text of reading.texts) errors.push(unplacedError('wrong-type', name, text));
    rejected.push({ name, message: reading.texts.join('; ') });
  }
  return { overrides, errors, rejected };
}

/** Adds the rejected overrides to the rejected rules of a load. */
export function withRejected(
  outcome: LoadedResources | FailedLoad,
  { errors, rejected }: ReadOverrides,
): LoadedResources | FailedLoad {
  if (!outcome.ok || rejected.length === 0) return outcome;
  const { rejected: rules } = outcome;
  return {
    ...outcome,
    rejected: {
      errors: [...(rules?.errors ?? []), ...errors],
      total: (rules?.total ?? 0) + errors.length,
      resources: [...(rules?.resources ?? []), ...rejected],
    },
  };
}
