/** The RateLimitFleets of a simulation, and the labels of namespaces: it alone decides who may use a fleet. */
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import type { FleetSpec } from '../../control-plane/model/object-models.ts';
import { fleetKind } from '../../rules/language/kinds.ts';
import type { Random } from '../fuzz/random.ts';
import type { MemoryCluster, Target } from './memory-cluster.ts';
import {
  domains,
  kindNamed,
  namespaces,
  overrideDomains,
  type StoredCondition,
} from './simulated-objects.ts';
import { systemNamespace } from './simulated-replica.ts';

export const fleets = ['default', 'edge'];
export type Access = 'allowed' | 'denied' | 'unknown';

const fleetObjects = kindNamed(fleetKind);
const namespaceObjects = kindNamed('Namespace');
const manager = 'simulation';

/** A RateLimitFleet as the API server has it. */
export interface SeenFleet {
  name: string;
  uid: string;
  generation: number;
  /** Whether its Service names its limiters. */
  hasService: boolean;
  /** Its entries contradict each other: what was valid before remains. */
  isMistaken: boolean;
  /** Of the present generation. */
  isReady: boolean;
  says: string;
  conditions: readonly StoredCondition[];
  numbers: Partial<Record<'expected' | 'connected' | 'current' | 'joining', number>>;
  limiters: string | undefined;
  refusing: readonly { name: string }[];
  version: string | undefined;
}

type Spec = Partial<FleetSpec>;
type AccessSpec = Pick<Spec, 'allowedNamespaces' | 'domains'>;

const isMistake = ({ domains = [] }: Spec): boolean => domains[0]?.match === '*' && domains.length > 1;

export class SimulatedFleets {
  readonly #cluster: MemoryCluster;
  readonly #byName = new Map<string, ApiObject>();
  /** The last spec without a mistake, by uid. */
  readonly #valid = new Map<string, Spec>();
  /** When an object with a Service appeared, by fleet. */
  readonly #namedSinceMs = new Map<string, number>();

  constructor(cluster: MemoryCluster, nowMs: () => number) {
    this.#cluster = cluster;
    cluster.onChange(({ kind, object, type }) => {
      if (kind !== fleetObjects || object.metadata.namespace !== systemNamespace) return;
      const { uid = '', name } = object.metadata;
      if (type === 'DELETED') this.#byName.delete(name);
      else this.#byName.set(name, object);
      const spec = specOf(object);
      if (!isMistake(spec)) this.#valid.set(uid, spec);
      if (type === 'DELETED' || spec.service === undefined) this.#namedSinceMs.delete(name);
      else if (!this.#namedSinceMs.has(name)) this.#namedSinceMs.set(name, nowMs());
    });
  }

  get names(): readonly string[] {
    return [...this.#byName.keys()];
  }

  /** Since when its Service names its limiters. */
  namedSinceMs(fleet: string): number | undefined {
    return this.#namedSinceMs.get(fleet);
  }

  /** Whether objects of the namespace may use the domain of the fleet. */
  readonly accessOf = (namespace: string, fleet: string, domain: string): Access => {
    const object = this.#object(fleet);
    if (object === undefined) return 'allowed';
    if (isMistake(specOf(object))) return 'unknown';
    const { allowedNamespaces, domains: entries = [] } = specOf(object);
    if (allowedNamespaces?.from === 'Selector' && !this.#isSelected(namespace, allowedNamespaces.selector!))
      return 'denied';
    const entry = entries.find(({ match }) => matches(match, domain));
    const isOwner = entry === undefined || entry.namespaces.some((name) => matches(name, namespace));
    return isOwner ? 'allowed' : 'denied';
  };

  create(fleet: string, spec: AccessSpec): void {
    const body = { metadata: { name: fleet }, spec };
    this.#cluster.create({ kind: fleetObjects, namespace: systemNamespace }, body, manager);
  }

  /** Somebody may use it who could not, or the reverse. Returns what makes it what it was. */
  changeAccess(fleet: string, random: Random): () => void {
    return this.#change(fleet, randomAccess(random));
  }

  /** An entry that can never match. */
  mistake(fleet: string): () => void {
    const entries = [
      { match: '*', namespaces: ['*'] },
      { match: domains[0]!, namespaces: [namespaces[0]!] },
    ];
    return this.#change(fleet, { ...accessIn(this.#validSpec(this.#object(fleet)!)), domains: entries });
  }

  /** Nobody may use the domain of the fleet. Returns what makes it what it was. */
  deny(fleet: string, domain: string): () => void {
    return this.#change(fleet, { domains: [{ match: domain, namespaces: ['nobody'] }] });
  }

  /** Concerns no access. */
  changeGrace(fleet: string, random: Random): void {
    const seconds = 30 + random.below(30);
    this.#cluster.merge(targetOf(fleet), { spec: { disconnectedGraceSeconds: seconds } }, manager);
  }

  /** Returns what makes it what it was. */
  label(namespace: string, random: Random): () => void {
    const { labels = {} } = this.#cluster.read(namespaceTarget(namespace)).metadata;
    return this.#setLabel(namespace, labels['limits'] === 'no' || random.below(3) > 0 ? 'yes' : 'no');
  }

  /** Fleets that exclude namespaces exclude this one. Returns what makes it what it was. */
  exclude(namespace: string): () => void {
    return this.#setLabel(namespace, 'no');
  }

  delete(fleet: string): void {
    this.#cluster.delete(targetOf(fleet), {});
  }

  /** Somebody else writes its status. */
  spoil(fleet: string, status: 'True' | 'False'): void {
    const object = this.#object(fleet)!;
    const { generation = 0 } = object.metadata;
    const condition = {
      ...{ type: 'Ready', status, reason: 'Edited', message: '', observedGeneration: generation },
      lastTransitionTime: '2027-01-01T00:00:00Z',
    };
    const body = { status: { observedGeneration: generation, conditions: [condition] } };
    this.#cluster.apply({ ...targetOf(fleet), isStatus: true }, body, { manager: 'somebody', force: true });
  }

  seen(): SeenFleet[] {
    return [...this.#byName.values()].map((object) => {
      const { name, uid = '', generation = 0 } = object.metadata;
      const spec = specOf(object);
      const { status = {} } = object as unknown as { status?: Partial<SeenFleet['numbers']> & StoredStatus };
      const { observedGeneration, conditions = [], limiters, refusing = [], version } = status;
      const ready = conditions.find(({ type }) => type === 'Ready');
      const isOfPresent = observedGeneration === generation && ready?.observedGeneration === generation;
      return {
        ...{ name, uid, generation, conditions, numbers: status, limiters, refusing, version },
        hasService: spec.service !== undefined,
        isMistaken: isMistake(spec),
        isReady: isOfPresent && ready?.status === 'True',
        says: `Ready=${ready?.status} ${ready?.reason}${isOfPresent ? '' : ` of generation ${observedGeneration}`}`,
      };
    });
  }

  #setLabel(namespace: string, value: string): () => void {
    const target = namespaceTarget(namespace);
    const { labels = {} } = this.#cluster.read(target).metadata;
    const set = (limits: string | null): void => {
      this.#cluster.merge(target, { metadata: { labels: { limits } } }, manager);
    };
    set(value);
    return () => set(labels['limits'] ?? null);
  }

  #object(fleet: string): ApiObject | undefined {
    return this.#byName.get(fleet);
  }

