/**
 * Which resources of a response are overrides, and what they say. They are taken out before rules are loaded, so that no rule is
 * compiled for one that comes or goes.
 */
import type { Any } from '@bufbuild/protobuf/wkt';
import { errorText } from '../../../process/log/error-text.ts';
import type { Override } from '../../../rules/override.ts';
import { formatManifestError, type RuleError } from '../../../rules/rule-error.ts';
import { decodeOverride } from '../../../rules/xds/override-resource.ts';
import { resourceHead } from '../../../rules/xds/resource.ts';
import { type FailedLoad, unplacedError } from '../config-source.ts';
import { responseBytes, type World, type WorldResource } from './delta-world.ts';
import { decodeAnswer, type LoadedResources } from './load-resources.ts';
import type { RefusedRules } from './xds-session.ts';

export interface ReadOverrides {
  readonly overrides: readonly Override[];
  readonly errors: RuleError[];
  /** Of incremental xDS, by their names. */
  readonly refused: RefusedRules[];
}

/** What a resource says, or what is wrong with it. */
type Reading = { override: Override } | { override?: undefined; texts: string[] };

/** The same bytes give the same override, so that what did not change is known to be that. */
export class OverrideResources {
  readonly #byResource = new WeakMap<WorldResource, Reading>();
  /** Of the last response of the state of the world. */
  #byBytes = new Map<string, Reading>();

  /** Of a response of the state of the world, whose other resources are left in `bytes`. Throws where it is none. */
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

  ofWorld(world: World): ReadOverrides {
    const readings: [string, Reading][] = [];
    for (const [name, resource] of world) {
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

/** The others. */
export function rulesOf(world: World): World {
  for (const { isOverride: isOne } of world.values())
    if (isOne) return new Map([...world].filter(([, resource]) => !resource.isOverride));
  return world;
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
  const refused: RefusedRules[] = [];
  for (const [name, reading] of readings) {
    if (reading.override !== undefined) {
      overrides.push(reading.override);
      continue;
    }
    for (const text of reading.texts) errors.push(unplacedError('wrong-type', name, text));
    refused.push({ name, message: reading.texts.join('; ') });
  }
  return { overrides, errors, refused };
}

/** Overrides that are no good are refused beside the rules that are none. */
export function withRefused(
  outcome: LoadedResources | FailedLoad,
  { errors, refused }: ReadOverrides,
): LoadedResources | FailedLoad {
  if (!outcome.ok || refused.length === 0) return outcome;
  const { refused: rules } = outcome;
  return {
    ...outcome,
    refused: {
      errors: [...(rules?.errors ?? []), ...errors],
      total: (rules?.total ?? 0) + errors.length,
      resources: [...(rules?.resources ?? []), ...refused],
    },
  };
}
