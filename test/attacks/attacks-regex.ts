/** Attacks on the regular expressions of forward auth: requests as large as may be, that keep most states alive. */

import { automatonOf, newCostBudget } from '../../process/regex/expression.ts';
import { type Attack, openMany, RawPeer } from './attack.ts';

/** By the profile's name. */
const expressions: Record<string, readonly string[]> = {
  export: ['.*/.{1,64}/.{1,64}/export'],
  many: asManyAsFit('.*/.{1,64}/.{1,64}/export'),
  counted: ['.*a.{1,800}x'],
  bounded: asManyAsFit('.*\\b(a|/|aa/)+\\bx'),
  small: asManyAsFit('.*(a|b)x'),
};

function asManyAsFit(expression: string): string[] {
  const copies = Math.floor(newCostBudget().max / automatonOf(expression).stepCost);
  return Array.from({ length: copies }, (_, copy) => `(?P<copy${copy}>${expression})`);
}

/** The file of profiles of the limiter that is attacked. */
export function regexProfiles(): string {
  const profiles = Object.entries(expressions).map(([name, list]) => {
    const rateLimits = list.map((regex) => ({
      actions: [
        {
          header_value_match: {
            descriptor_value: 'export',
            headers: [{ name: ':path', safe_regex_match: { regex } }],
          },
        },
      ],
    }));
    return [name, { domain: 'attack', rate_limits: rateLimits }];
  });
  return JSON.stringify({ profiles: Object.fromEntries(profiles) });
}

/** Random `/` and `a`, about as many as the headers of a request may have. */
function hostilePath(random: () => number): string {
  return `/${Array.from({ length: 14_000 }, () => '/a'[Math.floor(random() * 2)]).join('')}`;
}

/** Four connections, each with the next request when the last one is answered. */
function asking(name: string, profile: string, what: string): Attack {
  return {
    name,
    what,
    meets: /^HTTP 200$/,
    async run({ ports, got, random }) {
      const requests = Array.from({ length: 20 }, () => {
        const line = `GET /v1/forward-auth/${profile} HTTP/1.1\r\nhost: limiter\r\n`;
        const headers = `x-forwarded-method: GET\r\nx-forwarded-host: shop\r\nx-forwarded-for: 192.0.2.1\r\n`;
        return Buffer.from(`${line}${headers}x-forwarded-uri: ${hostilePath(random)}\r\n\r\n`);
      });
      await openMany(
        4,
        () => new RawPeer(ports.http, got),
        async (peer) => void ask(peer, requests),
      );
      await new Promise(() => {});
    },
  };
}

async function ask(peer: RawPeer, requests: readonly Buffer[]): Promise<void> {
  for (let i = 0; !peer.isClosed; i += 1) {
    const answer = peer.change();
    await peer.write(requests[i % requests.length]!);
    await answer;
  }
}

export const regexAttacks: readonly Attack[] = [
  asking(
    'regex-path',
    'export',
    'Paths of 14 kB for `.*/.{1,64}/.{1,64}/export` in a profile of forward auth',
  ),
  asking('regex-path-many', 'many', 'The same paths for the maximum number of such expressions'),
  asking('regex-counted', 'counted', 'The same paths for `.*a.{1,800}x`'),
  asking('regex-boundaries', 'bounded', 'The same paths for the maximum number of expressions with `\\b`'),
  asking('regex-small', 'small', 'The same paths for the maximum number of small expressions'),
];
