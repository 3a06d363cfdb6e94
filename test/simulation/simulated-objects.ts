/** The objects of a simulation: it alone writes their specs, so it knows what limiters have to run. */
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import { kind as configKind, fleetKind, overrideKind } from '../../rules/language/kinds.ts';
import { rateLimitConfig } from '../support/rate-limit-config.ts';
import type { SeenObject } from '../truth/oracle.ts';
import { kinds } from './memory-api.ts';
import type { Kind, MemoryCluster, Target } from './memory-cluster.ts';
import type { Access } from './simulated-fleets.ts';
import { outLabel } from './simulated-replica.ts';
import { epochMs } from './virtual-time.ts';

export const namespaces = ['team-a', 'team-b', 'team-c'];
/** Those of the fleet `edge`, in which all limiters know all rules, begin with its first letter. */
export const domains = ['d0', 'd1', 'd2', 'd3', 'd4', 'd5', 'd6', 'e0', 'e1', 'e2', 'e3'];
/** Of overrides alone: no RateLimitConfig has rules for them. */
export const overrideDomains = ['ex0', 'ex1'];

export const kindNamed = (name: string): Kind => kinds.find(({ kind }) => kind === name)!;
const configs = kindNamed(configKind);
const overrides = kindNamed(overrideKind);
const manager = 'simulation';

export function fleetOf(domain: string): string {
  return domain.startsWith('e') ? 'edge' : 'default';
}

interface Made {
  /** By number, when it was first written; the newest at the end. */
  writtenMs: Map<number, number>;
  claimsSinceMs: number;
  access: Access;
}

interface Stored {
  spec: {
    className?: string;
    fleet?: string;
    domain: string;
    requestsPerUnit?: number;
    expiresAt?: string;
    descriptors?: { rateLimit?: { requestsPerUnit: number } }[];
  };
  status?: {
    observedGeneration?: number;
    controllerName?: string;
    conditions?: StoredCondition[];
  };
}

export interface StoredCondition {
  type: string;
  status: string;
  reason: string;
  message: string;
  observedGeneration?: number;
}

export interface SimulatedObject extends SeenObject {
  /** Its status accepts the present generation. */
  isAccepted: boolean;
  programmed: StoredCondition | undefined;
}

export interface SpecChange {
  domain?: string;
  isValid?: boolean;
  isOut?: boolean;
  isOfOtherClass?: boolean;
  /** To the number before the present one, where there is one. */
  isReverted?: boolean;
}

export class SimulatedObjects {
  readonly #cluster: MemoryCluster;
  readonly #nowMs: () => number;
  readonly #accessOf: (namespace: string, fleet: string, domain: string) => Access;
  readonly #made = new Map<string, Made>();
  readonly #owners = new Map<number, string>();
  /** The definition has a field that this program does not know. */
  hasNovelty = false;
  #number = 1_000;
  #names = 0;

  constructor(
    cluster: MemoryCluster,
    options: {
      nowMs(): number;
      /** Whether objects of a namespace may use a domain of a fleet now. */
      accessOf(namespace: string, fleet: string, domain: string): Access;
    },
  ) {
    this.#cluster = cluster;
    this.#nowMs = options.nowMs;
    this.#accessOf = options.accessOf;
  }

  /** Notes who lost or got the right to a domain, even if it is changed back at once. */
  accessChanged(): void {
    for (const { uid, access = 'allowed' } of this.seen()) {
      const made = this.#made.get(uid)!;
      if (made.access === access) continue;
      made.access = access;
      made.claimsSinceMs = this.#nowMs();
    }
  }

  /** The uid of the object that was ever given this number. */
  readonly ownerOf = (number: number): string | undefined => this.#owners.get(number);

