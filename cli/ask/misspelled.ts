/** Finds misspelled keys and domains in a request that no rule limits. gRPC answers do not show them; the debug listener does. */
import { isLoopback } from '../../process/net/bind.ts';
import type { Entry } from '../../rules/model.ts';
import { withLimiters } from '../operate/operate-command.ts';
import type { ParsedFlags } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import type { AskAddress } from './ask-target.ts';

/** Chosen: the answer is known already, so a hint must not delay it for long. */
const patience = '1s';

/** Returns a sentence for each descriptor with a likely mistake. Never rejects. */
export async function hintsFor(
  address: AskAddress,
  domain: string,
  descriptors: readonly (readonly Entry[])[],
): Promise<string[]> {
  const debug = debugAddress(address);
  if (debug === undefined) return [];
  const named: ParsedFlags = {
    text: (name) => (name === 'timeout' ? patience : undefined),
    list: (name) => (name === 'limiter' ? debug : []),
    on: () => false,
    isGiven: () => false,
    positionals: [],
  };
  try {
    return await withLimiters(named, async (limiters) => {
      const found = await limiters.found();
      const hints = await Promise.all(descriptors.map((entries) => found.misspelled(domain, entries)));
      return [...new Set(hints.filter((hint) => hint !== undefined))];
    });
  } catch {
    return [];
  }
}

/** Returns the addresses of WEIR_LIMITERS, or that of a limiter on this machine with the default ports. */
function debugAddress({ endpoint }: AskAddress): string[] | undefined {
  if (io().env['WEIR_LIMITERS']) return [];
  if (endpoint === undefined || 'path' in endpoint) return undefined;
  const { host, port } = endpoint;
  const isDefault = port === 8081 && isLoopback(host);
  return isDefault ? [`${host.includes(':') ? `[${host}]` : host}:6070`] : undefined;
}
