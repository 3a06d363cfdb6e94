/** The RateLimitConfigs that the test writes, and what it knows of each: it is the only one who writes specs. */

import { ApiError, type ApiRequest } from '../../control-plane/kubernetes/api.ts';
import type { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { rateLimitConfig } from '../support/rate-limit-config.ts';
import type { SeenObject } from './oracle.ts';

export const namespaces = ['team-a', 'team-b', 'team-c'];
/** Of the object that a control plane with the selector of `selector` leaves alone. */
const outLabel = 'truth.weir.dev/out';
export const selector = `!${outLabel}`;
export const otherClass = 'other';
const ownClass = 'weir';

export interface Place {
  namespace: string;
  name: string;
}

/** What the test made of an object. */
interface Made {
  /** By number, when it was first sent; the last number that was new at the end. */
  sentMs: Map<number, number>;
  claimsSinceMs: number;
}

interface StoredObject {
  metadata: Place & {
    uid: string;
    creationTimestamp: string;
    generation: number;
    labels?: Record<string, string>;
  };
  spec: {
    className?: string;
    fleet?: string;
    domain: string;
    descriptors: { rateLimit?: { requestsPerUnit: number } }[];
  };
  status?: {
    observedGeneration?: number;
    controllerName?: string;
    conditions?: { type: string; status: string; reason: string; observedGeneration?: number }[];
  };
}

interface StoredOverride extends Pick<StoredObject, 'metadata' | 'status'> {
  spec: { domain: string; requestsPerUnit: number; expiresAt?: string };
}

export interface Change {
  domain?: string;
  isValid?: boolean;
  isOut?: boolean;
  isOfOtherClass?: boolean;
  /** To the number before the present one, where there is one. */
  isReverted?: boolean;
}

const root = '/apis/ratelimit.weir.dev/v1alpha1';
const path = ({ namespace, name }: Place, plural = 'ratelimitconfigs'): string =>
  `${root}/namespaces/${namespace}/${plural}/${name}`;
const overrides = 'ratelimitoverrides';

/** Domains of the fleet `edge` begin with its first letter. */
export function fleetOf(domain: string): string {
  return domain.startsWith('e') ? 'edge' : 'default';
}

/** Every third one is more than old limiters obey. */
function rateLimitOf(requestsPerUnit: number): Record<string, unknown> {
  return { unit: 'day', requestsPerUnit, ...(requestsPerUnit % 3 === 0 && { algorithm: 'SlidingWindow' }) };
}

export class TestObjects {
  readonly #client: KubernetesClient;
  readonly #nowMs: () => number;
  readonly #made = new Map<string, Made>();
  readonly #owners = new Map<number, string>();
  #lastNumber = 1_000;

  constructor(client: KubernetesClient, nowMs: () => number) {
    this.#client = client;
    this.#nowMs = nowMs;
  }

  /** The uid of the object that was ever given this number. */
  readonly ownerOf = (number: number): string | undefined => this.#owners.get(number);

  /** @throws ApiError also when the API server cannot be reached */
  async create(place: Place, domain: string): Promise<number> {
    const requests = ++this.#lastNumber;
    const sentMs = this.#nowMs();
    const rule = { rateLimit: rateLimitOf(requests) };
    const object = rateLimitConfig({ ...place, domain, fleet: fleetOf(domain), requests, rule });
    const { uid } = await this.#write({ method: 'POST', path: path({ ...place, name: '' }), body: object });
    this.#adopt(uid, requests, sentMs);
    return requests;
  }

  /** One whose creation was not answered is seen first. */
  #adopt(uid: string, number: number, sentMs = this.#nowMs()): Made {
    const sent = this.#made.get(uid)?.sentMs ?? new Map<number, number>();
    const made = { sentMs: sent.set(number, sentMs), claimsSinceMs: sentMs };
    this.#owners.set(number, uid);
    this.#made.set(uid, made);
    return made;
  }

  /** With a new number, unless it goes back to a former one. What is left out stays. */
  async change(object: SeenObject, change: Change): Promise<number> {
    const [namespace = '', name = ''] = object.key.split('/');
    const made = this.#made.get(object.uid) as Made;
    const former = [...made.sentMs.keys()].filter((number) => number !== object.number).at(-1);
    const requestsPerUnit = (change.isReverted ? former : undefined) ?? ++this.#lastNumber;
    const { isValid = object.isValid, domain = object.domain, isOut, isOfOtherClass } = change;
    const rule = { key: 'key', rateLimit: rateLimitOf(requestsPerUnit) };
    const className =
      isOfOtherClass === undefined ? {} : { className: isOfOtherClass ? otherClass : ownClass };
    const labels = isOut === undefined ? {} : { [outLabel]: isOut ? '' : null };
    // A limiter that stands still since may well run a former number.
    made.sentMs.set(requestsPerUnit, made.sentMs.get(requestsPerUnit) ?? this.#nowMs());
    this.#owners.set(requestsPerUnit, object.uid);
    if (Object.keys(change).some((what) => what !== 'isValid' && what !== 'isReverted'))
      made.claimsSinceMs = this.#nowMs();
    const { uid } = await this.#write({
      method: 'PATCH',
      contentType: 'application/merge-patch+json',
      path: path({ namespace, name }),
      // The same key twice is something that only the control plane rejects.
      body: {
        metadata: { labels },
        spec: { domain, ...className, descriptors: isValid ? [rule] : [rule, rule] },
      },
    });
    // Another one under that name, since it was seen.
    if (uid !== object.uid) this.#adopt(uid, requestsPerUnit);
    return requestsPerUnit;
  }

  /** A RateLimitOverride with a new number, which lasts so long from now on, or for good. */
  async override(place: Place, domain: string, lastsMs: number | undefined): Promise<number> {
    const number = ++this.#lastNumber;
    const sentMs = this.#nowMs();
    const end =
      lastsMs === undefined
        ? { permanent: true }
        : { expiresAt: new Date(Date.now() + lastsMs).toISOString() };
    const match = [{ key: 'key', value: 'truth' }];
    const { uid } = await this.#write({
      method: 'PATCH',
      contentType: 'application/apply-patch+yaml',
      path: path(place, overrides),
      query: { fieldManager: 'truth', force: true },
      body: {
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitOverride',
        metadata: place,
        spec: { domain, match, requestsPerUnit: number, unit: 'day', ...end, reason: 'truth' },
      },
    });
    this.#adopt(uid, number, sentMs);
    return number;
  }

  async delete({ key, isOverride }: SeenObject): Promise<void> {
    const [namespace = '', name = ''] = key.replace(/^override\//, '').split('/');
    const plural = isOverride ? overrides : undefined;
    await this.#client.request({ method: 'DELETE', path: path({ namespace, name }, plural) });
  }

  async list(): Promise<SeenObject[]> {
    const listed = async <T>(plural: string): Promise<T[]> =>
      (await this.#client.request<{ items: T[] }>({ path: `${root}/${plural}`, timeoutMs: 5_000 })).items;
    const [configs, lying] = await Promise.all([
      listed<StoredObject>('ratelimitconfigs'),
      listed<StoredOverride>(overrides),
    ]);
    return [
      ...configs.map((item) => this.#seen(item)),
      ...lying.map((item) => {
        const { domain, requestsPerUnit, expiresAt } = item.spec;
        const descriptors = [{ rateLimit: { requestsPerUnit } }];
        const seen = this.#seen({ ...item, spec: { domain, descriptors } });
        const endsMs = expiresAt && Date.parse(expiresAt) - Date.now() + this.#nowMs();
        return { ...seen, key: `override/${seen.key}`, isOverride: true, endsMs: endsMs || undefined };
      }),
    ];
  }

  async #write(request: ApiRequest): Promise<{ uid: string }> {
    const { metadata } = await this.#client.request<StoredObject>({ timeoutMs: 5_000, ...request });
    return metadata;
  }

  #seen({ metadata, spec, status = {} }: StoredObject): SeenObject {
    const { namespace, name, uid, creationTimestamp, generation, labels = {} } = metadata;
    const number = spec.descriptors[0]?.rateLimit?.requestsPerUnit ?? 0;
    const ready = status.conditions?.find(({ type }) => type === 'Ready');
    const isOfPresent = status.observedGeneration === generation && ready?.observedGeneration === generation;
    const made = this.#made.get(uid) ?? this.#adopt(uid, number);
    return {
      isOverride: false,
      endsMs: undefined,
      key: `${namespace}/${name}`,
      uid,
      age: `${creationTimestamp} ${namespace} ${name}`,
      generation,
      fleet: spec.fleet ?? 'default',
      domain: spec.domain,
      number,
      isOurs: (spec.className ?? ownClass) === ownClass && labels[outLabel] === undefined,
      isValid: spec.descriptors.length === 1,
      isReady: isOfPresent && ready?.status === 'True',
      says: `Ready=${ready?.status} ${ready?.reason}${isOfPresent ? '' : ` of generation ${ready?.observedGeneration}`}`,
      controllerName: status.controllerName,
      changedMs: made.sentMs.get(number) ?? 0,
      claimsSinceMs: made.claimsSinceMs,
    };
  }
}

/** Whether the API server answered, and did not want it: somebody was faster. */
export function isRefused(error: unknown): boolean {
  return error instanceof ApiError && error.status > 0;
}
