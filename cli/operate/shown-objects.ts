/** RateLimitConfigs, RateLimitOverrides and RateLimitFleets for commands, with statuses of any version of the control plane. */
import { defaultClass, defaultFleet } from '../../rules/language/kinds.ts';

export interface ShownCondition {
  type: string;
  /** `True`, `False` or `Unknown`. */
  status: string;
  reason: string;
  message: string;
  /** When the status last changed; empty if unknown. */
  since: string;
}

export interface ShownObject {
  namespace: string;
  name: string;
  className: string;
  /** The domain of the served rules or, if there are none, of the wanted ones. The same holds for `fleet`. */
  domain: string;
  fleet: string;
  generation: number;
  /** The observed generation; undefined without a status. */
  observedGeneration: number | undefined;
  servedGeneration: number | undefined;
  /** `<namespace>/<name>` of the control plane that wrote the status. */
  controllerName: string | undefined;
  conditions: ShownCondition[];
  /** The main reason why the object is not ready; undefined if it is ready. */
  why: ShownCondition | undefined;
}

/** Whether the control plane has accepted the present generation of the object. */
export function isAccepted({ conditions, generation, observedGeneration }: ShownObject): boolean {
  const accepted = conditions.find(({ type }) => type === 'Accepted');
  return observedGeneration !== undefined && observedGeneration >= generation && accepted?.status === 'True';
}

export interface ShownOverride extends ShownObject {
  /** The match as the status shows it, for people; empty if the status has none. */
  match: string;
  effect: string;
  /** RFC 3339; empty if the override has no end. */
  endsAt: string;
  /** Whether the override has ended, which is not an error. */
  isOver: boolean;
  /** The condition that says why the override is in force and has no effect. Undefined if it has one. */
  idle: ShownCondition | undefined;
}

export interface ShownFleet {
  namespace: string;
  name: string;
  /** Connected and expected limiters, for example `3/3`. */
  limiters: string;
  current: number | undefined;
  refusing: { name: string; message: string }[];
  version: string;
  /** The Service of the fleet's limiters. */
  service: { namespace: string; name: string } | undefined;
  conditions: ShownCondition[];
  why: ShownCondition | undefined;
}

export function shownObject(value: unknown): ShownObject {
  const { metadata, spec, status } = partsOf(value);
  const conditions = conditionsOf(status);
  const shown = {
    namespace: text(metadata['namespace']),
    name: text(metadata['name']),
    className: text(spec['className'], defaultClass),
    domain: text(status['domain'], text(spec['domain'])),
    fleet: text(status['fleet'], text(spec['fleet'], defaultFleet)),
    generation: number(metadata['generation']) ?? 0,
    observedGeneration: number(status['observedGeneration']),
    servedGeneration: number(status['servedGeneration']),
    controllerName: text(status['controllerName']) || undefined,
    conditions,
  };
  return {
    ...shown,
    why: unseenText(shown, { metadata, status }) ?? notTrue(conditions, ['Accepted', 'Programmed', 'Ready']),
  };
}

export function shownOverride(value: unknown): ShownOverride {
  const { status } = partsOf(value);
  const shown = shownObject(value);
  const isOver = shown.why?.reason === 'Expired';
  return {
    ...shown,
    why: isOver ? undefined : shown.why,
    match: text(status['match']),
    effect: text(status['effect']),
    endsAt: text(status['endsAt']),
    isOver,
    idle: shown.why === undefined ? noRule(shown.conditions) : undefined,
  };
}

/** Returns the condition that says that no rule has the match of an override. */
export function noRule(conditions: readonly ShownCondition[]): ShownCondition | undefined {
  return conditions.find(({ type, reason }) => type === 'Accepted' && reason === 'NoMatchingRule');
}

export function shownFleet(value: unknown): ShownFleet {
  const { metadata, spec, status } = partsOf(value);
  const conditions = conditionsOf(status);
  const service = record(spec['service']);
  const none = condition('Ready', 'NoStatus', 'no control plane has written a status', metadata);
  return {
    namespace: text(metadata['namespace']),
    name: text(metadata['name']),
    limiters: text(status['limiters']),
    current: number(status['current']),
    refusing: list(status['refusing'], ({ name, message }) => ({ name: text(name), message: text(message) })),
    version: text(status['version']),
    service:
      service['name'] === undefined
        ? undefined
        : { namespace: text(service['namespace']), name: text(service['name']) },
    conditions,
    why:
      conditions.length === 0
        ? none
        : (outdatedStatus(metadata['generation'], status) ?? notTrue(conditions, ['Ready'])),
  };
}

/** Returns why the status says nothing about the current generation. */
function unseenText(
  { className, conditions }: Omit<ShownObject, 'why'>,
  { metadata, status }: { metadata: Fields; status: Fields },
): ShownCondition | undefined {
  if (conditions.length === 0) {
    const message = `no control plane has written a status: none watches class '${className}' in this namespace, or it is not running`;
    return condition('Ready', 'NoStatus', message, metadata);
  }
  return outdatedStatus(metadata['generation'], status);
}

function outdatedStatus(current: unknown, status: Fields): ShownCondition | undefined {
  const [generation, observedGeneration] = [number(current) ?? 0, number(status['observedGeneration'])];
  if (observedGeneration === undefined || observedGeneration >= generation) return undefined;
  const message = `the control plane has not read generation ${generation}; its status is of generation ${observedGeneration}`;
  return condition('Ready', 'NotObserved', message, {});
}

function condition(
  type: string,
  reason: string,
  message: string,
  { creationTimestamp }: Fields,
): ShownCondition {
  return { type, status: 'Unknown', reason, message, since: text(creationTimestamp) };
}

function notTrue(
  conditions: readonly ShownCondition[],
  types: readonly string[],
): ShownCondition | undefined {
  return types.flatMap(
    (type) => conditions.find((one) => one.type === type && one.status !== 'True') ?? [],
  )[0];
}

type Fields = Readonly<Record<string, unknown>>;

function partsOf(value: unknown): { metadata: Fields; spec: Fields; status: Fields } {
  const { metadata, spec, status } = record(value);
  return { metadata: record(metadata), spec: record(spec), status: record(status) };
}

function conditionsOf(status: Fields): ShownCondition[] {
  return list(status['conditions'], ({ type, status: value, reason, message, lastTransitionTime }) => {
    const since = text(lastTransitionTime);
    return { type: text(type), status: text(value), reason: text(reason), message: text(message), since };
  });
}

function record(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function list<T>(value: unknown, read: (element: Fields) => T): T[] {
  return Array.isArray(value) ? value.map((element) => read(record(element))) : [];
}

function text(value: unknown, otherwise = ''): string {
  return typeof value === 'string' ? value : otherwise;
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