  create(namespace: string, domain: string): void {
    const name = `o-${++this.#names}`;
    const requests = ++this.#number;
    const rule = { rateLimit: rateLimitOf(domain, requests) };
    const { spec, ...object } = rateLimitConfig({
      name,
      namespace,
      domain,
      fleet: fleetOf(domain),
      requests,
      rule,
    });
    const body = { ...object, spec: { ...(spec as object), ...this.#novelty } };
    this.#adopt(this.#cluster.create({ kind: configs, namespace }, body, manager), requests);
  }

  /** With a new number, unless it goes back to a former one. What is left out stays. */
  change(object: SeenObject, change: SpecChange): void {
    const made = this.#made.get(object.uid)!;
    const former = [...made.writtenMs.keys()].filter((number) => number !== object.number).at(-1);
    const number = (change.isReverted ? former : undefined) ?? ++this.#number;
    const { isValid = object.isValid, domain = object.domain, isOut, isOfOtherClass } = change;
    const rule = { key: 'key', rateLimit: rateLimitOf(domain, number) };
    const className = isOfOtherClass === undefined ? {} : { className: isOfOtherClass ? 'other' : 'weir' };
    const labels = isOut === undefined ? {} : { [outLabel]: isOut ? '' : null };
    made.writtenMs.set(number, made.writtenMs.get(number) ?? this.#nowMs());
    this.#owners.set(number, object.uid);
    if (Object.keys(change).some((what) => what !== 'isValid' && what !== 'isReverted'))
      made.claimsSinceMs = this.#nowMs();
    const spec = {
      ...{ domain, fleet: fleetOf(domain), ...className, ...this.#novelty },
      // The same key twice is something that only the control plane rejects.
      descriptors: isValid ? [rule] : [rule, rule],
    };
    this.#cluster.merge(targetOf(object), { metadata: { labels }, spec }, manager);
    const [namespace = ''] = object.key.split('/');
    made.access = this.#accessOf(namespace, fleetOf(domain), domain);
  }

  override(namespace: string, domain: string, lastsMs: number | undefined): void {
    const number = ++this.#number;
    const expiresAt = lastsMs && new Date(epochMs + this.#nowMs() + lastsMs).toISOString();
    const body = {
      metadata: { name: `v-${++this.#names}`, namespace },
      spec: {
        ...{ domain, fleet: fleetOf(domain), match: [{ key: 'key', value: 'x' }], requestsPerUnit: number },
        ...{ unit: 'day', reason: 'simulation', ...(expiresAt ? { expiresAt } : { permanent: true }) },
      },
    };
    this.#adopt(this.#cluster.create({ kind: overrides, namespace }, body, manager), number);
  }

  delete(object: SeenObject): void {
    this.#cluster.delete(targetOf(object), {});
  }

  /** Somebody else writes its status. */
  spoil(object: SeenObject, status: 'True' | 'False'): void {
    const condition = {
      ...{ type: 'Ready', status, reason: 'Edited', message: '', observedGeneration: object.generation },
      lastTransitionTime: '2027-01-01T00:00:00Z',
    };
    const body = { status: { observedGeneration: object.generation, conditions: [condition] } };
    this.#cluster.apply({ ...targetOf(object), isStatus: true }, body, { manager: 'somebody', force: true });
  }

  /** The definition with the field is installed, or the one before again, which drops the field. */
  novelty(has: boolean): void {
    this.hasNovelty = has;
    for (const { metadata } of this.#cluster.list({
      kind: configs,
      namespace: undefined,
      labelSelector: '',
    })) {
      const target = { kind: configs, namespace: metadata.namespace, name: metadata.name, isStatus: false };
      this.#cluster.merge(target, { spec: { novelty: has ? 'none' : null } }, manager);
    }
  }

  seen(): SimulatedObject[] {
    const all = (kind: Kind) => this.#cluster.list({ kind, namespace: undefined, labelSelector: '' });
    return [
      ...all(configs).map((object) => this.#seen(object, false)),
      ...all(overrides).map((object) => this.#seen(object, true)),
    ];
  }

  get #novelty(): object {
    return this.hasNovelty ? { novelty: 'none' } : {};
  }

  #adopt({ metadata: { uid = '', namespace = '' }, ...object }: ApiObject, number: number): void {
    this.#owners.set(number, uid);
    const nowMs = this.#nowMs();
    const { domain } = object['spec'] as Stored['spec'];
    const access = this.#accessOf(namespace, fleetOf(domain), domain);
    this.#made.set(uid, { writtenMs: new Map([[number, nowMs]]), claimsSinceMs: nowMs, access });
  }

  #seen(object: ApiObject, isOverride: boolean): SimulatedObject {
    const {
      namespace = '',
      name,
      uid = '',
      creationTimestamp,
      generation = 0,
      labels = {},
    } = object.metadata;
    const { spec, status = {} } = object as unknown as Stored;
    const number = spec.requestsPerUnit ?? spec.descriptors?.[0]?.rateLimit?.requestsPerUnit ?? 0;
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    const isOfPresent = status.observedGeneration === generation && ready?.observedGeneration === generation;
    const made = this.#made.get(uid)!;
    const accepted = status.conditions?.find(({ type }) => type === 'Accepted');
    return {
      isOverride,
      endsMs: spec.expiresAt === undefined ? undefined : Date.parse(spec.expiresAt) - epochMs,
      key: `${isOverride ? 'override/' : ''}${namespace}/${name}`,
      uid,
      age: `${creationTimestamp} ${namespace} ${name}`,
      generation,
      fleet: spec.fleet ?? 'default',
      domain: spec.domain,
      number,
      isOurs: (spec.className ?? 'weir') === 'weir' && labels[outLabel] === undefined,
      isValid: isOverride || spec.descriptors?.length === 1,
      access: this.#accessOf(namespace, spec.fleet ?? 'default', spec.domain),
      isAccepted: accepted?.status === 'True' && accepted.observedGeneration === generation,
      programmed: status.conditions?.find(({ type }) => type === 'Programmed'),
      isReady: isOfPresent && ready?.status === 'True',
      says: `Ready=${ready?.status} ${ready?.reason}${isOfPresent ? '' : ` of generation ${ready?.observedGeneration}`}`,
      controllerName: status.controllerName,
      changedMs: made.writtenMs.get(number) ?? 0,
      claimsSinceMs: made.claimsSinceMs,
    };
  }
}

/** Every third one is more than some limiters of the fleet `edge` count, when they reject it. */
function rateLimitOf(domain: string, requestsPerUnit: number): object {
  const isSliding = fleetOf(domain) === 'edge' && requestsPerUnit % 3 === 0;
  return { unit: 'day', requestsPerUnit, ...(isSliding ? { algorithm: 'SlidingWindow' } : {}) };
}

function targetOf({ key, isOverride }: SeenObject): Target {
  const [namespace = '', name = ''] = key.replace(/^override\//, '').split('/');
  return { kind: isOverride ? overrides : configs, namespace, name, isStatus: false };
}

/** What `/openapi/v3` says of our kinds: the one field matters that is not known. */
export function publishedSchemas(hasNovelty: boolean): object {
  const schema = (kind: string, properties: object) => ({
    'x-kubernetes-group-version-kind': [{ kind }],
    properties: { spec: { properties } },
  });
  const novelty = hasNovelty ? { novelty: { default: 'none' } } : {};
  return {
    components: {
      schemas: {
        config: schema(configKind, novelty),
        override: schema(overrideKind, {}),
        fleet: schema(fleetKind, {}),
      },
    },
  };
}
