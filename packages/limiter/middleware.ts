/** The framework-independent part of the middleware: which descriptors a request counts for, and how it is answered. */
import { errorText } from '../../process/log/error-text.ts';
import { maskedText, parseAddress } from '../../rules/proxy/client-address.ts';
import type { Decision, Descriptors, Entries, Limiter, Value } from './api.ts';
import { checkDomain, checkOptions } from './checks.ts';
import { isOne } from './descriptors.ts';
import { LimiterError } from './limiter-error.ts';
import { warnOnce } from './warn.ts';

/** The properties of a request that middleware reads. */
export interface RequestView {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** The client's address, by the framework's rules for proxies. */
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
}

export interface MiddlewareOptions<Request, Response> {
  /**
   * Returns the descriptors that a request counts for. If it returns undefined, the request passes. Defaults to the client's
   * address as `remote_address`.
   */
  describe?: ((request: Request) => Descriptors | undefined | Promise<Descriptors | undefined>) | undefined;
  /** Returns whether a request passes without being counted. */
  skip?: ((request: Request) => boolean | Promise<boolean>) | undefined;
  /** Answers a request that is rejected. Defaults to 429, or to 503 if the store failed. Headers are set before. */
  onLimited?: ((request: Request, response: Response, decision: Decision) => unknown) | undefined;
  /**
   * What happens to a request if `describe` or `skip` fails, or if the limiter throws. `deny` answers 503, and `throw` passes the
   * error to the framework. Defaults to `throw`.
   */
  onError?: 'allow' | 'deny' | 'throw' | undefined;
  /** IPv6 clients are grouped by the first bits of their address, because a client can choose the others. Defaults to 56. */
  ipv6Prefix?: number | undefined;
}

/** The functions of a framework that the middleware needs. */
export interface Framework<Request, Response> {
  setHeader(response: Response, name: string, value: string): void;
  answer(response: Response, status: number, body: { error: string }): void;
  /** Whether the response was sent by other code in the meantime, such as a timeout. */
  isAnswered(response: Response): boolean;
  /** Whether the framework trusts every proxy, so that a client can claim any address. The answer is the same for all requests. */
  trustsAnybody(request: Request): boolean;
}

/** `pass`: the request continues; `answered`: the response is being sent. */
export type GateResult = 'pass' | 'answered';

const defaultIpv6Prefix = 56;
/** Headers in which proxies report the client's address. Clients can send them, too. */
const addressHeaders = [
  'x-forwarded-for',
  'x-real-ip',
  'forwarded',
  'x-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
  'do-connecting-ip',
  'fly-client-ip',
  'x-azure-clientip',
  'x-appengine-user-ip',
  'x-cluster-client-ip',
  'x-envoy-external-address',
];

