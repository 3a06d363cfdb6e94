import type { Rule } from '../model.ts';
import type { Sides } from './compare-domain.ts';
import type { LimitEffect } from './limit-effect.ts';

/** A limit that others replace, or that replaces others, changes what applies beside it. */
export function replacingEffects(was: Rule, is: Rule, { before, after }: Sides): LimitEffect[] {
  const found: LimitEffect[] = [];
  const [old, now] = [was.rateLimit?.replaces ?? [], is.rateLimit?.replaces ?? []];
  const added = now.filter((name) => !old.includes(name));
  const dropped = old.filter((name) => !now.includes(name));
  const taking = `takes the place of ${added.join(', ')} in a request that has both`;
  if (added.length > 0) found.push({ effect: 'looser', note: taking });
  if (dropped.length > 0)
    found.push({ effect: 'stricter', note: `no longer takes the place of ${dropped.join(', ')}` });
  const wasReplaced = was.rateLimit !== undefined && before.isReplaced(was.rateLimit.name);
  const isReplaced = is.rateLimit !== undefined && after.isReplaced(is.rateLimit.name);
  if (was.rateLimit?.name === is.rateLimit?.name || wasReplaced === isReplaced) return found;
  if (wasReplaced) found.push({ effect: 'stricter', note: 'no other rule replaces it any more' });
  else found.push({ effect: 'looser', note: 'another rule replaces it now' });
  return found;
}