  #change(fleet: string, access: AccessSpec): () => void {
    const object = this.#object(fleet)!;
    const before = accessIn(this.#validSpec(object));
    this.#writeAccess(object, access);
    return () => {
      const now = this.#object(fleet);
      if (now !== undefined && now.metadata.uid === object.metadata.uid) this.#writeAccess(now, before);
    };
  }

  #validSpec({ metadata: { uid = '' } }: ApiObject): Spec {
    return this.#valid.get(uid) ?? {};
  }

  #writeAccess(object: ApiObject, access: AccessSpec): void {
    const { allowedNamespaces: _, domains: __, ...others } = specOf(object);
    this.#cluster.replace(
      targetOf(object.metadata.name),
      { ...object, spec: { ...others, ...access } },
      manager,
    );
  }

  #isSelected(namespace: string, { matchLabels = {}, matchExpressions = [] }: Selector): boolean {
    const target = { kind: namespaceObjects, namespace: undefined, name: namespace };
    const { labels = {} } = this.#cluster.read(target).metadata;
    return (
      Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
      matchExpressions.every(({ key, values = [] }) => !values.includes(labels[key] ?? ''))
    );
  }
}

type Selector = NonNullable<NonNullable<Spec['allowedNamespaces']>['selector']>;

interface StoredStatus {
  observedGeneration?: number;
  conditions?: StoredCondition[];
  limiters?: string;
  refusing?: { name: string }[];
  version?: string;
}

function specOf(object: ApiObject): Spec {
  return (object['spec'] ?? {}) as Spec;
}

function namespaceTarget(name: string): Target {
  return { kind: namespaceObjects, namespace: undefined, name, isStatus: false };
}

function targetOf(name: string): Target {
  return { kind: fleetObjects, namespace: systemNamespace, name, isStatus: false };
}

/** The patterns of these simulations have at most one star, at their end. */
function matches(pattern: string, text: string): boolean {
  return pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern;
}

function accessIn({ allowedNamespaces, domains: entries }: Spec): AccessSpec {
  return { ...(allowedNamespaces && { allowedNamespaces }), ...(entries && { domains: entries }) };
}

/** Usually most namespaces may use most domains. */
export function randomAccess(random: Random): AccessSpec {
  const one = <T>(list: readonly T[]): T => list[random.below(list.length)]!;
  const selector: Selector =
    random.below(4) === 0
      ? { matchLabels: { limits: 'yes' } }
      : { matchExpressions: [{ key: 'limits', operator: 'NotIn', values: ['no'] }] };
  const names = one([undefined, { from: 'All' as const }, { from: 'Selector' as const, selector }]);
  const owned = [...new Set([one(domains), one(domains), one([...domains, ...overrideDomains])])];
  const entries = owned.map((match) => ({ match, namespaces: [one(namespaces), one(namespaces)] }));
  const owners = one([undefined, undefined, entries, [...entries, { match: '*', namespaces: ['*'] }]]);
  return { ...(names && { allowedNamespaces: names }), ...(owners && { domains: owners }) };
}
