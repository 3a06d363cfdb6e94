import type { IncomingMessage } from 'node:http';
import { describe, expect, it } from 'vitest';
import { hostProblem, isUnprovenBrowser, type PageKind, siteProblem } from './site-check.ts';

const own = { machine: 'Node-1.example', allowed: ['ops.example'], setting: 'DEBUG_ALLOWED_HOSTS' };
const requestWith = (headers: Record<string, string>, method = 'GET') =>
  ({ method, headers }) as unknown as IncomingMessage;

describe('a host', () => {
  it.each([
    [undefined],
    [''],
    ['127.0.0.1:6070'],
    ['10.0.0.1'],
    ['[fd00::1]:6070'],
    ['localhost'],
    ['LocalHost.:6070'],
    ['limiter'],
    ['limiter.weir.svc:6070'],
    ['limiter.weir.svc.cluster.local'],
    ['ip-10-0-0-1.ec2.internal'],
    ['node-1.EXAMPLE:6070'],
    ['ops.example'],
  ])('%s passes', (host) => expect(hostProblem(host, own)).toBeUndefined());

  it.each([
    ['rebound.example'],
    ['127.0.0.1.rebound.example'],
    ['localhost.rebound.example'],
    ['svc.rebound.example'],
    ['internal.example:6070'],
    ['xops.example'],
    ['a:b:c'],
    ['a@127.0.0.1'],
  ])('%s does not pass', (host) =>
    expect(hostProblem(host, own)).toBe(
      `the host ${JSON.stringify(host)} is not an IP address, not a name of this machine or its cluster, and not one of DEBUG_ALLOWED_HOSTS`,
    ),
  );
});

const linked = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
const plainLink = {
  referer: 'http://wiki.example/page',
  'upgrade-insecure-requests': '1',
  accept: 'text/html,*/*',
};

const everyKind: PageKind[] = ['api', 'page', 'profile-index', 'profile'];

describe('a request', () => {
  const rows: [what: string, headers: Record<string, string>, refused: PageKind[]][] = [
    ['of a program', {}, []],
    ['of an own page', { 'sec-fetch-site': 'same-origin' }, []],
    ['of somebody who typed the address', { ...linked, 'sec-fetch-site': 'none' }, []],
    [
      'of an image',
      { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' },
      everyKind,
    ],
    ['of a page at another port', { 'sec-fetch-site': 'same-site', 'sec-fetch-mode': 'cors' }, everyKind],
    ['of a link', { ...linked, 'sec-fetch-dest': 'document' }, ['api', 'profile']],
    ['of a frame', { ...linked, 'sec-fetch-dest': 'iframe' }, everyKind],
    [
      'with a foreign Origin',
      { origin: 'http://evil.example', ...linked, 'sec-fetch-dest': 'document' },
      everyKind,
    ],
    ['with a foreign Referer', { referer: 'http://wiki.example/page' }, everyKind],
    ['with a Referer that is no address', { referer: 'somewhere' }, everyKind],
    ['with an own Referer', { referer: 'http://10.0.0.1:6070/debug/pprof/' }, []],
    ['with a Referer of an allowed host', { referer: 'https://ops.example/weir/' }, []],
    ['of a link by plain HTTP', plainLink, ['api', 'profile']],
    ['that only asks for HTML', { ...plainLink, 'upgrade-insecure-requests': '0' }, everyKind],
    ['to a rebound name', { host: 'rebound.example', ...plainLink }, everyKind],
  ];
  it.each(rows)('%s is rejected if it should be', (_, headers, refused) => {
    const request = requestWith({ host: '10.0.0.1:6070', ...headers });
    const kinds = everyKind.filter((page) => siteProblem(request, { page, own }) !== undefined);
    expect(kinds).toEqual(refused);
  });

  it('is no link when it is a POST', () => {
    const request = requestWith({ ...linked, 'sec-fetch-dest': 'document' }, 'POST');
    expect(siteProblem(request, { page: 'page', own })).toContain('Sec-Fetch-Site: "cross-site"');
  });

  it('names no more of a foreign page than its origin', () => {
    const request = requestWith({ referer: 'http://wiki.example/secret?token=1' });
    expect(siteProblem(request, { page: 'page', own })).toBe(
      'the request comes from a page of "http://wiki.example" (Referer)',
    );
  });
});

describe('a client', () => {
  it.each([
    ['10.0.0.1:6070', { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64)' }, true],
    ['limiter', { 'accept-language': 'en-GB' }, true],
    ['limiter', { 'upgrade-insecure-requests': '1' }, true],
    ['[fd00::1]:6070', { referer: 'http://[fd00::1]:6070/' }, true],
    ['127.0.0.1:6070', { 'user-agent': 'Mozilla/5.0' }, false],
    ['localhost', { 'user-agent': 'Mozilla/5.0' }, false],
    ['[::1]', { 'user-agent': 'Mozilla/5.0' }, false],
    ['10.0.0.1', { 'user-agent': 'Go-http-client/1.1' }, false],
    ['10.0.0.1', { 'user-agent': 'curl/8.5.0', accept: '*/*' }, false],
    ['10.0.0.1', { 'user-agent': 'node', 'accept-language': '*', 'sec-fetch-mode': 'cors' }, false],
    ['', { 'user-agent': 'Mozilla/5.0' }, false],
  ])('that asks "%s" with %o: an unproven browser is %s', (host, headers, expected) => {
    expect(isUnprovenBrowser(requestWith({ host, ...headers }))).toBe(expected);
  });
});
