/** What the middleware of all frameworks have in common: whom a request counts for, and what becomes of it. */
import { maskedText, parseAddress } from '../../rules/proxy/client-address.ts';
import type { Decision, Descriptors, Entries, Limiter, Value } from './api.ts';
import { warnOnce } from './warn.ts';

/** What middleware reads of a request. */
export interface RequestView {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The client's address, by the framework's rules for proxies. */
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
}

export interface MiddlewareOptions<Request, Response> {
  /**
   * The descriptors that a request counts for; undefined: none, so that it passes. Defaults to the client's address as
   * `remote_address`.
   */
  describe?: ((request: Request) => Descriptors | undefined | Promise<Descriptors | undefined>) | undefined;
  /** Requests that pass without being counted. */
  skip?: ((request: Request) => boolean | Promise<boolean>) | undefined;
  /** Answers a request that may not pass. Defaults to 429, or to 503 where the store failed. Headers are set before. */
  onLimited?: ((request: Request, response: Response, decision: Decision) => unknown) | undefined;
  /**
   * What happens to a request when `describe` or `skip` fails, or the limiter throws. `deny` answers 503, `throw` hands the error to
   * the framework. Defaults to `throw`.
   */
  onError?: 'allow' | 'deny' | 'throw' | undefined;
  /** IPv6 clients are grouped by the first bits of their address, because a client can choose the others. Defaults to 56. */
  ipv6Prefix?: number | undefined;
}

/** How a framework answers. */
export interface Framework<Request, Response> {
  setHeader(response: Response, name: string, value: string): void;
  answer(response: Response, status: number, body: { error: string }): void;
  /** Whether something else has answered meanwhile, such as a timeout. */
  isAnswered(response: Response): boolean;
  /** Whether the framework takes every proxy's word, so that a client may claim any address. The same for all requests. */
  trustsAnybody(request: Request): boolean;
}

/** `pass`: to go on; `answered`: the response is on its way. */
export type Passage = 'pass' | 'answered';

const defaultIpv6Prefix = 56;
/** Headers in which proxies, and clients as well, say whom a request comes from. */
const addressHeaders = [
  'x-forwarded-for',
  'x-real-ip',
  'forwarded',
  'x-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
  'x-envoy-external-address',
];

/** Gives what decides about each request; it rejects with what the framework is to handle. */
export function createGate<Request extends RequestView, Response>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Response>,
  framework: Framework<Request, Response>,
): (request: Request, response: Response) => Promise<Passage> {
  const { describe, skip, onLimited, onError = 'throw', ipv6Prefix = defaultIpv6Prefix } = options;
  if (!['allow', 'deny', 'throw'].includes(onError))
    throw new TypeError(`onError is allow, deny or throw, not ${onError}`);
  if (!Number.isInteger(ipv6Prefix) || ipv6Prefix < 1 || ipv6Prefix > 128)
    throw new TypeError(`ipv6Prefix is from 1 to 128, not ${ipv6Prefix}`);
  const tell = warnOnce(limiter);
  let trusts: boolean | undefined;
  const trustsAnybody = (request: Request): boolean => {
    trusts ??= framework.trustsAnybody(request);
    return trusts;
  };
  const asked = async (request: Request): Promise<Decision | undefined> => {
    if (skip !== undefined && (await skip(request))) return undefined;
    const values = new Addresses(request, ipv6Prefix);
    const described = describe === undefined ? values.describe(tell) : await describe(request);
    if (described === undefined) return undefined;
    const descriptors = counted(described, values);
    values.report(() => trustsAnybody(request), tell);
    return limiter.check(domain, descriptors);
  };
  return async (request, response) => {
    let decision: Decision | undefined;
    try {
      decision = await asked(request);
    } catch (error) {
      if (onError === 'throw') throw error;
      if (onError === 'allow') return 'pass';
      framework.answer(response, 503, { error: 'try again later' });
      return 'answered';
    }
    if (framework.isAnswered(response)) return 'answered';
    if (decision === undefined) return 'pass';
    for (const [name, value] of Object.entries(decision.headers)) framework.setHeader(response, name, value);
    if (decision.allowed) return 'pass';
    if (onLimited !== undefined) await onLimited(request, response, decision);
    else if (decision.reason === 'store') framework.answer(response, 503, { error: 'try again later' });
    else framework.answer(response, 429, { error: 'too many requests' });
    return 'answered';
  };
}

/** The values of one request that are addresses of its client. */
class Addresses {
  readonly #request: RequestView;
  readonly #own: string | undefined;
  readonly #ipv6Prefix: number;
  #usesOwn = false;
  #claimed: string | undefined;

  constructor(request: RequestView, ipv6Prefix: number) {
    this.#request = request;
    this.#own = request.ip ?? request.socket?.remoteAddress;
    this.#ipv6Prefix = ipv6Prefix;
  }

  describe(tell: (message: string) => void): Descriptors {
    if (this.#own === undefined)
      tell(
        'requests come without an address, as over a Unix socket, and all share one counter. Tell the framework to trust the proxy before it, or describe requests by something else',
      );
    return { remote_address: this.#own };
  }

  /** As it is counted. */
  counted(value: Value): Value {
    if (typeof value !== 'string') return value;
    if (value === this.#own) {
      this.#usesOwn = true;
      const address = parseAddress(value);
      if (address === undefined) return value;
      if (address.length === 4) return address.join('.');
      return this.#ipv6Prefix === 128 ? value : maskedText(address, 32, this.#ipv6Prefix);
    }
    this.#claimed ??= this.#headerOf(value);
    return value;
  }

  report(trustsAnybody: () => boolean, tell: (message: string) => void): void {
    const { headers, socket } = this.#request;
    if (this.#claimed !== undefined)
      tell(
        `an address is taken from the header ${this.#claimed} as it came: a client can write what it likes there. Use request.ip, and tell the framework which proxies to trust`,
      );
    if (!this.#usesOwn || headers['x-forwarded-for'] === undefined) return;
    if (this.#own === socket?.remoteAddress)
      tell(
        'requests come with X-Forwarded-For from an address that is not trusted as a proxy: if it is your proxy, all its clients share one counter. Tell the framework to trust it',
      );
    else if (trustsAnybody())
      tell(
        'every proxy is trusted, so that a client can choose its address by X-Forwarded-For. Trust the addresses of your proxies, or their number',
      );
  }

  #headerOf(value: string): string | undefined {
    if (parseAddress(value) === undefined) return undefined;
    const { headers } = this.#request;
    return addressHeaders.find((name) =>
      [headers[name] ?? []].flat().some((text) => text.split(/[\s,;="]+/).includes(value)),
    );
  }
}

function counted(descriptors: Descriptors, values: Addresses): Descriptors {
  if (!Array.isArray(descriptors)) return countedEntries(descriptors as Entries, values);
  const isPairs = Array.isArray(descriptors[0]) && typeof descriptors[0][0] === 'string';
  if (isPairs) return countedEntries(descriptors as Entries, values);
  return (descriptors as readonly Entries[]).map((one) => countedEntries(one, values));
}

function countedEntries(entries: Entries, values: Addresses): Entries {
  if (Array.isArray(entries)) return entries.map(([key, value]) => [key, values.counted(value)] as const);
  return Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, values.counted(value)]));
}