/** Creates the function that decides each request. Its promise rejects with errors that the framework should handle. */
export function createGate<Request extends RequestView, Response>(
  limiter: Limiter,
  domain: string,
  options: MiddlewareOptions<Request, Response>,
  framework: Framework<Request, Response>,
): (request: Request, response: Response) => Promise<GateResult> {
  if (typeof limiter?.check !== 'function')
    throw new LimiterError(
      'invalid',
      'limitRequests takes a limiter of createLimiter; await its promise first',
    );
  checkDomain(domain);
  checkOptions('limitRequests', options, ['describe', 'skip', 'onLimited', 'onError', 'ipv6Prefix']);
  const { describe, skip, onLimited, onError = 'throw', ipv6Prefix = defaultIpv6Prefix } = options;
  if (!['allow', 'deny', 'throw'].includes(onError))
    throw new LimiterError('invalid', `onError is allow, deny or throw, not ${onError}`);
  for (const [name, given] of Object.entries({ describe, skip, onLimited }))
    if (given !== undefined && typeof given !== 'function')
      throw new LimiterError('invalid', `${name} is a function, not ${typeof given}`);
  if (!Number.isInteger(ipv6Prefix) || ipv6Prefix < 1 || ipv6Prefix > 128)
    throw new LimiterError('invalid', `ipv6Prefix is from 1 to 128, not ${ipv6Prefix}`);
  const notify = warnOnce(limiter);
  let hasReported = false;
  /** The first error alone, because their number has no bound. The limiter reports its store's by itself. */
  const reportError = (error: unknown): void => {
    if (hasReported || (error instanceof LimiterError && error.code === 'store')) return;
    hasReported = true;
    const became = onError === 'allow' ? 'passed without being counted' : 'was answered with 503';
    notify(
      `a request ${became}, because its decision failed: ${errorText(error)}. Later failures are not reported`,
    );
  };
  let trusts: boolean | undefined;
  const trustsAnybody = (request: Request): boolean => {
    trusts ??= framework.trustsAnybody(request);
    return trusts;
  };
  const asked = async (request: Request): Promise<Decision | undefined> => {
    if (skip !== undefined && (await skip(request))) return undefined;
    const values = new Addresses(request, ipv6Prefix);
    const described = describe === undefined ? values.describe(notify) : await describe(request);
    if (described === undefined) return undefined;
    const descriptors = counted(described, values);
    values.report(() => trustsAnybody(request), notify);
    return limiter.check(domain, descriptors);
  };
  return async (request, response) => {
    let decision: Decision | undefined;
    try {
      decision = await asked(request);
    } catch (error) {
      if (onError === 'throw') throw error;
      reportError(error);
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

/** Recognizes descriptor values that are the client's address. */
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

  describe(notify: (message: string) => void): Descriptors {
    if (this.#own === undefined)
      notify(
        'requests come without an address, as over a Unix socket, and all share one counter. Configure the framework to trust its proxy, or describe requests without the address',
      );
    return { remote_address: this.#own };
  }

  /** The value to count: the client's own address is masked. */
  counted(value: Value): Value {
    if (Array.isArray(value) && value.length === 1) return this.counted(value[0]);
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

  report(trustsAnybody: () => boolean, notify: (message: string) => void): void {
    const { headers, socket } = this.#request;
    if (this.#claimed !== undefined)
      notify(
        `an address is read from the header ${this.#claimed} unchanged, where a client can write any text. Use request.ip, and configure the framework to trust your proxies`,
      );
    if (!this.#usesOwn || headers['x-forwarded-for'] === undefined) return;
    if (this.#own === socket?.remoteAddress)
      notify(
        'requests come with X-Forwarded-For from an address that is not trusted as a proxy: if it is your proxy, all its clients share one counter. Configure the framework to trust it',
      );
    else if (trustsAnybody())
      notify(
        'every proxy is trusted, so that a client can choose its address by X-Forwarded-For. Trust the addresses of your proxies, or their number',
      );
  }

  /** A value may be a whole header, or one of the addresses in it. */
  #headerOf(value: string): string | undefined {
    const { headers } = this.#request;
    return addressHeaders.find((name) =>
      [headers[name] ?? []].flat().some((text) => {
        const words = text.split(/[\s,;="]+/);
        const taken = text === value ? words : words.filter((word) => word === value);
        return taken.some((word) => parseAddress(word) !== undefined);
      }),
    );
  }
}

/** Adjusts descriptors. A value that is not a descriptor is left for the limiter to reject. */
function counted(descriptors: Descriptors, values: Addresses): Descriptors {
  if (typeof descriptors !== 'object' || descriptors === null) return descriptors;
  if (isOne(descriptors)) return countedEntries(descriptors, values);
  return descriptors.map((one) => countedEntries(one, values));
}

function countedEntries(entries: Entries, values: Addresses): Entries {
  if (typeof entries !== 'object' || entries === null) return entries;
  if (Array.isArray(entries))
    return entries.map((pair) => {
      if (!Array.isArray(pair)) return pair;
      const [key, value, ...others] = pair;
      return [key, values.counted(value), ...others] as unknown as readonly [string, Value];
    });
  return Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, values.counted(value)]));
}
