/**
 * Detects requests that a browser was made to send: by a page of another origin, or by a name that was made to resolve to this address
 * (DNS rebinding). It reads only headers, and returns a sentence that names the header at fault.
 */
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { isLoopback } from '../net/bind.ts';
import { shown } from './api-route.ts';

/** The names by which clients may ask for a listener. */
export interface OwnHosts {
  /** The machine's own name. */
  readonly machine: string;
  /** Further names, in lower case. Pages of these hosts count as own pages, too: a proxy may serve them. */
  readonly allowed: readonly string[];
  /** The setting that contains `allowed`. */
  readonly setting: string;
}

/** `api` is only read by programs, a `page` and the index of profiles may be opened by a link, and a `profile` costs CPU. */
export type PageKind = 'api' | 'page' | 'profile-index' | 'profile';

const clusterSuffixes = ['.svc', '.cluster.local', '.internal'];

/** Returns why the listener does not answer this Host. A request without one does not come from a browser, so it passes. */
export function hostProblem(host: string | undefined, own: OwnHosts): string | undefined {
  if (host === undefined || host === '') return undefined;
  const name = hostName(host);
  const isOwn =
    name !== undefined &&
    (isIP(name) !== 0 ||
      !name.includes('.') ||
      name === own.machine.toLowerCase() ||
      own.allowed.includes(name) ||
      clusterSuffixes.some((suffix) => name.endsWith(suffix)));
  if (isOwn) return undefined;
  return `the host ${shown(host)} is not an IP address, not a name of this machine or its cluster, and not one of ${own.setting}`;
}

/** Returns why the request counts as another site's; undefined: nothing indicates it. */
export function siteProblem(
  request: IncomingMessage,
  { page, own }: { page: PageKind; own: OwnHosts },
): string | undefined {
  const { headers } = request;
  const { origin, host } = headers;
  if (origin !== undefined && !isOwnOrigin(origin, host, own))
    return `the request comes from a page of ${shown(origin)} (Origin)`;
  const wrongHost = hostProblem(host, own);
  if (wrongHost !== undefined) return wrongHost;
  const mayBeLinked = page === 'page' || page === 'profile-index';
  if (origin !== undefined || (mayBeLinked && isNavigation(request))) return undefined;
  return foreignReference(headers, own);
}

/**
 * Whether this is a browser asking by plain HTTP for an address that is not loopback. Nothing in such a request proves which
 * page caused it: browsers send Sec-Fetch-Site to trustworthy origins only, and a page can switch Referer off.
 */
export function isUnprovenBrowser({ headers }: IncomingMessage): boolean {
  const name = hostName(headers.host ?? '');
  if (name === undefined || name === '' || isLoopback(name)) return false;
  const { 'user-agent': agent = '', 'accept-language': language = '*' } = headers;
  return (
    /^(?:Mozilla|Opera)\//i.test(agent) ||
    language !== '*' ||
    browserHeaders.some((header) => headers[header] !== undefined)
  );
}

/** Headers that only browsers add. Node's `fetch` sends `Sec-Fetch-Mode` and `Accept-Language: *`, so these prove nothing. */
const browserHeaders = ['origin', 'referer', 'sec-fetch-site', 'sec-fetch-dest', 'upgrade-insecure-requests'];

/**
 * Without Sec-Fetch-Site, which plain requests to addresses other than loopback never have, Referer shows where the request comes from.
 */
function foreignReference(headers: IncomingHttpHeaders, own: OwnHosts): string | undefined {
  const { 'sec-fetch-site': site, referer = '', host } = headers;
  if (site === 'none' || site === 'same-origin') return undefined;
  if (site !== undefined)
    return `the request comes from a page of another site (Sec-Fetch-Site: ${shown(`${site}`)})`;
  if (referer === '' || isOwnOrigin(referer, host, own)) return undefined;
  return `the request comes from a page of ${shown(originOf(referer))} (Referer)`;
}

/** Whether a user followed a link, in the whole window. Pages can set none of these headers, and a frame is not a document. */
function isNavigation({ method, headers }: IncomingMessage): boolean {
  if (method !== 'GET') return false;
  const { 'sec-fetch-mode': mode, 'sec-fetch-dest': destination, accept = '' } = headers;
  if (mode !== undefined || destination !== undefined)
    return mode === 'navigate' && destination === 'document';
  return headers['upgrade-insecure-requests'] === '1' && accept.includes('text/html');
}

function isOwnOrigin(url: string, host: string | undefined, own: OwnHosts): boolean {
  if (!URL.canParse(url)) return false;
  const from = new URL(url);
  return from.host === host?.toLowerCase() || own.allowed.includes(from.hostname);
}

function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : url;
}

/** Returns the host in lower case, without the port, the brackets of IPv6 and the dot at its end. Undefined: it is not a host. */
function hostName(host: string): string | undefined {
  const name = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host);
  return (name?.[1] ?? name?.[2])?.toLowerCase().replace(/\.$/, '');
}
